"""What never reaches training: faults of the tracer itself."""

import warnings
from typing import Any

import pytest

import traintrace_huggingface.boundaries
from tests.labs.huggingface import Recipe, read
from traintrace import TraintraceWarning
from traintrace.recording.steps import StepCapture
from traintrace_huggingface import callback as callback_module
from traintrace_huggingface import opening


@pytest.mark.parametrize(
    ("place", "name", "steps"),
    [
        (callback_module, "open_session", None),
        (opening, "describe", None),
        (traintrace_huggingface.boundaries, "batch_sizes", 3),
        (StepCapture, "complete", None),
    ],
)
def test_a_fault_of_ours_is_told_once_and_training_goes_on(
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    faults_are_reported: None,
    place: Any,
    name: str,
    steps: int | None,
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(place, name, broken)
    callback = recipe.callback()
    trainer = recipe.trainer(
        callback, batches=4 if steps is None else 3, accumulate=2 if steps is None else 1
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    ours = [w for w in caught if w.category is TraintraceWarning]
    assert len(ours) == 1, [str(w.message) for w in ours]
    assert "Training is not affected" in str(ours[0].message)
    assert trainer.state.global_step == (2 if steps is None else 3)
    if steps is not None:
        assert len(read(callback).columns["step"]) == steps
