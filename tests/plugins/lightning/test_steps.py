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
    assert min(waits[1], waits[6]) > 90e6
    assert None not in waits  # not at an epoch's last step either, where nothing was left to fetch
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


@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_a_fit_resumed_in_an_epoch_goes_on_where_it_was(
    both: Any, read: Any, accumulation: int
) -> None:
    class Model(both.Model):  # type: ignore[misc]
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            seen.append(batch_idx)

    saver = both.pl.callbacks.ModelCheckpoint(
        both.folder, filename="mid", every_n_train_steps=3, save_top_k=-1
    )
    options: dict[str, Any] = {"enable_checkpointing": True, "max_steps": 4}
    both.fit(both.Model(), both.loader(6, 0), callbacks=[saver], **options)
    seen: list[int] = []
    callback = both.callback()
    trainer = both.trainer(callback, accumulate_grad_batches=accumulation)
    trainer.fit(Model(), both.loader(6, 0), ckpt_path=both.folder / "mid.ckpt")
    run = read(callback, trainer, both.taken)
    run.check_books()
    # Lightning's groups are counted from the epoch's start, so the first one may be short.
    ends = [index + 1 for index in seen if (index + 1) % accumulation == 0]
    starts = [seen[0], *ends[:-1]]
    assert seen[0] in (2, 3)  # before 2.5 it begins one batch earlier
    groups = [end - start for start, end in zip(starts, ends, strict=True)]
    assert run.steps["micro_batches"] == groups
    assert run.steps["step"] == list(range(1, 1 + len(groups)))
    assert run.steps["framework_step"] == list(range(4, 1 + trainer.global_step))
    assert run.flagged(facts.PARTIAL_GROUP) == [count < accumulation for count in groups]
    assert "resume_skip" not in run.rank.totals.account_ns  # Lightning skips no data


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
        assert run.rank.totals.calls["forward"] == run.rank.totals.steps
        assert run.taken["forward calls"] > run.rank.totals.steps  # the others were trials


@pytest.mark.parametrize("search", ["lr_find", "scale_batch_size"])
def test_a_tuner_alone_leaves_no_run_and_does_not_disturb_the_next_one(
    lab: Any, read: Any, search: str
) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        lr = 0.01
        batch_size = 1

        def train_dataloader(self) -> Any:
            return lab.loader(6, 0, batch_size=self.batch_size)

    callback, model = lab.callback(), Model()
    trainer = lab.trainer(callback)
    tuner = __import__(lab.pl.__name__, fromlist=["tuner"]).tuner.Tuner(trainer)
    if search == "lr_find":
        tuner.lr_find(model, num_training=3)
    else:
        tuner.scale_batch_size(model, max_trials=1, steps_per_trial=1)
    assert callback.run_folder is None
    assert not (lab.folder / "runs").exists()
    trainer.fit(model)
    run = read(callback, trainer, lab.taken)
    run.check_books()
    assert run.rank.totals.steps == trainer.global_step > 0
    assert "tuning" not in run.rank.totals.account_ns


@pytest.mark.parametrize(
    "name", ["WeightAveraging", "EMAWeightAveraging", "StochasticWeightAveraging"]
)
def test_averaging_of_weights_changes_no_count(lab: Any, name: str) -> None:
    average = getattr(lab.pl.callbacks, name, None)
    if average is None:
        pytest.skip("this release does not have it")
    callback = average(swa_lrs=1e-2) if name.startswith("Stoch") else average()
    run = lab.fit(
        lab.Model(), lab.loader(3, 0), lab.evaluation_loader(), callbacks=[callback], max_epochs=2
    )
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 6
    assert run.rank.totals.steps_aborted == 0
    run.check_truth("forward", "backward", "optimizer")


def test_the_epoch_that_only_averages_statistics_is_a_step_without_backward(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.normalise = torch.nn.BatchNorm1d(4)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.net(self.normalise(batch)).mean()

    average = lab.pl.callbacks.StochasticWeightAveraging(swa_lrs=1e-2, swa_epoch_start=1)
    loader = lab.loader(8, 0, batch_size=2)
    run = lab.fit(Model(), loader, callbacks=[average], max_epochs=2)
    run.check_books()
    # Lightning goes over the data once more, as one group, and calls an update that changes nothing.
    assert run.steps["micro_batches"] == [1] * 8 + [4]
    assert run.steps["backward_calls"] == [1] * 8 + [0]
    assert run.steps["backward_ns"][8] is None
