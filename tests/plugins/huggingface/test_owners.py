"""Whose training is recorded, and what a callback leaves behind: the shim, copies, other Trainers."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainerCallback

from tests.labs.huggingface import Net, Recipe, read
from traintrace import TraintraceWarning, UsageError, open_run
from traintrace.options import TraceOptions
from traintrace_huggingface import TraceCallback
from traintrace_huggingface.attach import attach
from traintrace_plain_torch.attach import attach as attach_plain

PLAIN_TRAIN = Trainer.train


def test_a_trainer_without_the_callback_records_nothing(recipe: Recipe) -> None:
    callback = recipe.callback()
    other = recipe.trainer(batches=2)
    recipe.trainer(callback, batches=2)
    other.train()
    assert callback.run_folder is None
    other.add_callback(callback)
    other.train()
    assert read(callback).columns["step"] == [1, 2]


def test_a_traced_training_inside_a_traced_one_stays_passive(recipe: Recipe) -> None:
    inner = recipe.callback()
    other = recipe.trainer(inner, batches=2)

    class Trains(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 1:
                with pytest.warns(TraintraceWarning, match="active on this thread already"):
                    other.train()

    outer = recipe.callback()
    recipe.trainer(outer, Trains, batches=3).train()
    assert read(outer).columns["micro_batches"] == [1, 1, 1]
    assert inner.run_folder is None


def test_the_shim_is_there_while_a_callback_lives_and_never_twice(recipe: Recipe) -> None:
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


def test_a_disabled_callback_installs_nothing(recipe: Recipe) -> None:
    callback = recipe.callback(enabled=False)
    assert Trainer.train is PLAIN_TRAIN
    recipe.trainer(callback, batches=1).train()
    assert callback.run_folder is None
    assert callback.summary() == {}
    assert not (recipe.folder / "runs").exists()


def test_a_callback_builds_without_arguments_and_copies_start_clean(recipe: Recipe) -> None:
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


def test_a_copy_traces_too(recipe: Recipe) -> None:
    twin = copy.deepcopy(recipe.callback())
    recipe.trainer(twin, batches=2).train()
    assert read(twin).columns["step"] == [1, 2]


def test_models_pickle_and_copy_during_training(recipe: Recipe) -> None:
    class Copies(TrainerCallback):
        copies: list[Any] = []  # noqa: RUF012 - read by the test

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            inner = kwargs["model"].inner
            Copies.copies += [copy.deepcopy(inner), pickle.loads(pickle.dumps(inner))]
            Copies.copies.append(copy.deepcopy(kwargs["optimizer"].state_dict()))
            assert type(kwargs["model"]) is Net

    callback = recipe.callback()
    trainer = recipe.trainer(callback, Copies, batches=2)
    trainer.train()
    assert read(callback).columns["forward_calls"] == [1, 1]
    twin = Copies.copies[0]
    assert list(vars(twin)) == list(vars(trainer.model.inner))
    assert twin(torch.ones(2, 4)).shape == (2, 1)


def test_a_trainer_is_not_kept_by_its_callback(recipe: Recipe) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(callback, batches=1)
    trainer.train()
    gone = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert gone() is None
    assert read(callback).columns["step"] == [1]


def test_attach_traces_a_trainer_that_names_no_callback(recipe: Recipe) -> None:
    detach = attach(
        TraceOptions(run_dir=recipe.folder / "runs", name="attached", print_report=False)
    )
    recipe.trainer(batches=2).train()
    own = recipe.callback()
    recipe.trainer(own, batches=3).train()
    detach()
    recipe.trainer(batches=2).train()
    assert read(own).columns["step"] == [1, 2, 3]
    assert len(list((recipe.folder / "runs").iterdir())) == 2
    assert (recipe.folder / "runs" / "attached").is_dir()


def test_attach_hands_on_all_options_and_heeds_a_callback_that_is_off(recipe: Recipe) -> None:
    options = TraceOptions(
        run_dir=recipe.folder / "runs",
        print_report=False,
        level="host",
        max_steps=2,
        interval_s=0.5,
        retention_steps=7,
    )
    undo = [attach_plain(options), attach(options)]
    everywhere: Any = Trainer.train.__traintrace_shim__.everywhere  # type: ignore[attr-defined]
    recipe.trainer(recipe.callback(enabled=False), batches=3).train()
    assert not (recipe.folder / "runs").exists()
    recipe.trainer(batches=4).train()
    for each in undo:
        each()
    (run,) = (recipe.folder / "runs").iterdir()  # and none of automatic tracing's
    rank = open_run(run).facts([]).ranks[0]
    assert (rank.totals.steps, rank.level) == (2, "host")
    used = everywhere._session.options
    assert (used.interval_s, used.retention_steps) == (0.5, 7)
    twin = pickle.loads(pickle.dumps(everywhere))
    assert twin._options == options


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
