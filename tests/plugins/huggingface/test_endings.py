"""How runs end, and how often they start: exceptions, interrupts, attempts, limits."""

from typing import Any

import pytest
from transformers import TrainerCallback

from tests.labs.huggingface import Recipe, Sleeps, read


class Boom(Exception):
    pass


def _raise_at(call: int, error: BaseException) -> Any:
    calls = iter(range(1, 1_000))

    def on_forward() -> None:
        if next(calls) == call:
            raise error

    return on_forward


def test_an_exception_leaves_the_rows_and_nothing_else(recipe: Recipe) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(callback, sleeps=Sleeps(item=5))
    error = Boom()
    trainer.model.on_forward = _raise_at(3, error)
    with pytest.raises(Boom) as caught:
        trainer.train()
    assert caught.value is error
    rank = read(callback)
    assert rank.status == "failed"
    assert rank.columns["step"] == [1, 2]
    assert rank.totals.steps_aborted == 1
    assert rank.totals.account_ns["aborted"] >= 10_000_000
    assert [(e.kind, e.detail) for e in rank.events if e.kind == "exception"] == [
        ("exception", "Boom")
    ]
    for owner in (trainer, trainer.accelerator, trainer.callback_handler):
        assert not [n for n, v in vars(owner).items() if hasattr(v, "__traintrace_done__")]
    assert "__call__" not in vars(type(trainer.model))


def test_an_interrupt_is_no_failure(recipe: Recipe) -> None:
    class Interrupts(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                raise KeyboardInterrupt

    callback = recipe.callback()
    with pytest.raises(KeyboardInterrupt):
        recipe.trainer(Interrupts, callback).train()
    rank = read(callback)
    assert rank.status == "interrupted"
    assert rank.columns["step"] == [1, 2]  # the update of step 2 was made before its callbacks ran
    assert rank.totals.steps_aborted == 0


@pytest.mark.parametrize(
    ("event", "steps"),
    [
        ("on_train_begin", 0),
        ("on_epoch_begin", 0),
        ("on_step_begin", 0),
        ("on_substep_end", 0),
        ("on_pre_optimizer_step", 0),
        ("on_optimizer_step", 0),
        ("on_step_end", 1),
        ("on_log", 1),
        ("on_evaluate", 1),
        ("on_prediction_step", 1),
        ("on_save", 1),
        ("on_epoch_end", 2),
        ("on_train_end", 2),
    ],
)
def test_an_exception_in_any_event_leaves_whole_books(
    recipe: Recipe, event: str, steps: int
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise Boom

    callback = recipe.callback()
    trainer = recipe.trainer(
        callback,
        type("Fails", (TrainerCallback,), {event: fail}),
        batches=4,
        accumulate=2,
        logging_strategy="steps",
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
    )
    with pytest.raises(Boom):
        trainer.train()
    rank = read(callback)
    assert rank.totals.steps == steps
    assert rank.status == "failed"
    inside = event in (
        "on_step_begin",
        "on_substep_end",
        "on_pre_optimizer_step",
        "on_optimizer_step",
    )
    assert rank.totals.steps_aborted == int(inside)


def test_recording_stops_after_max_steps_and_training_goes_on(recipe: Recipe) -> None:
    callback = recipe.callback(max_steps=2)
    trainer = recipe.trainer(callback)
    trainer.train()
    assert trainer.state.global_step == 5
    assert read(callback).columns["step"] == [1, 2]


def test_a_summary_can_be_read_at_any_moment(recipe: Recipe, with_report: None) -> None:
    seen: list[Any] = []

    class Reads(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 3:
                seen.append(callback.summary())

    callback = recipe.callback()
    recipe.trainer(callback, Reads).train()
    assert seen[0]["run"]["status"] == "running"
    assert seen[0]["counts"]["steps"] == 2
    summary = callback.summary()
    assert summary["run"]["status"] == "completed"
    assert summary["counts"]["steps"] == 5
    assert summary["run"]["framework"] == "transformers"
    folder = callback.run_folder
    assert folder is not None
    assert (folder / "final_summary.json").exists()
