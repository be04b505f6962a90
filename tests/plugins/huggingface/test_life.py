"""How runs begin and end: exceptions, attempts, owners, copies, and what never reaches training."""

import copy
import gc
import pickle
import subprocess
import sys
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import accelerate  # type: ignore[import-untyped]  # accelerate has no types
import pytest
import torch
from packaging.version import Version
from transformers import Trainer, TrainerCallback

import traintrace_huggingface.boundaries
from traintrace import TraintraceWarning, UsageError
from traintrace.steps import StepCapture
from traintrace_huggingface import TraceCallback, opening
from traintrace_huggingface import callback as callback_module
from traintrace_huggingface.attach import attach

PLAIN_TRAIN = Trainer.train


class Boom(Exception):
    pass


def _raise_at(call: int, error: BaseException) -> Any:
    calls = iter(range(1, 1_000))

    def on_forward() -> None:
        if next(calls) == call:
            raise error

    return on_forward


def test_an_exception_leaves_the_rows_and_nothing_else(recipe: Any, tools: Any) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(callback, sleeps=tools.Sleeps(item=5))
    error = Boom()
    trainer.model.on_forward = _raise_at(3, error)
    with pytest.raises(Boom) as caught:
        trainer.train()
    assert caught.value is error
    rank = tools.read(callback)
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


