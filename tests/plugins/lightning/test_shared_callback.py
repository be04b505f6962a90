"""One callback object in several Trainers: each fit is a run of its own, and none disturbs another."""

import threading
from typing import Any

import pytest

from traintrace import open_run


class Broken(Exception):
    """The user's own error."""


def _runs(lab: Any) -> list[tuple[str, int]]:
    """Give status and steps of every run."""
    found = [open_run(folder).facts([]) for folder in (lab.folder / "runs").iterdir()]
    return sorted((run.status, run.ranks[0].totals.steps) for run in found)


def test_a_fit_inside_another_with_the_same_callback_leaves_the_outer_one_whole(lab: Any) -> None:
    class Inner(lab.pl.Callback):  # type: ignore[misc]
        def on_train_batch_start(self, trainer: Any, module: Any, data: Any, batch: int) -> None:
            if batch == 1:
                lab.trainer(callback).fit(lab.Model(), lab.loader(2, 0))

    callback = lab.callback()
    with pytest.warns(UserWarning, match="a trace is active on this thread already"):
        lab.trainer(callback, Inner()).fit(lab.Model(), lab.loader(4, 0))
    assert _runs(lab) == [("completed", 4)]
    (rank,) = open_run(callback.run_folder).facts(["micro_batches", "samples"]).ranks
    assert list(rank.columns["micro_batches"]) == list(rank.columns["samples"]) == [1] * 4


@pytest.mark.parametrize("inner", ["fit", "validate"])
def test_an_inner_error_that_is_caught_does_not_end_the_outer_fit(lab: Any, inner: str) -> None:
    class Bad(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            raise Broken

        validation_step = training_step

    class Inner(lab.pl.Callback):  # type: ignore[misc]
        def on_train_batch_start(self, *arguments: Any) -> None:
            with pytest.raises(Broken):
                getattr(lab.trainer(callback), inner)(Bad(), lab.loader(1, 0))

    callback = lab.callback()
    lab.trainer(callback, Inner()).fit(lab.Model(), lab.loader(3, 0))
    assert _runs(lab) == [("completed", 3)]


def test_fits_in_two_threads_with_one_callback_are_two_runs(lab: Any) -> None:
    both_in = threading.Barrier(2, timeout=30)

    class Model(lab.Model):  # type: ignore[misc]
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            both_in.wait()

    callback, steps = lab.callback(), []

    def fit() -> None:
        trainer = lab.trainer(callback)
        trainer.fit(Model(), lab.loader(3, 0))
        steps.append(trainer.global_step)

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps == [3, 3]
    assert _runs(lab) == [("completed", 3)] * 2


def test_trainers_that_take_turns_with_one_callback_are_runs_of_their_own(lab: Any) -> None:
    callback = lab.callback()
    trainers = [(lab.trainer(callback, max_epochs=-1, max_steps=0), lab.Model()) for _ in range(2)]
    for steps in (2, 5):
        for trainer, model in trainers:
            trainer.fit_loop.epoch_loop.max_steps = steps
            trainer.fit(model, lab.loader(10, 0))
    assert _runs(lab) == [("completed", 2)] * 2 + [("completed", 3)] * 2
