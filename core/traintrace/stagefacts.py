"""What was measured of a pipeline of stages and queues, as typed records; see `traintrace.facts`.

A stage is a kind of work ("target-forward"); each thread, process or asyncio task that does it is a
worker of it. Workers take items from queues and put items into queues. Times are integer nanoseconds,
moments are as in `traintrace.facts`, so that workers of one host compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

WorkerKind = Literal["thread", "process", "task"]

# What a worker's time can be: working, waiting in `get`, waiting in `put`, and outside both of them
# where nobody says that it works (before its first and after its last item).
STAGE_ACCOUNTS: Final = ("busy", "starved", "blocked", "other")


@dataclass(frozen=True, slots=True)
class Service:
    """Work on one item: what one worker did from taking it until it was done.

    Attributes:
        done_ns: The moment it was done.
        busy_ns: Time of work on it; waiting in queues is left out.
        items: How many items that were, as `stage.done(items=)` says; 1 where nobody says.
        tokens: None where nobody says.
    """

    done_ns: int
    busy_ns: int
    items: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class StageWorker:
    """The ledger of one worker of a stage.

    Attributes:
        stage: Name of the stage. worker: 0-based number within its stage.
        kind: A task's `busy` includes what its event loop does between its steps, so that only for
            threads and processes `account_ns` sums to `end_ns - start_ns`.
        start_ns, end_ns: Moments of its first and last entry.
        account_ns: Nanoseconds by account of `STAGE_ACCOUNTS`.
        starved_ns, blocked_ns: The same waits by name of the queue.
        items: Items done. tokens: None if none were said.
        busy_sum_ns, busy_sum_squares_ns2: Over all services, kept or not.
        services: The latest ones, at most 20,000, in order.
        unmeasured: Why something of it could not be seen; "" if all was.
    """

    stage: str
    worker: int
    kind: WorkerKind
    start_ns: int
    end_ns: int
    account_ns: Mapping[str, int]
    starved_ns: Mapping[str, int]
    blocked_ns: Mapping[str, int]
    items: int
    tokens: int | None
    service_count: int
    busy_sum_ns: int
    busy_sum_squares_ns2: float
    services: Sequence[Service]
    unmeasured: str = ""


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """What went through one queue.

    Attributes:
        capacity: Items that it holds at most; None if it is not bounded.
        puts, gets: Operations that succeeded, over all workers and also outside stages.
        put_ns, get_ns: The moments at which they succeeded, of the latest 20,000 each, in order.
        producers, consumers: Names of the stages that put and get.
    """

    name: str
    capacity: int | None
    puts: int
    gets: int
    put_ns: Sequence[int]
    get_ns: Sequence[int]
    producers: Sequence[str]
    consumers: Sequence[str]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages and queues that one process and its children recorded."""

    workers: Sequence[StageWorker] = ()
    queues: Sequence[QueueRecord] = ()
