"""A DDP training whose processes the script starts itself, as in torch's own tutorial."""

import os
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def train(rank: int, size: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ["PORT"]}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
    data: Any = [torch.ones(4)] * 24
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(data, batch_size=2, sampler=DistributedSampler(data)):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    processes: Any = torch.multiprocessing
    processes.spawn(train, args=(2,), nprocs=2)
