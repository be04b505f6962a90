"""One small training in three ways: `plain`, `lightning` or `huggingface`; prints its loss exactly.

Arguments: the way, then any of `fail` (raise in the sixth step), `exit` (end with code 5).
"""

import sys
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

FAIL, EXIT = "fail" in sys.argv, "exit" in sys.argv
ROWS: Any = [torch.full((4,), float(row % 5)) for row in range(24)]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if FAIL and self.calls == 6:
            raise ArithmeticError("the loss is not finite")
        return self.layers(x).square().mean()


def plain() -> float:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.zeros(())
    for batch in DataLoader(ROWS, batch_size=2, shuffle=True):
        loss = model(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def lightning() -> float:
    import lightning.pytorch as pl

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: torch.Tensor) -> torch.Tensor:
            self.loss = self.net(batch)
            return self.loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    model = Model()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(ROWS, batch_size=2, shuffle=True))
    return model.loss.item()


def huggingface() -> float:
    import transformers

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.net(x)}

    arguments = transformers.TrainingArguments(
        output_dir="output",
        use_cpu=True,
        per_device_train_batch_size=2,
        max_steps=12,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        optim="sgd",
    )
    trainer = transformers.Trainer(
        model=Model(),
        args=arguments,
        train_dataset=ROWS,
        data_collator=lambda samples: {"x": torch.stack(samples)},
    )
    return float(trainer.train().training_loss)


if __name__ == "__main__":
    print(
        "loss", {"plain": plain, "lightning": lightning, "huggingface": huggingface}[sys.argv[1]]()
    )
    sys.exit(5 if EXIT else 0)
