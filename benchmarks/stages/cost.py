"""What following a queue adds to each operation: `python -m benchmarks.stages.cost [--json]`.

Blocks on a followed and on a plain queue alternate at random in one process. Between operations a small model
runs, so that each operation finds the caches as a worker's would. Timed is the CPU time of the thread around
`put` and `get` alone; the figure of a block is the median over its items, per operation. `aa_us` is the same for
two kinds of plain blocks. `replay_us` is what the drain's thread does later for each operation.
"""

import argparse
import asyncio
import functools
import json
import multiprocessing
import os
import queue
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.loop import Task
from traintrace.faults import FaultReporter
from traintrace.recording.pairing import Block, Cost, cost_of, paired_differences
from traintrace.stages.queues import follow_queue
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.stage import Stage

ITEMS: Final = 200
SKIPPED: Final = 20


class Workload:
    """One worker that puts and takes items, with a forward pass of a small model in between."""

    def __init__(self) -> None:
        self.task = Task()
        self.recorder = StageRecorder(FaultReporter(raise_faults=True))
        self.replay_us: list[float] = []

    def queues(self, make: Callable[[], Any]) -> tuple[Any, Any]:
        """Give a followed queue and a plain one."""
        return follow_queue(make(), make.__name__, self.recorder), make()

    def work(self, item: int) -> None:
        """Do what a worker does with an item."""
        self.task.model(self.task.batches[item % len(self.task.batches)][0])

    def block(self, operated: Any, staged: bool = True) -> float:
        """Give the median CPU time of an operation [us]; `staged` works in a stage."""
        times = []
        with Stage(self.recorder if staged else None, "benchmark"):
            for item in range(ITEMS):
                began = time.thread_time_ns()
                operated.put(item)
                operated.get()
                times.append(time.thread_time_ns() - began)
                self.work(item)
        return self._figure(times, 2)

    def asyncio_block(self, operated: Any) -> float:
        """Give the same for a task on an asyncio queue."""

        async def run() -> list[int]:
            times = []
            with Stage(self.recorder, "benchmark"):
                for item in range(ITEMS):
                    began = time.thread_time_ns()
                    await operated.put(item)
                    await operated.get()
                    times.append(time.thread_time_ns() - began)
                    self.work(item)
            return times

        return self._figure(asyncio.run(run()), 2)

    def done_block(self, says: bool) -> float:
        """Give the CPU time of `stage.done`, or of nothing."""
        times = []
        with Stage(self.recorder, "done") as stage:
            for item in range(ITEMS):
                began = time.thread_time_ns()
                if says:
                    stage.done(tokens=7)
                times.append(time.thread_time_ns() - began)
                self.work(item)
        return self._figure(times, 1)

    def _figure(self, times: list[int], operations: int) -> float:
        began = time.thread_time_ns()
        self.recorder.take()  # what the drain does, here between blocks
        self.replay_us.append((time.thread_time_ns() - began) / 1e3 / len(times) / operations)
        return statistics.median(times[SKIPPED:]) / operations / 1e3


def compared(workload: Workload) -> dict[str, tuple[Block, Block]]:
    """Give each figure's treated and plain block."""
    followed, plain = workload.queues(queue.Queue)
    simple, plain_simple = workload.queues(queue.SimpleQueue)
    shared, plain_shared = workload.queues(multiprocessing.Queue)
    awaited, plain_awaited = workload.queues(asyncio.Queue)
    block = workload.block
    of = functools.partial
    return {
        "aa_us": (of(block, plain), of(block, queue.Queue())),
        "queue_op_us": (of(block, followed), of(block, plain)),
        "outside_stages_us": (of(block, followed, False), of(block, plain, False)),
        "simple_queue_op_us": (of(block, simple), of(block, plain_simple)),
        "multiprocessing_op_us": (of(block, shared), of(block, plain_shared)),
        "asyncio_op_us": (
            of(workload.asyncio_block, awaited),
            of(workload.asyncio_block, plain_awaited),
        ),
        "done_us": (of(workload.done_block, True), of(workload.done_block, False)),
    }


def measure(pairs: int, chance: random.Random) -> dict[str, Cost]:
    """Measure each figure by `pairs` pairs of blocks."""
    workload = Workload()
    costs = {}
    for name, (treated, plain) in compared(workload).items():
        paired_differences(treated, plain, 2, chance)
        if name == "queue_op_us":
            workload.replay_us.clear()
        costs[name] = cost_of(paired_differences(treated, plain, pairs, chance), chance)
        if name == "queue_op_us":
            # Half of the blocks were plain and had nothing to replay.
            costs["replay_us"] = cost_of(sorted(workload.replay_us)[pairs:], chance)
    workload.recorder.end()
    return costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of blocks per figure")
    options = parser.parse_args()
    figures = {
        name: cost.as_dict() for name, cost in measure(options.pairs, random.Random(0)).items()
    }
    if options.json:
        json.dump(figures, sys.stdout, indent=2)
        print()
        return
    for name, figure in figures.items():
        print(f"{name:24} {figure}")


if __name__ == "__main__":
    main()
