"""Train a small network on made-up data under DDP, on the CPU: what the walk-through compares.

traintrace run --nproc-per-node 2 train_ddp.py --steps 60
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE, FEATURES, CLASSES = 32, 64, 10


def main() -> None:
    """Train on this rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--slower-ms", type=float, default=0.0, help="sleep so long in every forward"
    )
    settings = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    samples = settings.steps * BATCH_SIZE
    data = TensorDataset(torch.randn(samples, FEATURES), torch.randint(CLASSES, (samples,)))
    net = nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    net.register_forward_pre_hook(lambda *_: time.sleep(settings.slower_ms / 1e3))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for features, labels in DataLoader(data, batch_size=BATCH_SIZE):
        loss = nn.functional.cross_entropy(model(features), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
