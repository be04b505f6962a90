"""Training steps that take the loader's iterator and fetch for themselves."""

from typing import Any

import pytest
import torch


def test_a_step_that_fetches_for_itself_is_measured(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, dataloader_iter: Any) -> Any:
            batch, _, _ = next(dataloader_iter)
            return self.net(batch).mean()

    run = lab.fit(Model(), lab.loader(4))
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 4
    run.check_truth("input_wait", "forward", "backward")
    assert run.rank.unmeasured["h2d"] == "the training step moves its own batches"


@pytest.mark.parametrize("automatic", [True, False])
def test_a_step_that_finds_the_data_at_its_end_was_none(lab: Any, automatic: bool) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = automatic

        def training_step(self, dataloader_iter: Any) -> Any:
            batch, _, _ = next(dataloader_iter)
            loss = self.net(batch).mean()
            if not automatic:
                loss.backward()
                self.optimizers().step()
            return loss

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            return iter(torch.zeros(3, 4))

    run = lab.fit(Model(), torch.utils.data.DataLoader(Stream()), max_epochs=2)
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 6
    assert run.rank.totals.steps_aborted == 0
    assert "aborted" not in run.rank.totals.account_ns
    assert None not in run.steps["input_wait_ns"]


def test_a_step_that_fetches_for_itself_and_fails_is_aborted(lab: Any, read: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, dataloader_iter: Any) -> Any:
            next(dataloader_iter)
            raise ZeroDivisionError

    callback = lab.callback()
    trainer = lab.trainer(callback)
    with pytest.raises(ZeroDivisionError):
        trainer.fit(Model(), lab.loader(3))
    run = read(callback, trainer, lab.taken)
    run.check_books()
    assert run.rank.totals.steps_aborted == 1