def test_an_interrupt_is_no_failure(recipe: Any, tools: Any) -> None:
    class Interrupts(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                raise KeyboardInterrupt

    callback = recipe.callback()
    with pytest.raises(KeyboardInterrupt):
        recipe.trainer(Interrupts, callback).train()
    rank = tools.read(callback)
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
    recipe: Any, tools: Any, event: str, steps: int
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
    rank = tools.read(callback)
    assert rank.totals.steps == steps
    assert rank.status == "failed"
    inside = event in (
        "on_step_begin",
        "on_substep_end",
        "on_pre_optimizer_step",
        "on_optimizer_step",
    )
    assert rank.totals.steps_aborted == int(inside)


def test_failed_attempts_of_a_batch_size_search_are_aborted(recipe: Any, tools: Any) -> None:
    class TooBig(tools.Net):  # type: ignore[misc]
        def think(self, x: torch.Tensor, labels: Any) -> Any:
            if len(x) > 2:
                time.sleep(0.02)
                raise RuntimeError("CUDA out of memory.")
            return super().think(x, labels)

    callback = recipe.callback()
    trainer = recipe.trainer(
        callback,
        model=TooBig(recipe.truth, tools.Sleeps()),
        batch_size=4,
        batches=2,
        auto_find_batch_size=True,
        own_optimizer=False,
    )
    trainer.train()
    rank = tools.read(callback)
    assert rank.columns["step"] == [1, 2, 3, 4]
    assert rank.columns["samples"] == [2, 2, 2, 2]
    tried = [3, 2] if Version(accelerate.__version__) >= Version("1.2") else [2]
    assert rank.totals.steps_aborted == len(tried)
    assert rank.totals.account_ns["aborted"] >= 20_000_000 * len(tried)
    assert rank.columns["forward_calls"] == [1, 1, 1, 1]
    attempts = [event for event in rank.events if event.kind == "attempt"]
    assert [event.detail.split(";")[0] for event in attempts] == [
        f"attempt {number} at batch size {size}" for number, size in enumerate(tried, 2)
    ]
    assert rank.setup.batch_size == 2


def test_one_callback_serves_one_train_after_another(recipe: Any, tools: Any) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(callback, batches=3)
    folders = []
    for _ in range(2):
        trainer.train()
        assert tools.read(callback).columns["step"] == [1, 2, 3]
        folders.append(callback.run_folder)
    assert folders[0] != folders[1]


def test_of_two_callbacks_the_first_records(recipe: Any, tools: Any) -> None:
    first, second = recipe.callback(), recipe.callback()
    recipe.trainer(first, second, batches=2).train()
    assert tools.read(first).columns["step"] == [1, 2]
    assert second.run_folder is None


def test_a_trainer_without_the_callback_records_nothing(recipe: Any, tools: Any) -> None:
    callback = recipe.callback()
    other = recipe.trainer(batches=2)
    recipe.trainer(callback, batches=2)
    other.train()
    assert callback.run_folder is None
    other.add_callback(callback)
    other.train()
    assert tools.read(callback).columns["step"] == [1, 2]


def test_a_traced_training_inside_a_traced_one_stays_passive(recipe: Any, tools: Any) -> None:
    inner = recipe.callback()
    other = recipe.trainer(inner, batches=2)

    class Trains(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 1:
                with pytest.warns(TraintraceWarning, match="active on this thread already"):
                    other.train()

    outer = recipe.callback()
    recipe.trainer(outer, Trains, batches=3).train()
    assert tools.read(outer).columns["micro_batches"] == [1, 1, 1]
    assert inner.run_folder is None


def test_the_shim_is_there_while_a_callback_lives_and_never_twice(recipe: Any) -> None:
    assert Trainer.train is PLAIN_TRAIN
    callbacks = [recipe.callback() for _ in range(3)]
    assert vars(Trainer.train)["__wrapped__"] is PLAIN_TRAIN
    while callbacks:
        assert Trainer.train is not PLAIN_TRAIN
        callbacks.append(recipe.callback())  # overlapping lives, as in a loop over Trainers
        del callbacks[:2]
        if len(callbacks) < 3:
            callbacks.clear()
    assert Trainer.train is PLAIN_TRAIN


def test_a_disabled_callback_installs_nothing(recipe: Any) -> None:
    callback = recipe.callback(enabled=False)
    assert Trainer.train is PLAIN_TRAIN
    recipe.trainer(callback, batches=1).train()
    assert callback.run_folder is None
    assert callback.summary() == {}
    assert not (recipe.folder / "runs").exists()


def test_a_callback_builds_without_arguments_and_copies_start_clean(
    recipe: Any, tools: Any
) -> None:
    assert TraceCallback().run_folder is None
    callback = recipe.callback(name="mine", max_steps=3)
    recipe.trainer(callback, batches=2).train()
    for twin in (
        copy.deepcopy(callback),
        pickle.loads(pickle.dumps(callback)),
        copy.copy(callback),
    ):
        assert twin._options == callback._options
        assert twin.run_folder is None
    with pytest.raises(UsageError, match="max_steps"):
        TraceCallback(max_steps=0)


def test_a_copy_traces_too(recipe: Any, tools: Any) -> None:
    twin = copy.deepcopy(recipe.callback())
    recipe.trainer(twin, batches=2).train()
    assert tools.read(twin).columns["step"] == [1, 2]


def test_models_pickle_and_copy_during_training(recipe: Any, tools: Any) -> None:
    class Copies(TrainerCallback):
        copies: list[Any] = []  # noqa: RUF012 - read by the test

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            inner = kwargs["model"].inner
            Copies.copies += [copy.deepcopy(inner), pickle.loads(pickle.dumps(inner))]
            Copies.copies.append(copy.deepcopy(kwargs["optimizer"].state_dict()))
            assert type(kwargs["model"]) is tools.Net

    callback = recipe.callback()
    trainer = recipe.trainer(callback, Copies, batches=2)
    trainer.train()
    assert tools.read(callback).columns["forward_calls"] == [1, 1]
    twin = Copies.copies[0]
    assert list(vars(twin)) == list(vars(trainer.model.inner))
    assert twin(torch.ones(2, 4)).shape == (2, 1)


def test_a_trainer_is_not_kept_by_its_callback(recipe: Any, tools: Any) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(callback, batches=1)
    trainer.train()
    gone = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert gone() is None
    assert tools.read(callback).columns["step"] == [1]


def test_an_overridden_collection_has_no_input_wait(recipe: Any, tools: Any) -> None:
    class Own(Trainer):
        def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
            time.sleep(0.005)
            return super().get_batch_samples(*args, **kwargs)

    callback = recipe.callback()
    trainer = recipe.trainer(
        callback, kind=Own, sleeps=tools.Sleeps(item=5), batches=3, stream=True, max_steps=4
    )
    with pytest.warns(TraintraceWarning, match="get_batch_samples") as caught:
        trainer.train()
    assert len([w for w in caught if w.category is TraintraceWarning]) == 1
    rank = tools.read(callback)
    assert rank.columns["micro_batches"] == [1, 1, 1, 1]
    assert set(rank.columns["input_wait_ns"]) == {None}
    assert "get_batch_samples" in rank.unmeasured["input_wait"]
    assert rank.totals.inside_ns["batch_prep"] >= 4 * 5_000_000
    assert rank.totals.steps_aborted == 0
    assert rank.totals.account_ns["epoch_boundary"] >= 5_000_000  # the request that came back empty


def test_a_summary_can_be_read_at_any_moment(recipe: Any, tools: Any, with_report: None) -> None:
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


def test_recording_stops_after_max_steps_and_training_goes_on(recipe: Any, tools: Any) -> None:
    callback = recipe.callback(max_steps=2)
    trainer = recipe.trainer(callback)
    trainer.train()
    assert trainer.state.global_step == 5
    assert tools.read(callback).columns["step"] == [1, 2]


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
    recipe: Any,
    tools: Any,
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
        assert len(tools.read(callback).columns["step"]) == steps


def test_a_trainer_that_replaces_train_is_told(recipe: Any) -> None:
    class Replaced(Trainer):
        def train(self, *args: Any, **kwargs: Any) -> Any:
            return self._inner_training_loop(batch_size=2, args=self.args)

    callback = recipe.callback()
    with pytest.warns(TraintraceWarning, match="does not call Trainer.train"):
        recipe.trainer(callback, kind=Replaced, batches=1).train()
    assert callback.run_folder is None


def test_attach_traces_a_trainer_that_names_no_callback(recipe: Any, tools: Any) -> None:
    detach = attach(run_dir=recipe.folder / "runs", name="attached", print_report=False)
    recipe.trainer(batches=2).train()
    own = recipe.callback()
    recipe.trainer(own, batches=3).train()
    detach()
    recipe.trainer(batches=2).train()
    assert tools.read(own).columns["step"] == [1, 2, 3]
    assert len(list((recipe.folder / "runs").iterdir())) == 2
    assert (recipe.folder / "runs" / "attached").is_dir()


def test_the_import_brings_nothing_but_the_framework() -> None:
    code = (
        "import sys; from transformers import Trainer, TrainerCallback; import accelerate.data_loader\n"
        "before = set(sys.modules); from traintrace_huggingface import TraceCallback\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new & {'traintrace_reporting', 'traintrace_analysis', 'rich', 'click', 'numpy'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert done.stdout.strip() == "[]"


def test_attach_is_importable_without_the_framework() -> None:
    code = (
        "import sys, traintrace_huggingface.attach\n"
        "print(sorted({'torch', 'transformers', 'accelerate'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
