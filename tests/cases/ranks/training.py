"""What the D cases start with torchrun: `training.py FOLDER SCENARIO...`, each scenario a run of its own."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

from tests.labs.torch_loop import BATCH, sgd
from traintrace_plain_torch import trace

FOLDER = Path(sys.argv[1])
# Called by this name, torch's backward is not seen.
unseen_backward = torch.autograd.backward


class Net(nn.Module):
    """Two layers; the gradient of the first one's output comes after `backward_ms`."""

    def __init__(self, backward_ms: float = 0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)
        self.backward_ms = backward_ms

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden.register_hook(lambda gradient: sleep_ms(self.backward_ms))
        return self.second(hidden)


def sleep_ms(ms: float) -> None:
    time.sleep(ms / 1e3)


def read(ms: Callable[[int], float], steps: int) -> Iterator[torch.Tensor]:
    """Give batches; batch n takes `ms(n)` to read."""
    for number in range(steps):
        sleep_ms(ms(number))
        yield BATCH


def train(
    name: str,
    model: nn.Module,
    batches: Iterable[Any],
    backward: Callable[[torch.Tensor], Any] = torch.Tensor.backward,
    accumulate: int = 1,
    sync_always: bool = True,
) -> None:
    optimizer = sgd(model)
    with trace(model, optimizer, run_dir=FOLDER, name=name, print_report=False) as tracer:
        for number, batch in enumerate(tracer.batches(batches), start=1):
            is_last = number % accumulate == 0
            with tracer.step():
                no_sync: Any = getattr(model, "no_sync", nullcontext)
                with nullcontext() if is_last or sync_always else no_sync():
                    backward(model(batch).mean())
                if is_last:
                    optimizer.step()
                    optimizer.zero_grad()


def slow_input(rank: int) -> None:
    """Rank 1 reads slowly."""
    model = DistributedDataParallel(Net(backward_ms=2))
    train("slow-input", model, read(lambda n: 20 * (rank == 1), 80))


def slow_backward(rank: int) -> None:
    """Rank 1 has the slow backward."""
    train("slow-backward", DistributedDataParallel(Net(20 * (rank == 1))), [BATCH] * 80)


def missing_backward(rank: int) -> None:
    """Rank 1 reads slowly, and of rank 2 no backward is seen."""
    backward = unseen_backward if rank == 2 else torch.Tensor.backward
    model = DistributedDataParallel(Net(backward_ms=2))
    train("missing-backward", model, read(lambda n: 20 * (rank == 1), 40), backward)


def rotating(rank: int) -> None:
    """At each step another rank reads slowly."""
    turn = dist.get_world_size()
    batches = read(lambda n: 20 * (n % turn == rank), 80)
    train("rotating", DistributedDataParallel(Net(backward_ms=4)), batches)


def accumulating(rank: int) -> None:
    """Rank 1 is slow in each backward of four; once every one of them synchronises, once the last."""
    for name, sync_always in (("no-sync-missing", True), ("no-sync", False)):
        model = DistributedDataParallel(Net(backward_ms=15 * rank))
        train(name, model, [BATCH] * 48, accumulate=4, sync_always=sync_always)


class _Stream(IterableDataset[torch.Tensor]):
    """Items that only the one rank that reads is slow to get."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(160):  # four a step; ten steps are too few to compare ranks by
            sleep_ms(10)
            yield BATCH[0]


def dispatched(rank: int) -> None:
    """Rank 0 reads for everyone, as accelerate does with iterable data."""
    # accelerate has no types; its import takes seconds that other scenarios need not wait.
    from accelerate import Accelerator  # type: ignore[import-untyped]
    from accelerate.utils import DataLoaderConfiguration  # type: ignore[import-untyped]

    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=True)
    )
    model, loader = accelerator.prepare(Net(), DataLoader(_Stream(), batch_size=2))
    train("dispatched", model, loader, accelerator.backward)


def one_dies(rank: int) -> None:
    """Rank 1 is gone after its fifth step; the others have nothing to do with it."""

    def batches() -> Iterator[torch.Tensor]:
        for number in range(20):
            if rank == 1 and number == 5:
                os._exit(0)
            sleep_ms(5)
            yield BATCH
        (FOLDER / f"trained-{rank}").touch()

    train("one-dies", Net(), batches())


def restarted(rank: int) -> None:
    """The first attempt crashes after 5 steps, the second does 10."""
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

    def batches() -> Iterator[torch.Tensor]:
        for number in range(10):
            if first and number == 5:
                dist.barrier()  # so that no rank is ended by the launcher before its fifth step
                raise RuntimeError("crash")
            sleep_ms(5)
            yield BATCH

    train("restarted", DistributedDataParallel(Net()), batches())


def more_memory(rank: int) -> None:
    """Rank 2 holds 300 MB more than the others."""
    held = torch.ones(300_000_000 * (rank == 2), dtype=torch.uint8)
    train("more-memory", DistributedDataParallel(Net()), read(lambda n: 10, 40))
    del held


def join_ranks() -> None:
    """Start the process group; torch 2.13 may find the addresses of a crashed attempt in the store."""
    environment, torch_distributed = os.environ, cast(Any, dist)  # it exports no stores to mypy
    store = torch_distributed.TCPStore(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]))
    attempt = torch_distributed.PrefixStore(environment["TORCHELASTIC_RESTART_COUNT"], store)
    rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    dist.init_process_group("gloo", store=attempt, rank=rank, world_size=size)


if __name__ == "__main__":
    join_ranks()
    for scenario in sys.argv[2:]:
        globals()[scenario](dist.get_rank())
    dist.destroy_process_group()
