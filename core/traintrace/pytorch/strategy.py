"""How the processes of a job share one model: the vocabulary of `facts.Setup.strategy`.

| name                | means                                                                        |
|---------------------|------------------------------------------------------------------------------|
| single_process      | one process trains; it may use several devices only through `dp`             |
| dp                  | `nn.DataParallel`: one process, threads over several devices                 |
| ddp                 | `DistributedDataParallel`: whole replicas, gradients all-reduced in backward |
| fsdp                | `FullyShardedDataParallel`: sharded by a wrapper                             |
| fsdp2               | `fully_shard`: sharded in place. Waits lie where they do under `fsdp`        |
| deepspeed           | a DeepSpeed engine                                                           |
| distributed_unknown | several processes, and none of the above was recognised in the model         |

None means that no model was given. A framework that knows of yet another strategy gives its own name of it.
"""

import os
from typing import Final, Literal, get_args

import torch
from torch import nn

from traintrace.pytorch.forward import unwrap

Strategy = Literal[
    "single_process", "dp", "ddp", "fsdp", "fsdp2", "deepspeed", "distributed_unknown"
]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)

# By the name of a class among the model's bases; none of these is imported for this.
_BY_CLASS: Final[tuple[tuple[str, Strategy], ...]] = (
    ("DeepSpeedEngine", "deepspeed"),
    ("DistributedDataParallel", "ddp"),
    ("FullyShardedDataParallel", "fsdp"),
    ("FSDPModule", "fsdp2"),
    ("DataParallel", "dp"),
)


def strategy_of(model: nn.Module) -> Strategy:
    """Tell how `model` is shared, from the classes of its wrappers and, for sharding, of its parts."""
    for module in (model, without_compiler(model), unwrap(model)):
        found = _by_class(module)
        if found is not None:
            return found
    # Sharding may be applied to blocks alone, under a root that is the user's own.
    for module in model.modules():
        found = _by_class(module)
        if found in ("fsdp", "fsdp2"):
            return found
    return "distributed_unknown" if has_other_processes() else "single_process"


def without_compiler(model: nn.Module) -> nn.Module:
    """Give what `torch.compile` was called with, or `model` itself."""
    compiled = type(model).__name__ == "OptimizedModule"
    return getattr(model, "_orig_mod", model) if compiled else model


def _by_class(module: object) -> Strategy | None:
    names = {cls.__name__ for cls in type(module).__mro__}
    for name, strategy in _BY_CLASS:
        if name in names:
            return strategy
    return None


def has_other_processes() -> bool:
    """Say whether this process is one of several of a job, as far as is known by now."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        if distributed.get_world_size() > 1:
            return True
    size = os.environ.get("WORLD_SIZE", "")
    return size.isdecimal() and int(size) > 1
