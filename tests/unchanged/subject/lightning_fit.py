"""A fit of Lightning's Trainer, of either of its two names."""

from importlib import import_module
from typing import Any

from torch import nn

from tests.unchanged.subject.recipe import (
    ACCUMULATION,
    CLIP_NORM,
    EPOCHS,
    Diary,
    evaluation_loader,
    optimizer_and_scheduler,
    training_loader,
)


def train(name: str, model: nn.Module, diary: Diary, traced: bool) -> dict[str, Any]:
    pl = import_module(name)
    callbacks = [pl.callbacks.ModelCheckpoint(dirpath="checkpoints", save_last=True)]
    if traced:
        from traintrace_lightning import TraceCallback

        callbacks.append(TraceCallback())
    module = _module_class(pl, diary)(model)
    loader = training_loader()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=EPOCHS,
        accumulate_grad_batches=ACCUMULATION,
        gradient_clip_val=CLIP_NORM,
        callbacks=callbacks,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(module, loader, evaluation_loader())
    optimizer = trainer.optimizers[0]
    (scheduler,) = (config.scheduler for config in trainer.lr_scheduler_configs)
    return {
        **{"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader},
        **{"module": module, "trainer": trainer},
    }


def _module_class(pl: Any, diary: Diary) -> Any:
    class Module(pl.LightningModule):  # type: ignore[misc]  # made at run time
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = self.net(**batch)["loss"]
            self.log("loss", loss)
            diary.note_loss(
                loss, model=self.net, optimizer=self.optimizers().optimizer, batch=batch
            )
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            loss = self.net(**batch)["loss"]
            self.log("evaluation loss", loss)
            diary.note_evaluation(loss)

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            diary.note_gradients(self)

        def on_train_epoch_end(self) -> None:
            diary.note_random_state()

        def configure_optimizers(self) -> Any:
            optimizer, scheduler = optimizer_and_scheduler(self)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
            }

    return Module
