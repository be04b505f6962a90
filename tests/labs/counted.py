"""Hand-written loops whose floating-point work is known, traced with counting on and untraced."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from traintrace import accounts, open_run
from traintrace.facts import RankFacts
from traintrace.flopfacts import FlopFacts
from traintrace_plain_torch import trace

COLUMNS = ("step", "flags", *(f"{name}_ns" for name in accounts.STEP_ACCOUNT_NAMES))
Loss = Callable[[nn.Module, Any], torch.Tensor]


@pytest.fixture(autouse=True)
def no_graphs() -> None:
    """Let nothing count as compiled that another test of this process has compiled."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.counters.clear()


class Trained(NamedTuple):
    """What a loop left: losses and weights bit for bit, and the record if it was traced."""

    losses: list[float]
    weights: list[torch.Tensor]
    rank: RankFacts | None
    folder: Path | None

    @property
    def flops(self) -> FlopFacts:
        assert self.rank is not None
        assert self.rank.flops is not None
        return self.rank.flops

    def same_as(self, other: "Trained") -> bool:
        """Say whether losses and weights are the same to the bit."""
        pairs = zip(self.weights, other.weights, strict=True)
        return self.losses == other.losses and all(torch.equal(a, b) for a, b in pairs)


def mean_square(model: nn.Module, batch: Any) -> torch.Tensor:
    output: torch.Tensor = model(batch)
    return output.square().mean()


def train(
    folder: Path | None,
    make: Callable[[], nn.Module],
    batches: Iterable[Any],
    *,
    loss: Loss = mean_square,
    accumulate: int = 1,
    between: Callable[[nn.Module], object] = lambda model: None,
    **options: Any,
) -> Trained:
    """Train a fresh model on `batches`; traced, with steps counted, unless `folder` is None."""
    torch.manual_seed(7)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    settings: dict[str, Any] = {"flops_per_step": "count", "print_report": False, **options}
    losses = []
    with trace(
        model, optimizer, run_dir=folder or ".", enabled=folder is not None, **settings
    ) as tracer:
        for number, batch in enumerate(tracer.batches(list(batches)), 1):
            with tracer.step():
                value = loss(model, batch)
                value.backward()  # type: ignore[no-untyped-call]
                losses.append(value.item())
                if number % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            if number % accumulate == 0:
                between(model)
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    if folder is None:
        return Trained(losses, weights, None, None)
    assert tracer.run_folder is not None
    rank = open_run(tracer.run_folder).facts(COLUMNS).ranks[0]
    return Trained(losses, weights, rank, tracer.run_folder)


def two_layers() -> nn.Module:
    """Give a model whose work per sample is `two_layers_flops(1)`."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def two_layers_flops(samples: int) -> int:
    """Give the work of forward and backward; the first layer's input needs no gradient."""
    first, second = 2 * samples * 8 * 16, 2 * samples * 16 * 4
    return 2 * first + 3 * second


def random_batches(*sizes: int, width: int = 8) -> Sequence[torch.Tensor]:
    """Give batches of these sizes, always the same."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(size, width, generator=generator) for size in sizes]
