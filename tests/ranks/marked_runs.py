"""What `two_ranks.py` runs for `test_marks.py`: models whose gradients come in unusual orders.

In every run the first layer's backward takes 20 ms longer on rank 1.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tests.labs.torch_loop import CountingBackend, sgd
from traintrace_plain_torch import trace

BATCH = torch.ones(2, 4)
SLOWER_MS = 20
STEPS = 10

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")  # imported for its numbers too


class Slow(nn.Module):
    """A layer; on rank 1 its output's gradient is slow to come."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if y.requires_grad:
            y.register_hook(lambda grad: time.sleep(SLOWER_MS * dist.get_rank() / 1e3))
        return y


class Net(nn.Module):
    """A slow layer under two heads, of which each call uses one."""

    def __init__(self, heads: int = 1, reentrant: bool | None = None, norm: bool = False) -> None:
        super().__init__()
        self.slow, self.mid = Slow(), nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4) if norm else nn.Identity()
        self.heads = nn.ModuleList(nn.Linear(4, 1) for _ in range(heads))
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor, head: int = 0) -> torch.Tensor:
        if self.reentrant is None:
            x = self.mid(self.slow(x))
        else:
            x = x.clone().requires_grad_()
            for part in (self.slow, self.mid):
                x = checkpoint(part, x, use_reentrant=self.reentrant)
        return self.heads[head](self.norm(x))


def train(
    name: str, step: Callable[[int], object], *models: nn.Module, given: nn.Module | None = None
) -> None:
    optimizer = sgd(*models)
    with trace(
        given or models[0], optimizer, run_dir=FOLDER, name=name, print_report=False
    ) as tracer:
        for number, _ in enumerate(tracer.batches([BATCH] * STEPS)):
            with tracer.step():
                step(number)
                optimizer.step()
                optimizer.zero_grad()


def one(name: str, net: nn.Module, **options: Any) -> None:
    model = DistributedDataParallel(net, **options)
    train(name, lambda number: model(BATCH).mean().backward(), model)


def static_graph() -> None:
    one("static-graph", Net(), static_graph=True)


def last_parameter_unused() -> None:
    one("last-parameter-unused", Net(heads=2), find_unused_parameters=True)


def heads_in_turn() -> None:
    model = DistributedDataParallel(Net(heads=2), find_unused_parameters=True)
    train("heads-in-turn", lambda number: model(BATCH, number % 2).mean().backward(), model)


def last_parameter_frozen_later() -> None:
    net = Net()
    model = DistributedDataParallel(net, find_unused_parameters=True)

    def step(number: int) -> None:
        if number == STEPS // 2:
            net.heads.requires_grad_(False)
        model(BATCH).mean().backward()

    train("last-parameter-frozen-later", step, model)


def nothing_of_it_used() -> None:
    """All that the first backward used is frozen later: nothing marks the end of own work any more."""
    net = Net(heads=2)
    model = DistributedDataParallel(net, find_unused_parameters=True)

    def step(number: int) -> None:
        if number == STEPS // 2:
            net.requires_grad_(False)
            net.heads[1].requires_grad_()
        model(BATCH, int(number >= STEPS // 2)).mean().backward()

    train("nothing-of-it-used", step, model)


def checkpointed() -> None:
    one("reentrant", Net(reentrant=True))
    one("not-reentrant", Net(reentrant=False))


def two_modules() -> None:
    first, second = DistributedDataParallel(Net()), DistributedDataParallel(Net())
    train(
        "two-modules-in-one-backward",
        lambda number: (first(BATCH) + second(BATCH)).mean().backward(),
        first,
        second,
    )


def compiled() -> None:
    backend = CountingBackend()
    model: Any = torch.compile(DistributedDataParallel(Net(norm=True)), backend=backend)
    train("compiled", lambda number: model(BATCH).mean().backward(), model)
    traced = backend.graphs
    for _ in range(3):
        model(BATCH).mean().backward()
    torch.compiler.reset()
    fresh = CountingBackend()
    model = torch.compile(DistributedDataParallel(Net(norm=True)), backend=fresh)
    for _ in range(3):
        model(BATCH).mean().backward()
    assert traced == backend.graphs == fresh.graphs > 0


def logged_by_ddp() -> None:
    """DDP's own logger, asked at every step: at each forward it renews what it says of the step before."""
    model: Any = DistributedDataParallel(Net())
    model._set_ddp_runtime_logging_sample_rate(1)  # free on CPU; never on an accelerator
    logged: list[int | None] = []

    def step(number: int) -> None:
        output = model(BATCH)
        logged.append(model._get_ddp_logging_data().get("backward_compute_time"))
        output.mean().backward()

    train("logged-by-ddp", step, model)
    (FOLDER / f"logged-{dist.get_rank()}.json").write_text(json.dumps(logged[1:]), "utf-8")


def sharded() -> None:
    model = Net()
    fully_shard(model.slow)
    fully_shard(model)
    train("sharded", lambda number: model(BATCH).mean().backward(), model)


def collectives() -> None:
    """Rank 1 is late to collectives of its own loop, and to the broadcast of its model's buffers."""
    model = DistributedDataParallel(Net(norm=True))

    def average_the_loss(number: int) -> None:
        loss = model(BATCH).mean()
        loss.backward()
        time.sleep(SLOWER_MS * dist.get_rank() / 1e3)
        dist.all_reduce(loss.detach().clone())

    train("average-of-the-loss", average_the_loss, model)

    def late_for_forward(number: int) -> None:
        time.sleep(SLOWER_MS * dist.get_rank() / 1e3)
        model(BATCH).mean().backward()

    train("broadcast-of-buffers", late_for_forward, model)
    assert dist.all_reduce is dist.distributed_c10d.all_reduce


SCENARIOS: tuple[Callable[[], None], ...] = (
    collectives,
    static_graph,
    last_parameter_unused,
    heads_in_turn,
    last_parameter_frozen_later,
    nothing_of_it_used,
    checkpointed,
    two_modules,
    logged_by_ddp,
    sharded,
    compiled,
)
