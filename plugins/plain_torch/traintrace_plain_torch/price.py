"""Measure what one transition costs inside a real step of this machine, and keep it for the reports.

`python -m traintrace_plain_torch.price` (or `traintrace doctor --measure`) takes about ten seconds. It
alternates traced and untraced blocks of steps of a small real model; what tracing adds, divided by the
transitions it made, is the price. Reports of this machine then estimate their tracing cost with it.
"""

import itertools
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
from torch import nn

from traintrace import atomic, open_run
from traintrace.recording.cost import price_path
from traintrace.recording.pairing import Cost, cost_of, paired_differences
from traintrace_plain_torch.tracing import trace

PAIRS = 16
STEPS = 150
SKIPPED = 15


class _Net(nn.Sequential):
    """A class of its own, so that it is traced like a user's model."""


class _Steps:
    """Hands out batches and reads the thread's CPU clock at each; a step is the time between two."""

    def __init__(self) -> None:
        self._batches = [(torch.randn(32, 64), torch.randint(0, 10, (32,))) for _ in range(16)]
        self.moments: list[int] = []

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        self.moments.clear()
        for number in range(STEPS):
            self.moments.append(time.thread_time_ns())
            yield self._batches[number % 16]

    def median_us(self) -> float:
        kept = self.moments[SKIPPED:]
        return statistics.median(b - a for a, b in itertools.pairwise(kept)) / 1e3


def measure_transition_ns() -> Cost:
    """Measure the price of one transition [ns], with a 95 % interval."""
    torch.set_num_threads(1)
    model = _Net(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of, steps, transitions = nn.CrossEntropyLoss(), _Steps(), [1.0]

    def update(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        loss_of(model(batch[0]), batch[1]).backward()
        optimizer.step()
        optimizer.zero_grad()

    def plain() -> float:
        for batch in steps:
            update(batch)
        return steps.median_us()

    def traced() -> float:
        with tempfile.TemporaryDirectory() as folder:
            with trace(model, optimizer, run_dir=folder, print_report=False) as tracer:
                for batch in tracer.batches(steps):
                    with tracer.step():
                        update(batch)
            assert tracer.run_folder is not None
            totals = open_run(tracer.run_folder).facts([]).ranks[0].totals
            transitions[0] = totals.transitions / totals.steps
        return steps.median_us()

    chance = random.Random(0)
    paired_differences(traced, plain, 2, chance)  # imports and caches
    added = cost_of(paired_differences(traced, plain, PAIRS, chance), chance)
    factor = 1e3 / transitions[0]
    return Cost(added.estimate * factor, added.low * factor, added.high * factor)


def main() -> None:
    """Measure, keep the price, and print it as JSON."""
    price = measure_transition_ns()
    content = {"transition_ns": price.estimate, "low_ns": price.low, "high_ns": price.high}
    if price.low > 0:
        path = price_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, json.dumps(content) + "\n")
    print(json.dumps(content))


if __name__ == "__main__":
    main()
