"""Where a Trainer's time goes, against clocks around the bodies that sleep."""

import time
from typing import Any

import pytest
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter
from transformers import TrainerCallback

from tests.labs.huggingface import (
    UPDATES_SHORT_GROUPS,
    Items,
    Recipe,
    Sleeps,
    SlowEdges,
    Truth,
    read,
)
from traintrace.facts import CARRIED, EPOCH_FIRST, LOOKAHEAD, PARTIAL_GROUP

PHASES = ("input_wait", "forward", "backward", "optimizer")


@pytest.mark.parametrize(
    ("accumulate", "groups"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (4, [4, 1])]
)
def test_phases_match_the_clock_and_a_short_last_group_is_a_step(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch, accumulate: int, groups: list[int]
) -> None:
    if not UPDATES_SHORT_GROUPS:
        groups = [count for count in groups if count == accumulate]
    fetch = _BaseDataLoaderIter.__next__

    def timed_fetch(iterator: Any) -> Any:
        began = time.perf_counter_ns()
        batch = fetch(iterator)  # at the data's end this raises: that is no wait for a batch
        recipe.truth.ns["fetch"] += time.perf_counter_ns() - began
        return batch

    monkeypatch.setattr(_BaseDataLoaderIter, "__next__", timed_fetch)
    sleeps = Sleeps(item=8, collate=9, forward=25, backward=26, optimizer=24)
    callback = recipe.callback()
    recipe.trainer(callback, sleeps=sleeps, accumulate=accumulate).train()
    rank = read(callback)
    assert rank.columns["micro_batches"] == groups
    assert rank.columns["forward_calls"] == rank.columns["backward_calls"] == groups
    assert rank.columns["optimizer_calls"] == [1] * len(groups)
    assert rank.columns["samples"] == [2 * count for count in groups]
    assert rank.columns["framework_step"] == rank.columns["step"]
    assert set(rank.columns["epoch"]) == {0}
    flags = [flag or 0 for flag in rank.columns["flags"]]
    assert all(flag & LOOKAHEAD for flag in flags)
    assert [bool(flag & EPOCH_FIRST) for flag in flags] == [True] + [False] * (len(groups) - 1)
    assert [bool(flag & PARTIAL_GROUP) for flag in flags] == [n < accumulate for n in groups]
    recipe.truth.ns["input_wait"] = recipe.truth.ns["fetch"]
    for phase in PHASES:
        true, measured = recipe.truth.ns[phase], rank.totals.account_ns[phase]
        assert measured >= true, phase  # a call that is booked elsewhere is missing here
        assert sum(ns or 0 for ns in rank.columns[f"{phase}_ns"]) == measured
    assert rank.unmeasured["h2d"] == "no device"
    assert set(rank.columns["h2d_ns"]) == {None}
    assert rank.status == "completed"


@pytest.mark.parametrize("epochs", [1, 2])
def test_only_the_edges_of_the_loader_itself_are_no_wait(recipe: Recipe, epochs: int) -> None:
    class Nesting(Items):
        def __getitem__(self, index: Any) -> Any:
            row = super().__getitem__(index)
            with recipe.truth.clock("read"):
                list(DataLoader(SlowEdges(Items(Truth(), 1, "", 0), ms=10), batch_size=None))
            return row

    truth = recipe.truth
    data = SlowEdges(Nesting(truth, 4, "input_wait", 0), ms=25)
    callback = recipe.callback()
    recipe.trainer(callback, dataset=data, batch_size=1, max_steps=4 * epochs).train()
    rank = read(callback)
    assert rank.columns["micro_batches"] == [1] * 4 * epochs
    assert truth.calls["end"] == epochs
    assert rank.totals.account_ns["epoch_boundary"] >= truth.ns["begin"] + truth.ns["end"]
    assert rank.totals.account_ns["input_wait"] >= truth.ns["read"] >= 80_000_000 * epochs


def test_evaluation_saving_and_logging_lie_between_steps(recipe: Recipe) -> None:
    truth = recipe.truth

    class Slow(TrainerCallback):
        def on_log(self, *args: Any, **kwargs: Any) -> None:
            truth.sleep("logging", 30)

        def on_save(self, *args: Any, **kwargs: Any) -> None:
            truth.sleep("checkpoint", 30)

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            truth.sleep("callbacks", 30)

    callback = recipe.callback()
    recipe.trainer(
        Slow,
        callback,
        sleeps=Sleeps(item=1, forward=30, evaluation=20, evaluation_item=10),
        batches=4,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        logging_strategy="steps",
        logging_steps=1,
        max_grad_norm=1.0,
    ).train()
    rank = read(callback)
    totals = rank.totals
    # Accounts are disjoint: time that is booked in a wrong one is missing in the right one.
    for account in ("evaluation", "checkpoint", "logging", "callbacks", "forward"):
        assert totals.account_ns[account] >= truth.ns[account], account
    for account in ("evaluation", "checkpoint", "logging"):
        assert totals.inside_ns[account] == 0
    assert totals.inside_ns["callbacks"] == totals.account_ns["callbacks"]
    assert totals.calls["evaluation"] == 2
    assert totals.calls["forward"] == 4
    assert [s.step for s in rank.scalars if s.name == "loss"] == [1, 2, 3, 4]
    assert [s.step for s in rank.scalars if s.name == "eval_loss"] == [2, 4]


