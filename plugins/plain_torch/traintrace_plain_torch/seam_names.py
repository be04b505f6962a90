"""What tracing takes hold of in torch, as `module:attribute`: `traintrace doctor` looks whether it is there.

Imports nothing. An attribute that a release lacks costs the split that it stands for, and no more.
"""

from typing import Final

DISTRIBUTION: Final = "torch"
SEAMS: Final = {
    "torch.optim:Optimizer.__init__": "attaching",
    "torch.nn:Module.__call__": "forward",
    "torch.nn:Module.compile": "forward",
    "torch.autograd:backward": "backward",
    "torch.autograd:grad": "backward",
    "torch.optim:Optimizer.register_step_pre_hook": "optimizer",
    "torch.optim:Optimizer.register_step_post_hook": "optimizer",
    "torch.amp:GradScaler.step": "optimizer",
    "torch:Tensor.to": "h2d",
    "torch:Tensor.cuda": "h2d",
    "torch.utils.data:DataLoader.__iter__": "input_wait",
    "torch.utils.data.dataloader:_BaseDataLoaderIter.__next__": "input_wait",
    "torch.nn.parallel:DistributedDataParallel._sync_buffers": "communication",
    "torch.distributed:all_reduce": "communication",
}
