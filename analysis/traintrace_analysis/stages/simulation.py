"""A pipeline played again: the recorded service times through the recorded queues.

Discrete events. A worker takes what one service needs, works as long as was recorded, and puts what comes
out; where a queue is full it keeps the item and stands still (blocking after service), as in a `put` that
waits. A network without forks follows the recursion of tandem queues with finite buffers
    start_i(n) = max(leave_{i-1}(n), leave_i(n - 1))
    leave_i(n) = max(start_i(n) + s_i(n), start_{i+1}(n - K_i))
but workers in parallel overtake each other, so events are played in order of time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from traintrace_analysis.step_window import Floats

# Queue numbers, one for each item that one service takes or puts.
Moves = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PlayedStage:
    """One stage as it is played.

    Attributes:
        service_ns: One time per service, in the order in which they began.
        takes, puts: What each service takes from and puts into queues; the pattern repeats.
        starts_ns: When each worker begins, one entry a worker.
    """

    service_ns: Floats
    takes: Sequence[Moves]
    puts: Sequence[Moves]
    starts_ns: Sequence[float]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A pipeline as it is played.

    Attributes:
        capacities: By queue; infinite if it is not bounded. held: items in it at the start.
        last: Number of the stage whose services are counted.
    """

    stages: tuple[PlayedStage, ...]
    capacities: tuple[float, ...]
    held: tuple[int, ...]
    last: int

    def with_stage(self, number: int, stage: PlayedStage) -> "Played":
        """Give the pipeline with another stage in that place."""
        stages = tuple(stage if place == number else one for place, one in enumerate(self.stages))
        return replace(self, stages=stages)

    def with_capacity(self, number: int, capacity: float) -> "Played":
        """Give the pipeline with another capacity of one queue."""
        changed = (
            capacity if place == number else one for place, one in enumerate(self.capacities)
        )
        return replace(self, capacities=tuple(changed))


def spread(ratio: float) -> tuple[int, ...]:
    """Give whole numbers whose mean is `ratio`, as evenly as can be: 1.5 is 1, 2; 0.25 is 0, 0, 0, 1."""
    short = (n for n in range(1, 33) if abs(ratio * n - round(ratio * n)) < 1e-6)
    length = next(short, 1024)
    steps = np.floor(ratio * np.arange(length + 1) + 1e-6)
    return tuple(int(step) for step in np.diff(steps))


def moves(ratios: Sequence[tuple[int, float]]) -> list[Moves]:
    """Give the queues that successive services move items of, from (queue, items per service)."""
    counts = [(queue, spread(ratio)) for queue, ratio in ratios]
    length = int(np.lcm.reduce([len(pattern) for _, pattern in counts])) if counts else 1
    return [
        tuple(queue for queue, pattern in counts for _ in range(pattern[place % len(pattern)]))
        for place in range(length)
    ]


def play(pipeline: Played) -> Floats:
    """Play a pipeline until nothing moves; give when each service of the last stage was done [ns]."""
    stages, capacities, last = pipeline.stages, pipeline.capacities, pipeline.last
    content = list(pipeline.held)
    service = [stage.service_ns.tolist() for stage in stages]
    takes, puts = [list(s.takes) for s in stages], [list(s.puts) for s in stages]
    upcoming = [0] * len(stages)
    getters: list[deque[int]] = [deque() for _ in capacities]
    putters: list[deque[int]] = [deque() for _ in capacities]
    stage_of = [number for number, stage in enumerate(stages) for _ in stage.starts_ns]
    # A worker in front of its first service is one that has put everything.
    current, place, putting = [-1] * len(stage_of), [0] * len(stage_of), [True] * len(stage_of)
    starts = [start for stage in stages for start in stage.starts_ns]
    heap = [(start, worker) for worker, start in enumerate(starts)]
    heapify(heap)
    done: list[float] = []
    ready: list[int] = []
    while heap:
        now, worker = heappop(heap)
        number = stage_of[worker]
        if number == last and current[worker] >= 0:
            done.append(now)
        putting[worker], place[worker] = True, 0
        ready.append(worker)
        while ready:
            worker = ready.pop()
            number = stage_of[worker]
            at = place[worker]
            if putting[worker]:
                pattern = puts[number]
                turn = current[worker]
                todo = pattern[turn % len(pattern)] if turn >= 0 else ()
                blocked = False
                while at < len(todo):
                    queue = todo[at]
                    if getters[queue]:
                        other = getters[queue].popleft()
                        place[other] += 1
                        ready.append(other)
                    elif content[queue] < capacities[queue]:
                        content[queue] += 1
                    else:
                        putters[queue].append(worker)
                        blocked = True
                        break
                    at += 1
                if blocked:
                    place[worker] = at
                    continue
                if upcoming[number] == len(service[number]):
                    continue  # the stage has no further work
                current[worker] = upcoming[number]
                upcoming[number] += 1
                putting[worker], at = False, 0
            pattern = takes[number]
            todo = pattern[current[worker] % len(pattern)]
            starved = False
            while at < len(todo):
                queue = todo[at]
                if not content[queue]:
                    getters[queue].append(worker)
                    starved = True
                    break
                if putters[queue]:  # one out, one in
                    other = putters[queue].popleft()
                    place[other] += 1
                    ready.append(other)
                else:
                    content[queue] -= 1
                at += 1
            place[worker] = at
            if not starved:
                heappush(heap, (now + service[number][current[worker]], worker))
    return np.asarray(done, dtype=np.float64)
