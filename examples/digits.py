"""The task that all examples share: a small convolutional net on real images of handwritten digits."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch import nn
from torch.utils.data import Dataset

# What a slow image decoder costs per sample [s]; `--fast` leaves it out.
DECODE_SECONDS = 0.002
BATCH_SIZE = 32
PIXELS = 16  # along each side


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be chosen on the command line.

    Attributes:
        trace: "on", "off" (the tracer is there but disabled) or "absent" (no tracer at all).
    """

    run_dir: Path = Path("runs")
    fast: bool = False
    accumulate: int = 1
    epochs: int = 2
    trace: str = "on"
    print_report: bool = True


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training run leaves behind: every loss, and the final weights."""

    losses: list[float]
    weights: list[torch.Tensor]


class Digits(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """1,797 scanned digits from scikit-learn, enlarged and decoded slowly unless told otherwise."""

    def __init__(self, fast: bool) -> None:
        images, labels = load_digits(return_X_y=True)
        small = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        self._images = nn.functional.interpolate(small, size=(PIXELS, PIXELS))
        self._labels = torch.tensor(labels, dtype=torch.long)
        self._fast = fast

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._fast:
            time.sleep(DECODE_SECONDS)
        return self._images[index], self._labels[index]


class Net(nn.Module):
    """Two convolutions and a linear layer; about 91,000 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(32 * PIXELS * PIXELS, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Give logits of shape (batch, 10) for images of shape (batch, 1, 16, 16)."""
        logits: torch.Tensor = self.layers(images)
        return logits


def parse_settings(description: str, arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--run-dir", type=Path, default=Path("runs"), help="folder that holds runs")
    parser.add_argument("--fast", action="store_true", help="leave out the slow decoder")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N", help="batches per update")
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    parser.add_argument("--trace", choices=("on", "off", "absent"), default="on")
    return Settings(**vars(parser.parse_args(arguments)))
