"""Train on handwritten digits with Lightning, traced by one callback."""

import logging
import warnings
from typing import Any

import lightning.pytorch as pl
import torch
from digits import BATCH_SIZE, Digits, Net, Settings, Trained, parse_settings
from torch import nn
from torch.utils.data import DataLoader

from traintrace_lightning import TraceCallback


class DigitsModule(pl.LightningModule):
    """The shared net with its loss and optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """Give the loss of one micro-batch."""
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Give the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.05)


def train(settings: Settings) -> Trained:
    """Train; the tracer is the one callback."""
    pl.seed_everything(0, verbose=False)
    model = DigitsModule()
    callbacks: list[Any] = []
    if settings.trace != "absent":
        callbacks.append(  # <- the tracer
            TraceCallback(
                run_dir=settings.run_dir,
                name="digits-lightning",
                enabled=settings.trace == "on",
                print_report=settings.print_report,
            )
        )
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=settings.epochs,
        accumulate_grad_batches=settings.accumulate,
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(Digits(settings.fast), batch_size=BATCH_SIZE, shuffle=True)
    trainer.fit(model, loader)
    return Trained(model.losses, [parameter.detach().clone() for parameter in model.parameters()])


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    train(parse_settings(__doc__ or ""))
