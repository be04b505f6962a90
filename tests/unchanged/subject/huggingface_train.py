"""A training of the Hugging Face Trainer."""

from typing import Any

from torch import nn

from tests.unchanged.subject.recipe import (
    ACCUMULATION,
    BATCH_SIZE,
    CLIP_NORM,
    EPOCHS,
    WORKERS,
    Diary,
    Samples,
)


def train(model: nn.Module, diary: Diary, traced: bool) -> dict[str, Any]:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Notes(TrainerCallback):
        def on_pre_optimizer_step(self, *arguments: Any, **kwargs: Any) -> None:
            diary.note_gradients(kwargs["model"])

        def on_epoch_end(self, *arguments: Any, **kwargs: Any) -> None:
            diary.note_random_state()

    class OwnTrainer(Trainer):
        def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **kwargs: Any) -> Any:
            result: Any = super().compute_loss(model, inputs, *arguments, **kwargs)
            if model.training:
                optimizer: Any = self.optimizer
                diary.note_loss(result, model=model, optimizer=optimizer.optimizer, batch=inputs)
            else:
                diary.note_evaluation(result[0])
            return result

    callbacks: list[Any] = [Notes()]
    if traced:
        from traintrace_huggingface import TraceCallback

        callbacks.append(TraceCallback())
    arguments = TrainingArguments(
        "out",
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH_SIZE,
        per_device_eval_batch_size=BATCH_SIZE,
        gradient_accumulation_steps=ACCUMULATION,
        max_grad_norm=CLIP_NORM,
        learning_rate=0.01,
        dataloader_num_workers=WORKERS,
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_steps=1,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
    trainer = OwnTrainer(
        model,
        arguments,
        train_dataset=Samples(),
        eval_dataset=Samples(4),
        callbacks=callbacks,
    )
    trainer.train()
    return {
        **{"model": model, "optimizer": trainer.optimizer, "scheduler": trainer.lr_scheduler},
        **{"loader": trainer.callback_handler.train_dataloader, "trainer": trainer},
    }
