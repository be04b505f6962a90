"""What other threads do with the Trainer, and what interrupts a wrapper at its worst moment."""

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from traintrace_lightning import seams


@pytest.mark.parametrize("profiler", [None, "simple"])
def test_what_another_thread_does_with_the_trainer_is_not_this_threads_time(
    lab: Any, profiler: str | None
) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def on_save_checkpoint(self, checkpoint: Any) -> None:
            lab.work("elsewhere", 20)

        def disturb(self) -> None:
            trainer = self.trainer
            trainer.save_checkpoint(lab.folder / "background.ckpt")
            for name in (
                "[LightningModule]Model.configure_gradient_clipping",
                "[_TrainingEpochLoop].train_dataloader_next",
            ):
                with trainer.profiler.profile(name):
                    lab.work("elsewhere", 20)
            with contextlib.suppress(AttributeError):
                trainer.strategy.optimizer_step(None, None)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            thread = threading.Thread(target=self.disturb)
            thread.start()
            thread.join()
            return super().training_step(batch, batch_idx)

    run = lab.fit(Model(), lab.loader(4), profiler=profiler, gradient_clip_val=1.0)
    run.check_books()
    assert run.taken["elsewhere calls"] == 12
    assert "checkpoint" not in run.rank.totals.account_ns
    assert run.steps["input_wait_calls"] == [1] * 4
    run.check_truth("forward", "backward", "optimizer", "input_wait")
    # Booked as a clip, a checkpoint or a wait of the training thread it would be missing here.
    assert run.ms("other") >= run.taken["elsewhere"] / 1e6


def test_an_interrupt_between_a_mark_and_the_call_leaves_no_account_open() -> None:
    written: list[int] = []

    def marker(code: int) -> Any:
        def mark() -> None:
            written.append(code)
            if code >= 0:
                raise KeyboardInterrupt

        return mark

    journal = SimpleNamespace(owner=threading.get_ident(), marker=marker)
    fit: Any = SimpleNamespace(session=SimpleNamespace(journal=journal))
    owner = SimpleNamespace(method=lambda: None)
    seams._wrap(fit, owner, seams.Wrap("", "method", 3))
    with pytest.raises(KeyboardInterrupt):
        owner.method()
    assert written == [3, ~3]
