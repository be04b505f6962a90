"""Counting the operations of steps under Lightning: exact, and fit is the same to the bit."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.labs.counted import no_graphs, random_batches, two_layers, two_layers_flops
from traintrace import open_run
from traintrace.facts import FLOPS_COUNTED
from traintrace_lightning import TraceCallback

__all__ = ["no_graphs"]


class Module(pl.LightningModule):
    """Two layers with dropout; validation runs them on more than training does."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.drop = two_layers(), nn.Dropout(0.2)
        self.losses: list[float] = []

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        loss = self.drop(self.net(batch)).square().mean()
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.net(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.05)


def fit(folder: Path, accumulate: int, **options: Any) -> tuple[Module, TraceCallback]:
    pl.seed_everything(3, verbose=False)
    module, callback = Module(), TraceCallback(run_dir=folder, print_report=False, **options)
    callbacks: list[Any] = [callback]
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=accumulate,
        val_check_interval=accumulate,
        callbacks=callbacks,
        default_root_dir=folder,
    )
    training = [batch.unbind() for batch in random_batches(*(4,) * (9 * accumulate))]
    data: Any = [row for rows in training for row in rows]
    more: Any = list(random_batches(64)[0])
    loader, evaluation = DataLoader(data, 4), DataLoader(more, 32)
    trainer.fit(module, loader, evaluation)
    return module, callback


@pytest.mark.parametrize("accumulate", [1, 4])
def test_steps_are_counted_and_training_is_the_same(tmp_path: Path, accumulate: int) -> None:
    plain, _ = fit(tmp_path, accumulate, enabled=False)
    counted, callback = fit(tmp_path, accumulate, flops_per_step="count")
    assert counted.losses == plain.losses
    for one, other in zip(counted.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
    assert callback.run_folder is not None
    (rank,) = open_run(callback.run_folder).facts(["step", "flags"]).ranks
    assert rank.flops is not None
    found = [(one.step, one.total, one.samples) for one in rank.flops.counted]
    each = accumulate * two_layers_flops(4)
    assert found == [(3, each, 4 * accumulate), (8, each, 4 * accumulate)]
    flagged = [(flags or 0) & FLOPS_COUNTED for flags in rank.columns["flags"]]
    assert [number for number, flag in enumerate(flagged, 1) if flag] == [3, 8]
