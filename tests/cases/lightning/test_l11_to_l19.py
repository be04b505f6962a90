"""What a step is: accumulation, several optimizers, closures, skipped batches, validation; from public reports."""

from typing import Any

import torch


def test_l11_true_batch_sizes_are_summed(lab: Any) -> None:
    """PL#20235: batches of varying size made the sample counter run backwards and raise."""

    class Batches:
        def __iter__(self) -> Any:
            return iter([torch.zeros(size, 4) for size in (1, 2, 1, 5)])

    class Model(lab.Model):  # type: ignore[misc]
        def on_train_batch_end(self, *arguments: Any) -> None:
            seen.append(self.trainer.callbacks[0].summary()["counts"]["samples"])

    seen: list[Any] = []
    run = lab.fit(Model(), Batches())
    run.check_books()
    assert run.steps["samples"] == [1, 2, 1, 5]
    assert run.callback.summary()["counts"]["samples"] == 9
    assert [count or 0 for count in seen] == [0, 1, 3, 4]  # of the steps completed by then


def test_l12_a_record_knows_its_batches_and_its_update(lab: Any) -> None:
    """PL#5405, PL#4304: records counted in micro-batches collided with those counted in updates."""
    run = lab.fit(lab.Model(), lab.loader(16, 0), accumulate_grad_batches=8)
    run.check_books()
    assert run.steps["step"] == [1, 2] == run.steps["framework_step"]
    assert run.steps["micro_batches"] == [8, 8] == run.steps["forward_calls"]
    assert run.steps["input_wait_calls"] == [8, 8]
    counts = run.callback.summary()["counts"]
    assert (counts["micro_batches"], counts["steps"]) == (16, 2)


def test_l13_accumulating_batches_have_no_optimizer_time(lab: Any) -> None:
    """TML#456: an update of length zero was invented for every accumulating batch."""
    run = lab.fit(lab.Model(), lab.loader(5, 0), accumulate_grad_batches=2)
    run.check_books()
    assert run.steps["micro_batches"] == [2, 2, 1]
    assert run.steps["optimizer_calls"] == [1, 1, 1]
    assert run.rank.totals.calls["optimizer"] == 3
    assert min(run.column_ms("optimizer")) >= 2
    run.check_truth("forward", "backward", "optimizer")


def test_l14_a_batch_is_a_step_however_many_optimizers_it_has(lab: Any) -> None:
    """PL#17958, PL#19589: with two optimizers `global_step` grows by two per batch."""

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(self.net(batch).mean())
                optimizer.step()

        def configure_optimizers(self) -> Any:
            return [lab.Update(self.parameters(), lr=1e-3) for _ in range(2)]

    run = lab.fit(Model(), lab.loader(3))
    run.check_books()
    assert run.steps["step"] == [1, 2, 3]
    assert run.steps["framework_step"] == [2, 4, 6]
    assert run.steps["optimizer_calls"] == [2, 2, 2]
    run.check_truth("input_wait", "forward", "backward", "optimizer")


def test_l16_an_update_with_many_closures_is_one_step(lab: Any) -> None:
    """PL#4188, PL#4083: LBFGS calls forward and backward many times for one batch."""

    class Model(lab.Model):  # type: ignore[misc]
        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(
                self.parameters(), max_iter=4, tolerance_grad=0, tolerance_change=0
            )

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            lab.work("closures", 0)
            return self.net(batch).pow(2).mean()

    run = lab.fit(Model(), lab.loader(3, 0))
    run.check_books()
    assert run.steps["micro_batches"] == [1, 1, 1]
    closures = run.steps["forward_calls"]
    assert sum(closures) == sum(run.steps["backward_calls"]) == run.taken["closures calls"] > 3
    assert run.steps["optimizer_calls"] == [1, 1, 1]
    run.check_truth("forward", "backward")
    for calls, forward in zip(closures, run.column_ms("forward"), strict=True):
        assert forward >= 3 * calls
    # Its own arithmetic alone: a closure takes 3 ms forward and 4 ms backward.
    assert min(run.column_ms("optimizer")) < 4 * (3 + 4)


def test_l18_a_batch_without_a_loss_has_no_backward_and_is_a_step(lab: Any) -> None:
    """PL#3323, PL#3566: a training step returns nothing; Lightning updates all the same."""

    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return None if batch_idx == 1 else super().training_step(batch, batch_idx)

    run = lab.fit(Model(), lab.loader(3, 0))
    run.check_books()
    assert run.steps["micro_batches"] == [1, 1, 1]
    assert run.steps["framework_step"] == [1, 2, 3]
    assert run.steps["backward_calls"] == [1, 0, 1]
    assert run.steps["backward_ns"][1] is None
    assert run.steps["forward_ns"][1] is None
    assert run.steps["optimizer_calls"] == [1, 1, 1]


def test_l19_validation_inside_an_epoch_is_neither_a_step_nor_a_wait(lab: Any) -> None:
    """PL#232, PL#2291: batches of validation were counted as training."""

    class Model(lab.Model):  # type: ignore[misc]
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            lab.work("evaluation", 50)
            self.net.weight.new_zeros(1)

    run = lab.fit(Model(), lab.loader(4, 0), lab.evaluation_loader(), val_check_interval=2)
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 4
    assert run.steps["epoch"] == [0] * 4
    assert run.taken["evaluation calls"] == 6  # two of them in the sanity check
    # Two batches of 50 ms lie before the third fetch: in its wait, they would be missing in `evaluation`.
    run.check_truth("evaluation", "forward", "backward", "optimizer")
    assert min(run.column_ms("input_wait")) < 50
