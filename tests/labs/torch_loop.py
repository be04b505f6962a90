"""What hand-written loops are tested with: modules of known length, whose own clock is the truth."""

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from traintrace import accounts, facts, open_run
from traintrace_plain_torch import Tracer, trace

BATCH = torch.ones(2, 4)
COLUMNS = (
    *("step", "epoch", "micro_batches", "samples", "start_ns", "open_ns", "duration_ns", "flags"),
    *(f"{name}_ns" for name in accounts.STEP_ACCOUNT_NAMES),
    *(f"{name}_calls" for name in accounts.PHASES),
    *(f"{name}_device_ns" for name in accounts.PHASES),
    *("peak_allocated_bytes", "peak_reserved_bytes", "rss_bytes"),
)


class Truth:
    """Sleeps for known lengths and adds up what they really took, by name [ns]."""

    def __init__(self) -> None:
        self.ns: dict[str, int] = {}

    def sleep(self, name: str, ms: float) -> None:
        start = time.perf_counter_ns()
        time.sleep(ms / 1e3)
        self.ns[name] = self.ns.get(name, 0) + time.perf_counter_ns() - start


class _SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sleep: Callable[[], None]) -> torch.Tensor:
        ctx.sleep = sleep
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.sleep()
        return grads[0], None


class Net(nn.Module):
    """Two layers and, where a truth is given, sleeps of `forward_ms` and `backward_ms`."""

    def __init__(
        self, truth: Truth | None = None, forward_ms: float = 0, backward_ms: float = 0
    ) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)
        self.truth, self.forward_ms, self.backward_ms = truth, forward_ms, backward_ms

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, truth = self.first(x), self.truth
        if truth is None:
            return self.second(hidden)
        truth.sleep("forward", self.forward_ms)
        apply: Any = _SlowBackward.apply
        hidden = apply(hidden, lambda: truth.sleep("backward", self.backward_ms))
        return self.second(hidden)


def sgd(*models: nn.Module) -> torch.optim.SGD:
    """Give an optimizer of all parameters of `models`."""
    return torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.01)


class Recorded:
    """What one traced loop left behind, with the books checked: accounts sum to the wall.

    Attributes:
        rank: All that was recorded. summary: the summary made of it.
    """

    def __init__(self, tracer: Tracer, rank: int = 0) -> None:
        assert tracer.run_folder is not None
        self.folder = tracer.run_folder
        self.rank = open_run(self.folder).facts(COLUMNS).ranks[rank]
        self.summary = tracer.summary()
        self.totals = self.rank.totals
        self.account_ns = self.totals.account_ns
        check_books(self.rank)

    def __getitem__(self, column: str) -> list[Any]:
        return list(self.rank.columns[column])

    def flagged(self, flag: int) -> list[bool]:
        return [bool((flags or 0) & flag) for flags in self["flags"]]

    def phase_calls(self, *names: str) -> tuple[list[int], ...]:
        """Give the calls per step of forward, backward and optimizer, or of the phases named."""
        return tuple(self[f"{name}_calls"] for name in names or accounts.GROUPS["compute"])


def check_books(rank: facts.RankFacts) -> None:
    """The laws of any run: accounts sum to the wall, rows tile, and every leave met its entry."""
    totals, columns = rank.totals, rank.columns
    assert sum(totals.account_ns.values()) == totals.wall_ns
    assert totals.unbalanced == 0
    edge = totals.start_ns
    for start, duration in zip(columns["start_ns"], columns["duration_ns"], strict=True):
        assert start == edge
        edge = (start or 0) + (duration or 0)


def trained(
    tmp_path: Path,
    model: nn.Module | None,
    optimizer: Any,
    step: Callable[[Any], object],
    batches: Any = 4,
    **options: Any,
) -> Recorded:
    """Run `step` on each batch in a traced loop (of so many batches, or of `batches`)."""
    options = {"run_dir": tmp_path / "runs", "print_report": False, **options}
    with trace(model, optimizer, **options) as tracer:
        for batch in tracer.batches([BATCH] * batches if isinstance(batches, int) else batches):
            with tracer.step():
                step(batch)
    return Recorded(tracer)


def update(
    model: Callable[[Any], torch.Tensor], optimizer: Any, batch: torch.Tensor = BATCH
) -> None:
    """Train on one batch."""
    loss: Any = model(batch).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


class CountingBackend:
    """A compiler that compiles nothing and counts the graphs it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: Any, inputs: Any) -> Any:
        self.graphs += 1
        return module.forward


def saved_and_loaded(model: nn.Module) -> nn.Module:
    """Pickle the whole module and read it back."""
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    loaded: nn.Module = torch.load(buffer, weights_only=False)
    return loaded


class Slow:
    """Batches that are slow to make; `truth` gets their time as `input_wait`."""

    def __init__(self, truth: Truth, ms: float, count: int) -> None:
        self._truth, self._ms, self._count = truth, ms, count

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(self._count):
            self._truth.sleep("input_wait", self._ms)
            yield BATCH
