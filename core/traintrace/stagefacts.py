"""What was measured of a pipeline of stages and queues, as typed records; see `traintrace.facts`.

A stage is a kind of work ("target-forward"); each thread, process or asyncio task that does it is a
worker of it. Workers take items from queues and put items into queues. Times are integer nanoseconds,
moments are as in `traintrace.facts`, so that workers of one host compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

WorkerKind = Literal["thread", "process", "task"]

# What a worker's time can be: working, waiting in `get`, waiting in `put`, and outside all of them where
# nobody says that it works: until its first `get`, after its last item, in a stage inside this one,
# and while nobody holds the worker's place.
# Time between an empty `get` and the next `get` is `starved`, that between a full `put` and the next `put`
# `blocked`: so loops that poll.
STAGE_ACCOUNTS: Final = ("busy", "starved", "blocked", "other")

# Services of a worker, and moments of a queue's puts and of its gets, that are kept: the latest ones.
KEPT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Service:
    """Work on one item: what one worker did from taking it until it was done.

    Where the worker says `stage.done()`, a service is what lies between two of them. Where it never does, it is
    what follows a `get` until the next one that succeeds (an item that was neither followed by a `put` nor by
    another `get` is not counted: it may be a sentinel), and for a source, which only puts, what precedes a `put`.

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
    """The ledger of one worker of a stage: one place at work, which threads or tasks may hold one after another.

    So the number of a stage's workers is the number of places that were ever held at once.

    Attributes:
        stage: Name of the stage. worker: 0-based number within its stage.
        kind: "process" is the main thread of a child process. A task's `busy` includes what its event
            loop does between its steps.
        start_ns, end_ns: Moments of its first and last entry; of one that is still at work, `end_ns` is when
            it was looked at last.
        account_ns: Nanoseconds by account of `STAGE_ACCOUNTS`, all four; they sum to `end_ns - start_ns`.
        starved_ns, blocked_ns: The same waits by name of the queue.
        items: Items done. tokens: None if none were said.
        busy_sum_ns, busy_sum_squares_ns2: Over all services, kept or not.
        services: The latest ones, at most `KEPT`, in order.
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
    """What went through one queue, or through all queues of one name.

    Attributes:
        capacity: Items that it holds at most; None if it is not bounded. Of several queues, the sum.
        puts, gets: Operations that succeeded, over all workers and also outside stages.
        put_ns, get_ns: The moments at which they succeeded, of the latest `KEPT` each, in order.
        producers, consumers: Names of the stages that put and get.
        held: Items that were in it already when the run began to follow it; no puts of them are known.
    """

    name: str
    capacity: int | None
    puts: int
    gets: int
    put_ns: Sequence[int]
    get_ns: Sequence[int]
    producers: Sequence[str]
    consumers: Sequence[str]
    held: int = 0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages and queues that one process and its children recorded."""

    workers: Sequence[StageWorker] = ()
    queues: Sequence[QueueRecord] = ()
