"""A Lightning training that any launcher can start; `--automatic` leaves tracing to `traintrace run`."""

import argparse
import sys
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader


class Net(torch.nn.Linear):
    """Seen as the network inside the module."""


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net(4, 1)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.net(batch).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--automatic", action="store_true")
    parser.add_argument("--exit", type=int, default=0)
    options = parser.parse_args()
    callbacks: list[Any] = []
    if not options.automatic:
        from traintrace_lightning import TraceCallback

        callbacks.append(TraceCallback(run_dir="runs"))
    trainer = pl.Trainer(
        accelerator="cpu",
        strategy="ddp" if options.devices > 1 else "auto",
        devices=options.devices,
        max_steps=options.steps,
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), DataLoader([torch.ones(4)] * 64, batch_size=2))  # type: ignore[arg-type]
    sys.exit(options.exit)


if __name__ == "__main__":
    main()
