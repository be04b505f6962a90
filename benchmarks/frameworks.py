"""The same small model under Lightning and the Hugging Face Trainer, one block per `fit` or `train`."""

import logging
import tempfile
import time
import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.loop import STEPS, Batch, Net, StepTimes, Task


class _Batches(Dataset[Any]):
    """One ready batch per item; notes the thread's CPU clock when it is asked for one."""

    def __init__(self, batches: list[Batch], named: bool) -> None:
        self._batches = batches
        self._named = named
        self.times = StepTimes(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        self.times.moments.append(time.thread_time_ns())
        x, y = self._batches[index]
        return {"x": x, "labels": y} if self._named else (x, y)


def lightning_block(task: Task, traced: bool) -> float:
    """Fit one block with Lightning; give its median CPU time per step [us]."""
    import lightning.pytorch as pl

    from traintrace_lightning import TraceCallback

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data = _Batches(task.batches, named=False)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        callback: Any = TraceCallback(run_dir=folder, print_report=False)
        trainer = pl.Trainer(
            accelerator="cpu",
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[callback] if traced else [],
        )
        trainer.fit(Module(), DataLoader(data, batch_size=None))
    return data.times.median_us()


def huggingface_block(task: Task, traced: bool) -> float:
    """Train one block with the Hugging Face Trainer; give its median CPU time per step [us]."""
    from transformers import PrinterCallback, Trainer, TrainingArguments

    from traintrace_huggingface import TraceCallback

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = self.net(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    data = _Batches(task.batches, named=True)
    model = Model()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        callback: Any = TraceCallback(run_dir=folder, print_report=False)
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=1,
            max_steps=STEPS,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = Trainer(
            model,
            arguments,
            data_collator=lambda items: items[0],
            train_dataset=data,
            callbacks=[callback] if traced else [],
            optimizers=(torch.optim.SGD(model.parameters(), lr=0.01), None),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return data.times.median_us()
