"""Train on handwritten digits with the Hugging Face Trainer, traced by one callback."""

import tempfile
from typing import Any

import torch
from digits import BATCH_SIZE, Digits, Net, Settings, Trained, parse_settings
from torch import nn
from transformers import Trainer, TrainingArguments, set_seed

from traintrace_huggingface import TraceCallback


class DigitsClassifier(nn.Module):
    """The shared net as the Trainer wants it: keyword inputs, a dict with the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.losses: list[float] = []

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Give loss and logits of one micro-batch."""
        logits = self.net(images)
        loss = nn.functional.cross_entropy(logits, labels)
        self.losses.append(loss.item())
        return {"loss": loss, "logits": logits}


def collate(samples: list[Any]) -> dict[str, torch.Tensor]:
    """Stack (image, label) pairs into named tensors."""
    images, labels = zip(*samples, strict=True)
    return {"images": torch.stack(images), "labels": torch.stack(labels)}


def train(settings: Settings) -> Trained:
    """Train; the tracer is the one callback."""
    set_seed(0)
    model = DigitsClassifier()
    callbacks: list[Any] = []
    if settings.trace != "absent":
        callbacks.append(  # <- the tracer
            TraceCallback(
                run_dir=settings.run_dir,
                name="digits-huggingface",
                enabled=settings.trace == "on",
                print_report=settings.print_report,
            )
        )
    with tempfile.TemporaryDirectory() as output:
        arguments = TrainingArguments(
            output,
            per_device_train_batch_size=BATCH_SIZE,
            num_train_epochs=settings.epochs,
            gradient_accumulation_steps=settings.accumulate,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = Trainer(
            model,
            arguments,
            data_collator=collate,
            train_dataset=Digits(settings.fast),
            callbacks=callbacks,
            optimizers=(torch.optim.SGD(model.parameters(), lr=0.05), None),
        )
        trainer.train()
    return Trained(model.losses, [parameter.detach().clone() for parameter in model.parameters()])


if __name__ == "__main__":
    train(parse_settings(__doc__ or ""))
