"""What is a step: the odd loops that Lightning allows."""

from typing import Any

import pytest
import torch

from traintrace import facts


def test_manual_optimization_counts_each_batch_whatever_the_optimizers_do(both: Any) -> None:
    class Model(both.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.raw = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            for optimizer in self.optimizers(use_pl_optimizer=not self.raw):
                optimizer.zero_grad()
                loss = self.net(batch).mean()
                loss.backward() if self.raw else self.manual_backward(loss)
                optimizer.step()

        def configure_optimizers(self) -> Any:
            return [both.Update(self.parameters(), lr=1e-3) for _ in range(2)]

    model = Model()
    run = both.fit(model, both.loader(3))
    run.check_books()
    assert run.steps["micro_batches"] == [1, 1, 1]
    assert run.steps["framework_step"] == [2, 4, 6]
    assert run.steps["optimizer_calls"] == [2, 2, 2] == run.steps["backward_calls"]
    run.check_truth("input_wait", "forward", "backward", "optimizer")

    model.raw = True
    run = both.fit(model, both.loader(3))
    run.check_books()
    assert run.steps["micro_batches"] == [1, 1, 1]
    assert run.steps["framework_step"] == [0, 0, 0]
    run.check_truth("forward", "backward", "optimizer")


def test_lbfgs_is_one_step_with_all_its_inner_calls(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(
                self.parameters(), max_iter=4, tolerance_grad=0, tolerance_change=0
            )

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.net(batch).pow(2).mean()

    run = lab.fit(Model(), lab.loader(3, 0))
    run.check_books()
    assert run.steps["micro_batches"] == [1, 1, 1]
    assert sum(run.steps["forward_calls"]) == run.taken["forward calls"] > 3
    assert run.steps["optimizer_calls"] == [1, 1, 1]
    run.check_truth("forward", "backward")


def test_a_training_step_that_returns_nothing_has_no_backward_and_still_updates(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return None if batch_idx == 1 else super().training_step(batch, batch_idx)

    run = lab.fit(Model(), lab.loader(3, 0))
    run.check_books()
    assert run.steps["micro_batches"] == [1, 1, 1]
    assert run.steps["backward_calls"] == [1, 0, 1]
    assert run.steps["backward_ns"][1] is None
    assert run.steps["optimizer_calls"] == [1, 1, 1]


def test_a_group_that_ends_without_an_update_is_aborted(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> Any:
            return -1 if batch_idx == 3 else None

    run = lab.fit(Model(), lab.loader(6), accumulate_grad_batches=2, max_epochs=2)
    run.check_books()
    assert run.steps["micro_batches"] == [2, 2]
    assert run.steps["epoch"] == [0, 1]
    assert run.rank.totals.steps_aborted == 2
    assert run.ms("aborted") > 20


def test_no_batch_means_no_update_and_no_step(lab: Any) -> None:
    class Batches:
        def __len__(self) -> int:
            return 4

        def __iter__(self) -> Any:
            return iter([torch.zeros(2, 4), None, torch.zeros(3, 4), torch.zeros(1, 4)])

    run = lab.fit(lab.Model(), Batches())
    run.check_books()
    assert run.steps["samples"] == [2, 3, 1]
    assert run.rank.totals.steps_aborted == 1


def test_data_without_a_length_is_fetched_one_ahead_and_flagged(both: Any) -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            for item in range(5):
                both.work("input_wait", 90 if item == 2 else 4)
                yield torch.zeros(4)

    run = both.fit(both.Model(), torch.utils.data.DataLoader(Stream()), max_epochs=2)
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 10
    assert all(run.flagged(facts.LOOKAHEAD))
    waits = run.steps["input_wait_ns"]
    assert waits[1] > 90e6
    assert waits[2] < 60e6
    # At an epoch's last step nothing was left to fetch; the loop waited for that, and no longer.
    assert None not in waits
    assert max(waits[4], waits[9]) < 60e6
    assert run.flagged(facts.EPOCH_FIRST) == ([True] + [False] * 4) * 2


def test_a_transfer_hook_and_data_without_a_length_agree(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            lab.work("h2d", 5)
            return batch

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            return iter(torch.zeros(3, 4))

    run = lab.fit(Model(), torch.utils.data.DataLoader(Stream()), max_epochs=2)
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 6
    run.check_truth("h2d", "forward")
    assert all(ns >= 5e6 for ns in run.steps["h2d_ns"])


def test_fit_while_a_stop_iteration_is_handled_changes_nothing(lab: Any) -> None:
    try:
        next(iter(()))
    except StopIteration:
        run = lab.fit(lab.Model(), lab.loader(4))
    run.check_books()
    assert run.facts.status == "completed"
    assert run.steps["micro_batches"] == [1] * 4
    run.check_truth("input_wait")
    assert None not in run.steps["input_wait_ns"]


def test_several_loaders_are_one_wait(lab: Any) -> None:
    loaders = {"a": lab.loader(3, 6), "b": lab.loader(2, 9)}

    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.net(batch["a"]).mean() + self.net(batch["b"]).mean()

    run = lab.fit(Model(), loaders)
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 3
    assert run.steps["input_wait_calls"] == [1] * 3
    run.check_truth("input_wait", "forward")


def test_limits_end_groups_early(lab: Any) -> None:
    run = lab.fit(
        lab.Model(),
        lab.loader(5, 0),
        limit_train_batches=3,
        accumulate_grad_batches=2,
        max_epochs=2,
    )
    assert run.steps["micro_batches"] == [2, 1, 2, 1]
    run = lab.fit(lab.Model(), lab.loader(9, 0), max_steps=2, accumulate_grad_batches=2)
    assert run.steps["micro_batches"] == [2, 2]


def test_a_resumed_fit_counts_from_where_it_was(lab: Any) -> None:
    first = lab.fit(lab.Model(), lab.loader(6, 0), max_steps=3)
    path = lab.folder / "last.ckpt"
    first.trainer.save_checkpoint(path)
    callback = lab.callback()
    trainer = lab.trainer(callback, max_epochs=2, accumulate_grad_batches=3)
    trainer.fit(lab.Model(), lab.loader(6, 0), ckpt_path=path)
    rank = callback._session.as_run().facts(["framework_step", "micro_batches"]).ranks[0]
    assert rank.columns["framework_step"][0] == 4
    assert rank.columns["micro_batches"][0] == 3


def test_an_overflow_of_the_scaler_is_a_skipped_update(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            return loss * float("inf") if batch_idx == 1 else loss

    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    precision = lab.pl.plugins.MixedPrecision("16-mixed", "cpu", scaler)
    run = lab.fit(Model(), lab.loader(3, 0), plugins=[precision])
    run.check_books()
    assert run.steps["optimizer_calls"] == [1, 0, 1]
    assert run.flagged(facts.UPDATE_SKIPPED) == [False, True, False]


def test_trial_steps_of_a_finder_are_tuning(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lr = 0.01
            self.batch_size = 1

        def train_dataloader(self) -> Any:
            return lab.loader(6, 2, batch_size=self.batch_size)

    for finder in (
        lab.pl.callbacks.LearningRateFinder(num_training_steps=3),
        lab.pl.callbacks.BatchSizeFinder(max_trials=2, steps_per_trial=2),
    ):
        run = lab.fit(Model(), None, callbacks=[finder], max_steps=2)
        run.check_books()
        assert run.rank.totals.steps == run.trainer.global_step >= 1
        assert run.rank.totals.steps_aborted == 0
        assert run.ms("tuning") > 10
        assert run.ms("forward") < 0.9 * run.taken["forward"] / 1e6


def test_a_tuner_alone_leaves_no_run(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        lr = 0.01

    callback = lab.callback()
    trainer = lab.trainer(callback)
    tuner = __import__(lab.pl.__name__, fromlist=["tuner"]).tuner.Tuner(trainer)
    tuner.lr_find(Model(), lab.loader(6, 0), num_training=3)
    assert callback.run_folder is None
    assert not (lab.folder / "runs").exists()


@pytest.mark.parametrize("name", ["WeightAveraging", "StochasticWeightAveraging"])
def test_averaging_of_weights_changes_no_count(lab: Any, name: str) -> None:
    average = getattr(lab.pl.callbacks, name, None)
    if average is None:
        pytest.skip("this release does not have it")
    callback = average(swa_lrs=1e-2) if name.startswith("Stoch") else average()
    run = lab.fit(lab.Model(), lab.loader(3, 0), callbacks=[callback], max_epochs=2)
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 6
    run.check_truth("forward")
