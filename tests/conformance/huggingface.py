"""The Trainer of transformers."""

from pathlib import Path
from typing import Any

from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from tests.labs.huggingface import UPDATES_SHORT_GROUPS
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Parts, Recipe
from traintrace_huggingface import TraceCallback


def _train(recipe: Recipe, parts: Parts, folder: Path) -> Path:
    class Clocked(Trainer):
        def evaluate(self, *args: Any, **kwargs: Any) -> Any:
            with parts.truth.clock("evaluation"):
                return super().evaluate(*args, **kwargs)

        def log(self, *args: Any, **kwargs: Any) -> None:
            with parts.truth.clock("logging"):
                super().log(*args, **kwargs)

        def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
            with parts.truth.clock("checkpoint"):
                parts.spend(recipe.delays.checkpoint)
                super()._save_checkpoint(*args, **kwargs)

    class Wishes(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_evaluate = recipe.evaluates_after(state.global_step)
            control.should_save = recipe.checkpoints_after(state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            parts.finish()

    callback = TraceCallback(run_dir=folder, print_report=False)
    arguments = TrainingArguments(
        str(folder / "out"),
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.accumulation,
        num_train_epochs=recipe.epochs,
        dataloader_num_workers=recipe.workers,
        dataloader_persistent_workers=recipe.persistent,
        dataloader_pin_memory=parts.device.type == "cuda",
        remove_unused_columns=False,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=parts.device.type == "cpu",
    )
    trainer = Clocked(
        parts.model,
        arguments,
        data_collator=parts.collate,
        train_dataset=parts.training_data,
        eval_dataset=parts.evaluation_data,
        optimizers=(parts.optimizer(), None),
        callbacks=[callback, Wishes()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    assert callback.run_folder is not None
    return callback.run_folder


HUGGINGFACE = Integration(
    "HF Trainer",
    _train,
    unmeasured={"h2d": "input_wait"},
    framework_ms={"input_wait": 0.1},  # accelerate's loader, and the collection of a group
    carries_short_groups=not UPDATES_SHORT_GROUPS,
    looks_ahead=True,
    device_clock="traintrace_huggingface.opening:device_clock",
)
