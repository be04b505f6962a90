"""Trainers whose methods the user has replaced."""

import time
from typing import Any

import pytest
import torch
from transformers import Trainer

from tests.labs.huggingface import UPDATES_SHORT_GROUPS, Recipe, Sleeps, read
from traintrace import TraintraceWarning, open_run
from traintrace.facts import LOOKAHEAD


def test_an_overridden_collection_has_no_input_wait(recipe: Recipe) -> None:
    class Own(Trainer):
        def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
            time.sleep(0.005)
            return super().get_batch_samples(*args, **kwargs)

    callback = recipe.callback()
    trainer = recipe.trainer(
        callback, kind=Own, sleeps=Sleeps(item=5), batches=3, stream=True, max_steps=4
    )
    with pytest.warns(TraintraceWarning, match="get_batch_samples") as caught:
        trainer.train()
    assert len([w for w in caught if w.category is TraintraceWarning]) == 1
    rank = read(callback)
    assert rank.columns["micro_batches"] == [1, 1, 1, 1]
    assert set(rank.columns["input_wait_ns"]) == {None}
    assert "get_batch_samples" in rank.unmeasured["input_wait"]
    assert rank.totals.inside_ns["batch_prep"] >= 4 * 5_000_000
    assert rank.totals.steps_aborted == 0
    assert rank.totals.account_ns["epoch_boundary"] >= 5_000_000  # the request that came back empty


def test_an_own_training_step_that_calls_backward_itself_is_seen(recipe: Recipe) -> None:
    truth = recipe.truth

    class Own(Trainer):
        def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            loss: Any = self.compute_loss(model, inputs)
            truth.sleep("other", 15)
            loss.backward()
            return loss.detach()

    callback = recipe.callback()
    sleeps = Sleeps(forward=10, backward=10)
    recipe.trainer(callback, kind=Own, sleeps=sleeps, batches=3).train()
    rank = read(callback)
    assert rank.columns["forward_calls"] == rank.columns["backward_calls"] == [1, 1, 1]
    for account in ("forward", "backward", "other"):
        assert rank.totals.account_ns[account] >= truth.ns[account], account


def test_an_own_loss_with_two_forwards_keeps_its_own_work_out_of_forward(recipe: Recipe) -> None:
    truth = recipe.truth

    class Own(Trainer):
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            first = model(**inputs)["loss"]
            truth.sleep("other", 15)
            return first + model(**inputs)["loss"]

    callback = recipe.callback()
    recipe.trainer(callback, kind=Own, sleeps=Sleeps(forward=10), batches=3).train()
    rank = read(callback)
    assert rank.columns["forward_calls"] == [2, 2, 2]
    assert rank.columns["backward_calls"] == rank.columns["micro_batches"] == [1, 1, 1]
    for account in ("forward", "other"):
        assert rank.totals.account_ns[account] >= truth.ns[account], account


def test_an_own_inner_loop_keeps_its_work_before_training_in_startup(recipe: Recipe) -> None:
    truth = recipe.truth

    class Own(Trainer):
        def _inner_training_loop(self, *args: Any, **kwargs: Any) -> Any:
            truth.sleep("startup", 20)
            return super()._inner_training_loop(*args, **kwargs)

    callback = recipe.callback()
    recipe.trainer(callback, kind=Own, batches=3).train()
    rank = read(callback)
    assert rank.columns["forward_calls"] == [1, 1, 1]
    assert rank.totals.account_ns["startup"] >= truth.ns["startup"]


def test_a_loader_that_accelerate_did_not_prepare_fetches_no_batch_ahead(recipe: Recipe) -> None:
    class Own(Trainer):
        def get_train_dataloader(self) -> Any:
            dataset: Any = self.train_dataset
            return torch.utils.data.DataLoader(dataset, 2, collate_fn=self.data_collator)

    callback = recipe.callback()
    recipe.trainer(callback, kind=Own, sleeps=Sleeps(item=10), batches=3).train()
    rank = read(callback)
    each = recipe.truth.each["input_wait"]
    for row, waited in enumerate(rank.columns["input_wait_ns"]):
        assert (waited or 0) >= sum(each[2 * row : 2 * row + 2])
    assert not any((flags or 0) & LOOKAHEAD for flags in rank.columns["flags"])


class Replaced(Trainer):
    def train(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner_training_loop(batch_size=self._train_batch_size, args=self.args)


def test_a_trainer_that_replaces_train_is_joined_at_its_first_event(recipe: Recipe) -> None:
    callback = recipe.callback()
    sleeps = Sleeps(item=5, forward=5, backward=5, optimizer=5)
    trainer = recipe.trainer(callback, kind=Replaced, sleeps=sleeps, accumulate=2)
    folders = []
    for _ in range(2):
        recipe.truth.ns.clear()
        with pytest.warns(TraintraceWarning, match=r"does not call Trainer.train") as caught:
            trainer.train()
        assert len([w for w in caught if w.category is TraintraceWarning]) == 1
        rank = read(callback)
        assert rank.status == "completed"
        assert rank.columns["micro_batches"] == ([2, 2, 1] if UPDATES_SHORT_GROUPS else [2, 2])
        if UPDATES_SHORT_GROUPS:
            for account in ("input_wait", "forward", "backward", "optimizer"):
                assert rank.totals.account_ns[account] >= recipe.truth.ns[account], account
        assert rank.setup.loader.workers == 0
        folders.append(callback.run_folder)
    assert folders[0] != folders[1]
    for owner in (trainer, trainer.accelerator, trainer.callback_handler):
        assert not [n for n, v in vars(owner).items() if hasattr(v, "__traintrace_done__")]


@pytest.mark.filterwarnings("ignore:.*does not call Trainer.train")
def test_a_joined_training_that_raised_has_failed_when_the_next_one_begins(recipe: Recipe) -> None:
    callback = recipe.callback()
    trainer = recipe.trainer(callback, kind=Replaced, batches=3)
    calls = iter(range(100))

    def fail_once() -> None:
        if next(calls) == 2:
            raise ZeroDivisionError

    trainer.model.on_forward = fail_once
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    first = callback.run_folder
    assert first is not None
    trainer.train()
    assert read(callback).columns["step"] == [1, 2, 3]
    (rank,) = open_run(first).facts(["step"]).ranks
    assert (rank.status, rank.totals.steps, rank.totals.steps_aborted) == ("failed", 2, 1)
    assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns


@pytest.mark.filterwarnings("ignore:.*does not call Trainer.train")
def test_a_joined_training_may_outlast_its_recording(recipe: Recipe) -> None:
    callback = recipe.callback(max_steps=2)
    recipe.trainer(callback, kind=Replaced).train()
    rank = read(callback)
    assert (rank.status, rank.columns["step"]) == ("completed", [1, 2])
