"""Train on handwritten digits with a hand-written loop, traced by one context manager."""

from contextlib import nullcontext
from typing import Any

import torch
from digits import BATCH_SIZE, Digits, Net, Settings, Trained, parse_settings
from torch import nn
from torch.utils.data import DataLoader

from traintrace_plain_torch import trace


def train(settings: Settings) -> Trained:
    """Train; the tracer is the two marked lines and nothing else."""
    torch.manual_seed(0)
    model, loss_of, losses = Net(), nn.CrossEntropyLoss(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Digits(settings.fast), batch_size=BATCH_SIZE, shuffle=True)
    with make_trace(model, optimizer, settings) as tracer:  # <- the tracer
        for _ in range(settings.epochs):
            for number, (images, labels) in enumerate(tracer.batches(loader), start=1):
                with tracer.step():  # <- one step, or one micro-batch of it
                    loss = loss_of(model(images), labels) / settings.accumulate
                    loss.backward()
                    if number % settings.accumulate == 0 or number == len(loader):
                        optimizer.step()
                        optimizer.zero_grad()
                losses.append(loss.item())
    return Trained(losses, [parameter.detach().clone() for parameter in model.parameters()])


def make_trace(model: nn.Module, optimizer: torch.optim.Optimizer, settings: Settings) -> Any:
    """Give the tracer, or for `--trace absent` something that does what a loop without one does."""
    if settings.trace == "absent":
        return nullcontext(_NoTracer())
    return trace(
        model,
        optimizer,
        run_dir=settings.run_dir,
        name="digits-plain",
        enabled=settings.trace == "on",
        print_report=settings.print_report,
    )


class _NoTracer:
    @staticmethod
    def batches(loader: Any) -> Any:
        return loader

    @staticmethod
    def step() -> Any:
        return nullcontext()


if __name__ == "__main__":
    train(parse_settings(__doc__ or ""))
