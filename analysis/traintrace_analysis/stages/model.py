"""What is known about a pipeline of stages and queues; plain records, no calculation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from traintrace_analysis.findings import Gain

Change = Literal["to_next", "faster", "worker", "buffer"]


@dataclass(frozen=True, slots=True)
class StageLoad:
    """What one stage did; None is "not measured".

    Shares are of the time of all its workers together, from each one's first entry to its last.

    Attributes:
        kinds: What its workers are, e.g. ("thread",).
        span_s: Time from its first worker's start to its last worker's end.
        busy_share: Its utilisation. other_share: neither work nor a wait in a queue.
        starved_by, blocked_by: The waits by queue, as shares of the same time.
        items, tokens: Done in all. items_per_s, tokens_per_s: over `span_s`.
        service_ms: Mean time of work of one worker on one service. service_cv: its standard deviation over
            its mean.
        per_item: Services of this stage that one item of the last stage needs, by conservation along
            the line.
        demand_ms: Time of work that one item of the last stage needs here, divided by the workers: with
            nothing else in the way the stage would let one item pass every so often.
        demand_error_ms: Standard error of that.
        law_deviation: Utilisation less throughput times service time per worker, as a share of the first: work
            that belongs to no service.
        unmeasured: Why something of it could not be seen; "" if all was.
    """

    name: str
    workers: int
    kinds: tuple[str, ...]
    span_s: float
    busy_share: float
    starved_share: float
    blocked_share: float
    other_share: float
    starved_by: Mapping[str, float]
    blocked_by: Mapping[str, float]
    items: int
    tokens: int | None
    items_per_s: float | None
    tokens_per_s: float | None
    services: int
    service_ms: float | None
    service_cv: float | None
    per_item: float | None
    demand_ms: float | None
    demand_error_ms: float | None
    law_deviation: float | None
    unmeasured: str = ""


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """How full one queue was, and whether its books balance; None is "not measured".

    Attributes:
        held: Items put, or there from the beginning, and not taken out.
        seen_s: The time that occupancy is known for.
        mean_items: Time-weighted. full_share, empty_share: of the time; full is None without a capacity.
        residence_ms: Mean time of an item in the queue, first in, first out.
        per_s: Items taken out per second.
        little_deviation: |N - X R| / N. Little's law is exact but for the items that are in the queue
            when looking begins and ends; what goes beyond is a lost or twice counted item.
        imbalance: What conservation (in = out + held, 0 <= held <= capacity) does not explain, in items:
            negative were taken out and never put in, positive were put in and vanished.
        doubt: What makes its numbers doubtful, as a sentence; "" if nothing does.
    """

    name: str
    capacity: int | None
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    puts: int
    gets: int
    held: int
    seen_s: float
    mean_items: float | None
    full_share: float | None
    empty_share: float | None
    residence_ms: float | None
    per_s: float | None
    little_deviation: float | None
    imbalance: int
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Limiting:
    """The stage that needs most time per item: no pipeline is faster than that one.

    Attributes:
        confidence: 0 to 1, the chance that its demand is the largest.
        lead: Its demand over the next one's, less 1; None without another.
        balanced: Stages whose demand is so near that speeding this one alone wins little.
        is_last: True if it is the stage that nothing comes after: all others keep up with it.
        corroborated: True if the waits look as they must: upstream blocked, downstream starved. None if
            too little waiting shows, or a queue without bounds hides it.
        pattern: The same in words; "" if there is nothing to say.
    """

    stage: str
    confidence: float
    runner_up: str | None
    lead: float | None
    balanced: tuple[str, ...]
    is_last: bool
    corroborated: bool | None
    pattern: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """Whether the replay of what was recorded comes to what was measured.

    Attributes:
        measured_per_s, replayed_per_s: Services of the last stage per second.
        deviation: (replayed - measured) / measured.
        services: Services of the last stage that were replayed.
    """

    measured_per_s: float
    replayed_per_s: float
    services: int

    @property
    def deviation(self) -> float:
        """How far the replay is from the measured throughput, as a share of it."""
        return self.replayed_per_s / self.measured_per_s - 1.0


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What one change would do, by replay.

    Attributes:
        change: "faster", a stage by `amount` (0.2: it takes a fifth less time); "to_next", the limiting
            stage down to the demand of the next one (`amount` as above); "worker", one more; "buffer", the queue
            holds `amount` items.
        target: Name of the stage or queue.
        speedup: Throughput then over throughput now; 1 or a little less where nothing is won.
        gain: The same with its interval; None where nothing is won.
    """

    change: Change
    target: str
    amount: float
    speedup: float
    gain: Gain | None


@dataclass(frozen=True, slots=True)
class Contention:
    """Workers that hold each other up beside the queues, which no replay of queues knows.

    Attributes:
        kind: "cores", this process uses all that it may; "node", all of the node's are in use, also by others;
            "interpreter", threads that may run one at a time.
        busy_workers: Workers that were busy at a time, on average.
        cores: Cores that the process and its children used; for "node", that all did. allowed: cores that
            there are for them.
    """

    kind: Literal["cores", "node", "interpreter"]
    busy_workers: float
    cores: float
    allowed: float | None


@dataclass(frozen=True, slots=True)
class StageAnalysis:
    """Everything that is known about a pipeline.

    Attributes:
        rank: Of the process that recorded it.
        stages, queues: Along the flow.
        last_stage: The stage whose items count; None if there is none.
        span_s: Time from the first worker's start to the last one's end.
        warmup_s: The first part of it, whose services count in no mean and are not replayed.
        filling_s: How long the last stage waited for its first item: what comes before must load and fill up once.
        limiting: None if that cannot be told; `not_separable` then says why.
        replayed: None if nothing could be replayed.
        what_ifs: Empty if withheld; `withheld` then says why.
        core_doubt: Why it is not known whether workers hold each other up; "" if it is.
    """

    rank: int
    stages: tuple[StageLoad, ...]
    queues: tuple[QueueLoad, ...]
    last_stage: str | None
    span_s: float
    warmup_s: float = 0.0
    filling_s: float = 0.0
    limiting: Limiting | None = None
    not_separable: str = ""
    replayed: Replayed | None = None
    what_ifs: tuple[WhatIf, ...] = ()
    withheld: str = ""
    contention: Contention | None = None
    core_doubt: str = ""

    @property
    def last_starved_s(self) -> float:
        """How long a worker of the last stage waited for items, on average, once the first one was there."""
        if self.last_stage is None:
            return 0.0
        waited_s = self.stage(self.last_stage).starved_share * self.span_s
        return max(0.0, waited_s - self.filling_s)

    def stage(self, name: str) -> StageLoad:
        """Give the stage called `name`."""
        return next(one for one in self.stages if one.name == name)

    def what_if(self, change: Change, target: str) -> WhatIf | None:
        """Give the answer for one change; None if it was not asked."""
        found = (one for one in self.what_ifs if (one.change, one.target) == (change, target))
        return next(found, None)
