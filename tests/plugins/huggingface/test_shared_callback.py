"""One callback object in several Trainers, trainings that nobody saw the end of, and starting over late."""

import threading
import warnings
from typing import Any

import pytest
from transformers import Trainer, TrainerCallback

from tests.labs.huggingface import Recipe, read, read_run
from traintrace import open_run
from traintrace.registry import REGISTRY


class Broken(Exception):
    """The user's own error."""


class Joined(Trainer):
    """Never calls `Trainer.train`."""

    def train(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner_training_loop(batch_size=self._train_batch_size, args=self.args)


class BreaksAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise Broken


def test_trainings_in_two_threads_with_one_callback_are_two_runs(recipe: Recipe) -> None:
    both_in = threading.Barrier(2, timeout=60)

    class Waits(TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            both_in.wait()

    callback, steps = recipe.callback(), []

    def train() -> None:
        trainer = recipe.trainer(callback, Waits(), batches=3)
        trainer.train()
        steps.append(trainer.state.global_step)

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps == [3, 3]
    runs = [read_run(folder) for folder in (recipe.folder / "runs").iterdir()]
    assert [(run.status, run.totals.steps) for run in runs] == [("completed", 3)] * 2
    assert [list(run.columns["samples"]) for run in runs] == [[2] * 3] * 2


def test_a_training_inside_another_with_the_same_callback_says_that_it_is_not_recorded(
    recipe: Recipe,
) -> None:
    class Inner(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 1:
                with pytest.warns(UserWarning, match="a trace is active on this thread already"):
                    recipe.trainer(callback, batches=2).train()

    callback = recipe.callback()
    recipe.trainer(callback, Inner(), batches=4).train()
    (folder,) = (recipe.folder / "runs").iterdir()
    assert read_run(folder).totals.steps == 4


@pytest.mark.parametrize("kind", [Trainer, Joined])
def test_a_joined_training_that_raised_does_not_keep_the_next_from_being_traced(
    recipe: Recipe, kind: type[Trainer]
) -> None:
    broken, callback = recipe.callback(), recipe.callback()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Joined.train")
        with pytest.raises(Broken):
            recipe.trainer(broken, BreaksAt(2), kind=Joined).train()
        assert REGISTRY.current() is not None  # nobody has told of the end
        recipe.trainer(callback, kind=kind).train()
    assert broken.run_folder is not None
    assert open_run(broken.run_folder).facts([]).status == "failed"
    assert (read(callback).status, read(callback).totals.steps) == ("completed", 5)


def test_a_training_inside_a_joined_one_does_not_end_it(recipe: Recipe) -> None:
    class Inner(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 1:
                with pytest.warns(UserWarning, match="a trace is active on this thread already"):
                    recipe.trainer(recipe.callback(), batches=2).train()

    callback = recipe.callback()
    with pytest.warns(UserWarning, match="Joined.train"):
        recipe.trainer(callback, Inner(), kind=Joined).train()
    assert (read(callback).status, read(callback).totals.steps) == ("completed", 5)


def test_starting_over_after_the_recording_ended_is_said(recipe: Recipe) -> None:
    class NoRoom(Trainer):
        def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if len(inputs["x"]) > 2 and self.state.global_step == 2:
                raise RuntimeError("CUDA out of memory.")
            return super().training_step(model, inputs, *args, **kwargs)

    callback = recipe.callback(max_steps=1)
    trainer = recipe.trainer(callback, kind=NoRoom, batch_size=3, auto_find_batch_size=True)
    with pytest.warns(UserWarning, match="started over after the recording had ended"):
        trainer.train()
    rank = read(callback)
    assert list(rank.columns["samples"]) == [3]
    assert any("started over" in message for message in rank.warnings)
