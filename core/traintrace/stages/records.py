"""What a process hands on of its stages: from its recorder to the rank's file, or to the rank's process first."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from traintrace.stages.ledger import ServiceRow


class WorkerUpdate(NamedTuple):
    """A worker as it stands, and its services since it was handed on last.

    Attributes:
        number: Its number in the process that recorded it, whatever its stage.
        counts: Which of its services count: GUESSED, SAID or MADE, see `marks`.
    """

    number: int
    stage: str
    kind: str
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
    counts: int
    unmeasured: str
    services: Sequence[ServiceRow]


class QueueUpdate(NamedTuple):
    """The queues of one name as they stand, and the moments since they were handed on last.

    Attributes:
        wrapped: How many queues were given that name in this process; a child's are mostly its parent's.
        capacity: Their sum; None if one is not bounded.
        held: Items that were in them when following began.
    """

    name: str
    wrapped: int
    capacity: int | None
    puts: int
    gets: int
    producers: Sequence[str]
    consumers: Sequence[str]
    put_ns: Sequence[int]
    get_ns: Sequence[int]
    held: int = 0


class Update(NamedTuple):
    """What changed since the last one. Moments are of the host's monotonic clock, as they were read."""

    workers: Sequence[WorkerUpdate] = ()
    queues: Sequence[QueueUpdate] = ()
