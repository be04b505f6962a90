"""How full a queue was, and whether its books balance, from the moments of its puts and gets."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traintrace.stagefacts import QueueRecord
from traintrace_analysis.stages.model import QueueLoad
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, percent

_Moments = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """How many items a queue held, as steps in time.

    Attributes:
        at_ns: When the number changed, in order; the first is where looking begins.
        items: The number from that moment on; the last one ends there.
    """

    at_ns: _Moments
    items: _Moments

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        """How long each number lasted [ns]."""
        return np.diff(self.at_ns).astype(np.float64)

    def mean(self) -> float:
        """Give the time-weighted mean."""
        return float((self.lengths * self.items[:-1]).sum() / self.lengths.sum())

    def share(self, low: float, high: float) -> float:
        """Give the share of the time at which the number was in [low, high]."""
        there = (self.items[:-1] >= low) & (self.items[:-1] <= high)
        return float(self.lengths[there].sum() / self.lengths.sum())

    def at(self, moment_ns: float) -> int:
        """Give the number at a moment; the first one before all of them."""
        place = int(np.searchsorted(self.at_ns, moment_ns, side="right")) - 1
        return int(self.items[max(0, place)])


def levels(queue: QueueRecord) -> Levels | None:
    """Give how full a queue was, as long as both its puts and its gets are kept; None if never."""
    puts, gets = np.asarray(queue.put_ns, np.int64), np.asarray(queue.get_ns, np.int64)
    begin = end = None
    if len(puts) < queue.puts or len(gets) < queue.gets:
        if not len(puts) or not len(gets):
            return None
        kept = [m[0] for m, n in ((puts, queue.puts), (gets, queue.gets)) if len(m) < n]
        begin = max(kept)
    if not len(puts) + len(gets):
        return None
    if begin is not None:
        puts, gets = puts[puts >= begin], gets[gets >= begin]
    # At one moment puts come first: what is taken out had been put in.
    moments = np.concatenate((puts, gets))
    steps = np.concatenate((np.ones(len(puts), np.int64), -np.ones(len(gets), np.int64)))
    order = np.argsort(moments, kind="stable")
    moments, steps = moments[order], steps[order]
    before = queue.held + (queue.puts - len(puts)) - (queue.gets - len(gets))
    end = moments[-1] if len(moments) else begin
    if begin is None:
        begin = moments[0]
    items = np.concatenate(([before], before + np.cumsum(steps)))
    at = np.concatenate(([begin], moments))
    return Levels(at, items) if end is not None and end > begin else None


def measure_queue(queue: QueueRecord) -> QueueLoad:
    """Give the occupancy of a queue with its self-checks."""
    held = queue.held + queue.puts - queue.gets
    capacity = queue.capacity
    over = 0 if capacity is None else max(0, held - capacity)
    imbalance = held if held < 0 else over
    found = levels(queue)
    mean = residence = rate = deviation = full = empty = None
    seen_s, doubt = 0.0, _imbalance_text(queue, imbalance)
    if found is not None:
        seen_s = float(found.lengths.sum()) / 1e9
        mean = found.mean()
        empty = found.share(-np.inf, 0)
        full = None if capacity is None else found.share(capacity, np.inf)
        residence, taken = _residence(queue, found)
        rate = taken / seen_s
        if residence is not None and mean > 0.0:
            deviation = abs(mean - rate * residence / 1e3) / mean
        doubt = doubt or _doubt(found, capacity, deviation, mean)
    return QueueLoad(
        name=queue.name,
        capacity=capacity,
        producers=tuple(queue.producers),
        consumers=tuple(queue.consumers),
        puts=queue.puts,
        gets=queue.gets,
        held=held,
        seen_s=seen_s,
        mean_items=mean,
        full_share=full,
        empty_share=empty,
        residence_ms=residence,
        per_s=rate,
        little_deviation=deviation,
        imbalance=imbalance,
        doubt=doubt,
    )


def _residence(queue: QueueRecord, found: Levels) -> tuple[float | None, int]:
    """Give the mean time between put and get of an item in ms, first in, first out, and how many were taken."""
    puts, gets = np.asarray(queue.put_ns, np.int64), np.asarray(queue.get_ns, np.int64)
    # The number of the first kept operation of each kind, counted from the start of the run, as if what the
    # queue held then had been put first.
    first_put, first_get = queue.held + queue.puts - len(puts), queue.gets - len(gets)
    start = max(first_put, first_get)
    puts, gets = puts[start - first_put :], gets[start - first_get :]
    pairs = min(len(puts), len(gets))
    taken = int((np.asarray(queue.get_ns, np.int64) >= found.at_ns[0]).sum())
    if not pairs:
        return None, taken
    return float((gets[:pairs] - puts[:pairs]).mean()) / 1e6, taken


def _imbalance_text(queue: QueueRecord, imbalance: int) -> str:
    if imbalance < 0:
        return (
            f"{count(-imbalance, 'item')} more came out of {queue.name} than were seen to go in: somebody puts "
            "into it without the wrapper, or its producers were not recorded."
        )
    if imbalance > 0:
        return (
            f"{count(imbalance, 'item')} more went into {queue.name} than came out or than it holds: items are "
            "dropped, or taken out without the wrapper."
        )
    return ""


def _doubt(found: Levels, capacity: int | None, deviation: float | None, mean: float) -> str:
    """Say what is wrong with the numbers of a queue whose books balance in the end."""
    # A worker that was stopped between an operation and its clock tells it late, by an item or two.
    most = np.inf if capacity is None else capacity
    wild = found.share(-np.inf, -2.0) + found.share(most + 2.0, np.inf)
    if wild >= limit("queue_balance"):
        return (
            f"During {percent(wild)} of the time it held fewer items than none or more than it can: some "
            "operations were not seen, or seen late."
        )
    # Items that are inside at either end wait for a part of their time only: the law allows for few of them.
    inside = max(0, int(found.items[0])) + max(0, int(found.items[-1]))
    few = inside <= limit("queue_balance") * len(found.items)
    if few and deviation is not None and mean >= 0.5 and deviation >= limit("queue_little"):
        return f"Little's law fails by {percent(deviation)}: items were lost or counted twice."
    return ""
