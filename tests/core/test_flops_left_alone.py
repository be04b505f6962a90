"""Counting leaves nothing on and ends no training: odd operations, modes of the user's own, signals half-way."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    is_in_torch_dispatch_mode,
)

from tests.core.test_flops_unchanged import STEPS, vectors
from tests.labs.counted import mean_square, no_graphs, train
from traintrace.pytorch.flop_watcher import FlopWatcher

__all__ = ["no_graphs"]


def test_an_operation_that_no_formula_can_read_is_no_error_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of two vectors has no matrix to take the number format from."""

    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output = self.layer(x).tanh()
            return torch.stack([output[0].dot(output[1]), output[2].inner(output[3])])

    def refuse(*args: Any) -> int:
        raise RuntimeError("of a shape nobody thought of")

    counted = train(tmp_path / "a", Products, vectors())
    assert {step.total for step in counted.flops.counted} == {2 * 2 * 4 * 8 * 4 + 2 * 2 * 4}
    monkeypatch.setattr("traintrace.pytorch.flop_watcher.operations", refuse)
    unread = train(tmp_path / "b", Products, vectors())
    assert "aten.dot.default" in unread.flops.uncounted
    assert unread.same_as(counted)


def test_a_mode_that_stays_on_beyond_the_call_keeps_its_place_and_ours_goes(tmp_path: Path) -> None:
    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    class Opening(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            opened.append(Mode())  # type: ignore[no-untyped-call]
            opened[-1].__enter__()  # type: ignore[no-untyped-call]
            output: torch.Tensor = self.layer(x)
            return output

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        value = mean_square(model, batch)
        stacks.append(_get_current_dispatch_mode_stack() == [opened[-1]])
        opened[-1].__exit__(None, None, None)  # type: ignore[no-untyped-call]
        return value

    opened: list[Mode] = []
    stacks: list[bool] = []
    counted = train(tmp_path, Opening, vectors(), loss=loss)
    assert counted.flops.counted
    assert stacks == [True] * STEPS
    assert _get_current_dispatch_mode() is None
    assert not is_in_torch_dispatch_mode()


def test_what_a_signal_ended_half_way_is_made_up_for() -> None:
    """Ctrl-C in a notebook while torch enters or leaves the mode: the process goes on without it."""
    leaving, entering = FlopWatcher(), FlopWatcher()
    leaving.put_on()
    leaving.old_dispatch_mode_flags.pop()  # what torch does first when it leaves
    leaving.take_off()
    entering.put_on()
    _pop_mode()  # what torch does last when it enters, undone
    entering.take_off()
    assert _get_current_dispatch_mode() is None
    assert not is_in_torch_dispatch_mode()
