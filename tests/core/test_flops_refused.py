"""Steps in which counting could change a result are left alone, and the run says why."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode, is_in_torch_dispatch_mode

from tests.core.test_flops_unchanged import Mixed, vectors, words
from tests.labs.counted import Loss, mean_square, no_graphs, train, two_layers
from traintrace.pytorch.flop_refusals import CPU_AUTOCAST

__all__ = ["no_graphs"]


class Paired(nn.Module):
    """`nn.Bilinear`: autocast computes its inside in bfloat16, and a dispatch mode keeps autocast out of it."""

    def __init__(self) -> None:
        super().__init__()
        self.pair, self.last = nn.Bilinear(8, 8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.last(self.pair(x, x))
        return output


class Inverted(nn.Module):
    """`torch.linalg.pinv` of a weight; under autocast nothing learns through it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.last = nn.Parameter(torch.randn(4, 8)), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.last(x @ torch.linalg.pinv(self.weight.detach()))
        return output


class Inside(nn.Module):
    """Switches autocast on itself, as a Trainer that wraps `forward` does, and off again."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.before, self.inner = nn.Linear(8, 8), inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x).tanh()
        with torch.autocast("cpu"):
            output: torch.Tensor = self.inner(x)
        return output.float()


def under_autocast(model: nn.Module, batch: Any) -> torch.Tensor:
    with torch.autocast("cpu"):
        output = model(batch)
    value: torch.Tensor = output.float().square().mean()
    return value


@pytest.mark.parametrize(
    ("make", "batches", "loss"),
    [
        (Paired, vectors, under_autocast),
        (Inverted, vectors, under_autocast),
        (two_layers, vectors, under_autocast),
        (Mixed, words, under_autocast),
        (lambda: Inside(Paired()), vectors, mean_square),
        (lambda: Inside(Inverted()), vectors, mean_square),
    ],
)
def test_autocast_on_the_cpu_is_not_counted_and_not_changed(
    tmp_path: Path, make: Callable[[], nn.Module], batches: Callable[[], Any], loss: Loss
) -> None:
    ran, plain = (train(folder, make, batches(), loss=loss) for folder in (tmp_path, None))
    assert ran.same_as(plain)
    assert (ran.flops.counted, ran.flops.not_counted) == ((), CPU_AUTOCAST)
    assert _get_current_dispatch_mode() is None


def test_a_backward_under_autocast_is_not_counted(tmp_path: Path) -> None:
    """The forward is counted and the backward is not: half a count is none."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = nn.Bilinear(8, 8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.pair(x, x)
            return output

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        value = mean_square(model, batch)
        with torch.autocast("cpu"):
            value.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        return value

    ran, plain = (train(folder, Loop, vectors(), loss=loss) for folder in (tmp_path, None))
    assert ran.same_as(plain)
    assert (ran.flops.counted, ran.flops.not_counted) == ((), CPU_AUTOCAST)


def test_autocast_that_is_off_is_no_reason(tmp_path: Path) -> None:
    class Guarded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", enabled=False):
                output: torch.Tensor = self.layer(x)
            return output

    assert train(tmp_path, Guarded, vectors()).flops.counted


@pytest.mark.parametrize("enabled", [True, False])
def test_the_function_that_switches_autocast_is_torchs_own_afterwards(
    tmp_path: Path, enabled: bool
) -> None:
    original = torch.set_autocast_enabled
    seen = []

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu") if enabled else nullcontext():
            value = mean_square(model, batch).float()
        seen.append(torch.set_autocast_enabled)
        return value

    train(tmp_path, two_layers, vectors(), loss=loss)
    assert set(seen) == {original}
    assert torch.set_autocast_enabled is original
    assert not is_in_torch_dispatch_mode()
