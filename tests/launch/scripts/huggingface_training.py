"""A Trainer of transformers that any launcher can start; `--automatic` leaves tracing to `traintrace run`."""

import argparse
import sys
from typing import Any

import torch
import transformers


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(x).square().mean()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--automatic", action="store_true")
    parser.add_argument("--exit", type=int, default=0)
    options = parser.parse_args()
    callbacks: list[Any] = []
    if not options.automatic:
        from traintrace_huggingface import TraceCallback

        callbacks.append(TraceCallback(run_dir="runs"))
    arguments = transformers.TrainingArguments(
        output_dir="output",
        use_cpu=True,
        per_device_train_batch_size=2,
        max_steps=options.steps,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        optim="sgd",
    )
    trainer = transformers.Trainer(
        model=Net(),
        args=arguments,
        train_dataset=[torch.ones(4)] * 64,
        data_collator=lambda samples: {"x": torch.stack(samples)},
        callbacks=callbacks,
    )
    trainer.train()
    sys.exit(options.exit)


if __name__ == "__main__":
    main()