def test_framework_callbacks_alone_make_no_callbacks_account(recipe: Recipe) -> None:
    callback = recipe.callback()
    recipe.trainer(callback).train()
    rank = read(callback)
    assert "callbacks" not in rank.totals.account_ns
    assert rank.totals.transitions <= 20 + 14 * 5


def test_a_callback_that_takes_the_place_of_another_is_charged(recipe: Recipe) -> None:
    class Slow(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            recipe.truth.sleep("callbacks", 20)

    class Replaces(TrainerCallback):
        def on_epoch_begin(self, *args: Any, **kwargs: Any) -> None:
            callbacks = trainer.callback_handler.callbacks
            callbacks[callbacks.index(idle)] = Slow()

    idle = TrainerCallback()
    callback = recipe.callback()
    trainer = recipe.trainer(callback, idle, Replaces, batches=3)
    trainer.train()
    totals = read(callback).totals
    assert recipe.truth.calls["callbacks"] == 3
    assert totals.account_ns["callbacks"] >= recipe.truth.ns["callbacks"]


def test_a_prediction_inside_a_step_is_prediction(recipe: Recipe) -> None:
    class Predicts(TrainerCallback):
        trainer: Any = None

        def on_substep_end(self, *args: Any, **kwargs: Any) -> None:
            Predicts.trainer.predict(Predicts.trainer.eval_dataset)

    callback = recipe.callback()
    sleeps = Sleeps(forward=20, evaluation=8)
    trainer = Predicts.trainer = recipe.trainer(
        callback, Predicts, sleeps=sleeps, batches=4, accumulate=2
    )
    trainer.train()
    totals = read(callback).totals
    assert totals.inside_ns["prediction"] == totals.account_ns["prediction"]
    assert totals.account_ns["prediction"] >= recipe.truth.ns["evaluation"]
    assert totals.account_ns["forward"] >= recipe.truth.ns["forward"]
    assert totals.micro_batches == 4


def test_another_training_inside_a_callback_stays_in_callbacks(recipe: Recipe) -> None:
    other = recipe.trainer(sleeps=Sleeps(forward=30, backward=30, optimizer=30), batches=3)

    class Trains(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 1:
                other.train()

    callback = recipe.callback()
    recipe.trainer(callback, Trains, batches=3).train()
    rank = read(callback)
    assert rank.columns["micro_batches"] == [1, 1, 1]
    # Booked as this training's own phases, it would be missing here.
    assert rank.totals.account_ns["callbacks"] >= 9 * 30_000_000


def test_a_short_group_of_endless_data_is_carried_into_the_next_epoch(recipe: Recipe) -> None:
    callback = recipe.callback()
    recipe.trainer(callback, batches=3, accumulate=2, stream=True, max_steps=4).train()
    rank = read(callback)
    carries = [2, 3, 3, 3] if UPDATES_SHORT_GROUPS else [2, 2, 2, 2]
    assert rank.columns["micro_batches"] == carries
    if not UPDATES_SHORT_GROUPS:
        return
    carried = [bool((flag or 0) & CARRIED) for flag in rank.columns["flags"]]
    assert carried == [False, True, True, True]
    assert rank.totals.steps_aborted == 0


def test_a_group_that_training_stops_in_is_aborted(recipe: Recipe) -> None:
    class Stops(TrainerCallback):
        def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop = state.global_step == 1

    class Evaluates(TrainerCallback):
        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_evaluate = True

    callback = recipe.callback()
    sleeps = Sleeps(forward=20, evaluation=60)
    recipe.trainer(callback, Stops, Evaluates, sleeps=sleeps, batches=8, accumulate=4).train()
    totals = read(callback).totals
    assert (totals.steps, totals.steps_aborted) == (1, 1)
    assert totals.account_ns["aborted"] >= 20_000_000
    assert totals.account_ns["evaluation"] >= 120_000_000  # none of it in the aborted group


def test_workers_start_in_the_epoch_boundary(recipe: Recipe) -> None:
    callback = recipe.callback()
    recipe.trainer(callback, dataloader_num_workers=1, num_train_epochs=2, batches=2).train()
    rank = read(callback)
    assert rank.totals.calls["epoch_boundary"] >= 2
    assert rank.setup.loader.workers == 1
    assert rank.setup.batch_bytes == 2 * (4 + 1) * 4
    assert rank.columns["epoch"] == [0, 0, 1, 1]


def test_level_step_records_input_and_steps_only(recipe: Recipe) -> None:
    callback = recipe.callback(level="step")
    recipe.trainer(callback).train()
    rank = read(callback)
    assert len(rank.columns["step"]) == 5
    assert None not in rank.columns["input_wait_ns"]
    assert set(rank.columns["forward_ns"]) == {None}
    assert rank.unmeasured["forward"] == 'the trace level is "step"'
