"""What `test_frameworks.py` starts as two ranks: frameworks train with and without tracing, to the same bits."""

import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
import transformers
from torch import nn
from torch.utils.data import DataLoader

import traintrace_huggingface
import traintrace_lightning

FOLDER = Path(sys.argv[1])
SAMPLES, ACCUMULATE = 32, 2


class Net(nn.Module):
    """Two layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.losses: list[bytes] = []

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = self.layers(x).square().mean()
        self.losses.append(loss.detach().numpy().tobytes())
        return {"loss": loss}

    def bits(self) -> list[bytes]:
        return self.losses + [one.detach().numpy().tobytes() for one in self.parameters()]


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def training_step(self, batch: torch.Tensor) -> Any:
        loss = self.net(batch)["loss"]
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data() -> list[torch.Tensor]:
    return [*torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(1))]


def lightning_bits(is_traced: bool) -> list[bytes]:
    torch.manual_seed(5)
    module = Module()
    callback: Any = traintrace_lightning.TraceCallback(
        run_dir=FOLDER, name="lightning", print_report=False
    )
    trainer = pl.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=dist.get_world_size(),
        max_epochs=1,
        accumulate_grad_batches=ACCUMULATE,
        callbacks=[callback] if is_traced else [],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(data(), batch_size=2))  # type: ignore[arg-type]
    return module.net.bits()


def huggingface_bits(is_traced: bool) -> list[bytes]:
    torch.manual_seed(5)
    net = Net()
    callback: Any = traintrace_huggingface.TraceCallback(
        run_dir=FOLDER, name="huggingface", print_report=False
    )
    arguments = transformers.TrainingArguments(
        output_dir=str(FOLDER / "output"),
        use_cpu=True,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=ACCUMULATE,
        num_train_epochs=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        logging_steps=3,
        optim="sgd",
    )
    trainer = transformers.Trainer(
        model=net,
        args=arguments,
        train_dataset=data(),
        data_collator=lambda samples: {"x": torch.stack(samples)},
        callbacks=[callback] if is_traced else [],
    )
    trainer.train()
    return net.bits()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for train in (lightning_bits, huggingface_bits):
        untraced, traced = train(False), train(True)
        assert len(untraced) > SAMPLES // 2 // dist.get_world_size()
        assert traced == untraced, train.__name__
    dist.barrier()
    dist.destroy_process_group()
