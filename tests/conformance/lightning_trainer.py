"""The Trainers of `lightning.pytorch` and `pytorch_lightning`."""

import functools
import logging
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from traintrace.patching import replace_attribute
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Parts, Recipe
from traintrace.testing.truth import Part
from traintrace_lightning import TraceCallback

CLOCK = "traintrace_lightning.opening:clock_of"
# Methods of the validation loop: the loaders are made once before the first evaluation.
CLOCKED: Mapping[str, Part] = {"run": "evaluation", "setup_data": "evaluation_setup"}


def _train(recipe: Recipe, parts: Parts, folder: Path, *, namespace: str) -> Path:
    pl: Any = import_module(namespace)
    checkpoints: Any = import_module(f"{namespace}.callbacks").ModelCheckpoint
    logging.getLogger(namespace).setLevel(logging.ERROR)

    class Module(pl.LightningModule):  # type: ignore[misc]  # made at run time
        def __init__(self) -> None:
            super().__init__()
            self.net = parts.model

        def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
            return batch.to(device)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.net(**batch)["loss"]

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.net(**batch)

        def configure_optimizers(self) -> Any:
            return parts.optimizer()

        def on_train_end(self) -> None:
            parts.finish()

    class Trainer(pl.Trainer):  # type: ignore[misc]
        def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
            with parts.truth.clock("checkpoint"):
                parts.spend(recipe.delays.checkpoint)
                super().save_checkpoint(*args, **kwargs)

    saves = recipe.checkpoints > 0
    every = recipe.checkpoint_every
    callback = TraceCallback(run_dir=folder, print_report=False)
    # Lightning evaluates where the batches of an epoch are a multiple of the interval.
    interval = (recipe.evaluate_every or 0) * recipe.accumulation
    trainer = Trainer(
        accelerator="cpu" if parts.device.type == "cpu" else "gpu",
        devices=1,
        max_epochs=recipe.epochs,
        accumulate_grad_batches=recipe.accumulation,
        val_check_interval=interval if recipe.evaluations else None,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=saves,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[
            callback,
            *([checkpoints(folder, every_n_train_steps=every, save_top_k=-1)] if saves else []),
        ],
    )
    with ExitStack() as undo, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice on loaders
        loop = trainer.fit_loop.epoch_loop.val_loop
        for name, part in CLOCKED.items():
            clocked = _clocked(parts, part, getattr(loop, name))
            undo.callback(replace_attribute(loop, name, clocked))
        loaders = [parts.training_loader()]
        trainer.fit(Module(), *loaders, *([parts.evaluation_loader()] if interval else []))
    assert callback.run_folder is not None
    return callback.run_folder


def _clocked(parts: Parts, part: Part, original: Any) -> Any:
    @functools.wraps(original)
    def call() -> Any:
        with parts.truth.clock(part):
            return original()

    return call


def _integration(name: str, namespace: str) -> Integration:
    return Integration(
        name,
        functools.partial(_train, namespace=namespace),
        # input_wait: its combined loader; h2d: three hooks of the module and the precision's conversion;
        # epoch_boundary: the loop's set-up.
        framework_ms={"input_wait": 0.1, "h2d": 0.3, "epoch_boundary": 0.3},
        device_clock=CLOCK,
    )


LIGHTNING = _integration("Lightning", "lightning.pytorch")
PYTORCH_LIGHTNING = _integration("pytorch_lightning", "pytorch_lightning")
