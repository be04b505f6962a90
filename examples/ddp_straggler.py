"""Train under DDP while one rank is slow in one phase, and see the report name both.

torchrun --nproc-per-node 4 examples/ddp_straggler.py --phase backward --rank 1 --delay-ms 30

All ranks take as long per step, since each waits for the slowest. What tells them apart is their own
work: the time until a rank begins to wait for the others' gradients.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from digits import Digits, Net
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler, default_collate

from traintrace_plain_torch import trace

PHASES = ("input", "h2d", "forward", "backward", "optimizer", "none")
BATCH_SIZE = 8


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--phase", choices=PHASES, default="backward", help="where the rank is slow"
    )
    parser.add_argument("--rank", type=int, default=1, help="the slow one; -1 makes all ranks slow")
    parser.add_argument("--delay-ms", type=float, default=30.0, help="how slow, in every step")
    parser.add_argument("--work-ms", type=float, default=5.0, help="what forward takes on any rank")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--run-dir", type=Path, default=Path("runs"))
    parser.add_argument("--name", default="ddp-straggler")
    return parser.parse_args(arguments)


def train(settings: argparse.Namespace) -> None:
    """Train on this rank; rank 0 prints the report of all of them at the end."""
    slow = settings.rank in (dist.get_rank(), -1)

    def delay_in(phase: str) -> Callable[..., None]:
        """Give what sleeps if this rank is slow in `phase`, whatever it is called with."""
        ms = settings.delay_ms if slow and phase == settings.phase else 0.0
        return lambda *_: time.sleep(ms / 1e3) if ms else None

    torch.manual_seed(0)
    net = Net()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = make_loader(settings.steps, delay_in("input"))

    # Forward and optimizer sleep where they begin, backward where it comes to the first layer.
    optimizer.register_step_pre_hook(delay_in("optimizer"))
    net.register_forward_pre_hook(lambda *_: time.sleep(settings.work_ms / 1e3))
    net.register_forward_pre_hook(delay_in("forward"))
    sleep_backward, sleep_transfer = delay_in("backward"), delay_in("h2d")

    def sleep_when_its_gradient_comes(module: nn.Module, inputs: Any, output: Any) -> None:
        output.register_hook(sleep_backward)

    net.layers[0].register_forward_hook(sleep_when_its_gradient_comes)

    with trace(model, optimizer, run_dir=settings.run_dir, name=settings.name) as tracer:
        for images, labels in tracer.batches(loader):
            with tracer.step():
                with tracer.phase("h2d"):  # with a GPU, `images.to(device)` is seen by itself
                    sleep_transfer()
                loss: Any = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()


def make_loader(steps: int, delay: Callable[..., None]) -> DataLoader[Any]:
    """Give `steps` batches of digits, drawn by each rank for itself; `delay` is called in each."""

    def collate(samples: list[Any]) -> Any:
        delay()
        return default_collate(samples)

    digits = Digits(fast=True)
    draws = torch.Generator().manual_seed(dist.get_rank())
    sampler = RandomSampler(digits, True, steps * BATCH_SIZE, draws)
    return DataLoader(digits, BATCH_SIZE, sampler=sampler, collate_fn=collate)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(parse())
    dist.destroy_process_group()
