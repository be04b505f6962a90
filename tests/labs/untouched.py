"""A small model and slow data for loops that nobody changed; truth is what the data's own clock saw."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from traintrace import facts, open_run
from traintrace_plain_torch import Tracer, trace

COLUMNS = [
    "micro_batches", "samples", "epoch", "flags", "input_wait_ns", "input_wait_calls",
    "forward_calls", "backward_calls", "optimizer_calls",
]  # fmt: skip
Untouched = Callable[..., tuple[Tracer, nn.Module, torch.optim.Optimizer]]


class Net(nn.Module):
    """A class of its own, as users have."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Slow:
    """A data set of rows, each of which takes a known time to read."""

    def __init__(self, length: int, ms: float = 0.0) -> None:
        self.length, self.ms = length, ms
        self.slept_ns = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.ms:
            start = time.perf_counter_ns()
            time.sleep(self.ms / 1e3)
            self.slept_ns += time.perf_counter_ns() - start
        return torch.full((4,), float(index))


def loader_of(data: Any, **options: Any) -> Any:
    """Give a loader of pairs over `data`, or over that many quick rows."""
    if isinstance(data, int):
        data = Slow(data)
    return DataLoader(data, **{"batch_size": 2, **options})


def make_untouched(folder: Path) -> Untouched:
    """Give what makes a tracer, a model and its optimizer."""

    def make(**options: Any) -> tuple[Tracer, nn.Module, torch.optim.Optimizer]:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        options = {"run_dir": folder / "runs", "print_report": False, **options}
        return trace(model, optimizer, **options), model, optimizer

    return make


def rank_of(tracer: Tracer) -> facts.RankFacts:
    """Read the run, and check that its accounts are its wall."""
    assert tracer.run_folder is not None
    rank = open_run(tracer.run_folder).facts(COLUMNS).ranks[0]
    assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
    return rank


def update(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> None:
    """Do what a training step does."""
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def keeping_gradients(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor
) -> None:
    """Do a step in the order of most tutorials: the gradients outlive it."""
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
