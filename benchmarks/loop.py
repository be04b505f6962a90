"""The loop that every measurement of a hand-written loop runs: a small real model, CPU time per step.

This file needs torch alone, so that other tools can be measured on it in environments of their own:

    python benchmarks/loop.py --tool none|traintrace-explicit|traintrace-automatic|traceml-ai|pytscope-auto

reads "block" per line from stdin and answers with the block's median CPU time per step [us].
"""

import argparse
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
from torch import nn

STEPS = 200
SKIPPED = 20  # the first steps of a block find cold caches and fresh hooks
Batch = tuple[torch.Tensor, torch.Tensor]


class Net(nn.Module):
    """A perceptron of three layers: a step of about half a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give logits."""
        logits: torch.Tensor = self.layers(x)
        return logits


class Task:
    """Model, optimizer and data, made once per process."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loss_of = nn.CrossEntropyLoss()
        pool = [(torch.randn(32, 64), torch.randint(0, 10, (32,))) for _ in range(16)]
        self.batches = [pool[i % 16] for i in range(STEPS)]

    def update(self, batch: Batch) -> None:
        """Do what a training step does."""
        self.loss_of(self.model(batch[0]), batch[1]).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class StepTimes:
    """Hands out batches and reads the thread's CPU clock at each; a step is the time between two."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches
        self.moments: list[int] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        self.moments.clear()
        for index in range(len(self)):
            yield self[index]

    def __getitem__(self, index: int) -> Batch:
        batch = self._batches[index]
        self.moments.append(time.thread_time_ns())
        return batch

    def median_us(self) -> float:
        """Give the median time per step of the last pass [us], its first steps left out."""
        kept = self.moments[SKIPPED:]
        return statistics.median(b - a for a, b in itertools.pairwise(kept)) / 1e3


def plain_block(task: Task) -> float:
    """Train one block untraced."""
    times = StepTimes(task.batches)
    for batch in times:
        task.update(batch)
    return times.median_us()


@contextlib.contextmanager
def _session(*arguments: Any) -> Iterator[Any]:
    from traintrace_plain_torch import trace

    with tempfile.TemporaryDirectory() as folder:
        tracer = trace(*arguments, run_dir=folder, print_report=False).start()
        session: Any = tracer._session
        session._on_finish = None  # the report is no part of a step
        try:
            yield tracer
        finally:
            tracer.close()


def automatic_block(task: Task) -> float:
    """Train one block with `trace(model, optimizer)`, `batches` and `step`."""
    times = StepTimes(task.batches)
    with _session(task.model, task.optimizer) as tracer:
        for batch in tracer.batches(times):
            with tracer.step():
                task.update(batch)
    return times.median_us()


def untouched_block(task: Task, traced: bool) -> float:
    """Train one block from a DataLoader, in a loop that knows nothing of the tracer around it."""
    times = StepTimes(task.batches)
    loader: Any = torch.utils.data.DataLoader(times, batch_size=None)  # type: ignore[arg-type]
    around = _session(task.model, task.optimizer) if traced else contextlib.nullcontext()
    with around:
        for batch in loader:
            task.update(batch)
    return times.median_us()


def explicit_block(task: Task) -> float:
    """Train one block with `trace()`, `step` and one mark per phase: five phases, nothing hooked."""
    times = StepTimes(task.batches)
    with _session() as tracer:
        mark, batches = tracer.mark, iter(times)
        for _ in range(STEPS):
            with tracer.step():
                mark("input_wait")
                x, y = next(batches)
                mark("h2d")
                mark("forward")
                loss = task.loss_of(task.model(x), y)
                mark("backward")
                loss.backward()
                mark("optimizer")
                task.optimizer.step()
                task.optimizer.zero_grad()
    return times.median_us()


def traceml_block(task: Task) -> float:
    """Train one block under traceml-ai, as its quick start says."""
    import traceml_ai as traceml  # type: ignore[import-not-found]  # in its own environment

    times = StepTimes(task.batches)
    for batch in times:
        with traceml.trace_step(task.model):
            task.update(batch)
    return times.median_us()


def pytscope_block(task: Task) -> float:
    """Train one block under pytscope's automatic profiler."""
    from pytscope import AutoProfiler  # type: ignore[import-not-found]  # in its own environment

    times = StepTimes(task.batches)
    with tempfile.TemporaryDirectory() as folder, AutoProfiler(folder, task.model, task.optimizer):
        for batch in times:
            task.update(batch)
    return times.median_us()


def block_of(tool: str, task: Task) -> Callable[[], float]:
    """Give what runs one block under `tool`."""
    if tool == "traceml-ai":
        import traceml_ai as traceml

        traceml.init()
    blocks = {
        "none": plain_block,
        "traintrace-explicit": explicit_block,
        "traintrace-automatic": automatic_block,
        "traceml-ai": traceml_block,
        "pytscope-auto": pytscope_block,
    }
    run = blocks[tool]
    return lambda: run(task)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    block = block_of(parser.parse_args().tool, Task())
    answers, sys.stdout = sys.stdout, sys.stderr  # a tool may print; only answers go to stdout
    for _line in sys.stdin:
        print(block(), file=answers, flush=True)
