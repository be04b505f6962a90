"""The recipe's own clock: how long each part of a training run really took, around its whole call.

A sleep of 5 ms lasts 5.1 to 5.8 ms, so nominal delays are no truth. A tracer's seam lies outside the
call that is clocked here; what it measures can therefore never be less, and is hardly more.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Final, Literal, NamedTuple

Part = Literal[
    "fetch",
    "exhausted_fetch",
    "iterator",
    "workers_stop",
    "transfer",
    "forward",
    "backward",
    "optimizer",
    "evaluation",
    "evaluation_setup",
    "checkpoint",
    "logging",
]

# Where the time of each part belongs.
ACCOUNT_OF: Final[Mapping[Part, str]] = MappingProxyType(
    {
        "fetch": "input_wait",
        "exhausted_fetch": "epoch_boundary",  # the fetch that finds out that the data has ended
        "iterator": "epoch_boundary",  # DataLoader.__iter__: workers start here
        "workers_stop": "epoch_boundary",  # where no exhausted fetch has stopped them
        "transfer": "h2d",
        "forward": "forward",
        "backward": "backward",
        "optimizer": "optimizer",
        "evaluation": "evaluation",
        "evaluation_setup": "evaluation",  # its loaders, where they are made apart from evaluating
        "checkpoint": "checkpoint",
        "logging": "logging",
    }
)


class Call(NamedTuple):
    """One whole call of one part. Times are of `time.perf_counter_ns`.

    Attributes:
        own_ns: How long it took, less the logging inside it.
        step: 0-based number of updates that had ended when it began.
    """

    part: Part
    own_ns: int
    step: int


class Truth:
    """What the clocks saw of one training run, in order; for the training thread alone.

    A part inside another one is not clocked again: a forward inside an evaluation is evaluation.
    Logging is the exception, as in the ledger: it pauses what it happens in.

    Attributes:
        calls: Every call that has ended.
        updates: Optimizer steps that have ended.
    """

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self.calls: list[Call] = []
        self._now = now
        self._open: list[_Clock] = []
        self.updates = 0

    def clock(self, part: Part) -> "_Clock":
        """Time the `with` block as one call of `part`; `as` gives an object whose `part` may change."""
        return _Clock(self, part)

    def total_ns(self, part: Part) -> int:
        """Give the time of all calls of `part` [ns]."""
        return sum(call.own_ns for call in self.calls if call.part == part)

    def count(self, part: Part) -> int:
        """Give the number of calls of `part`."""
        return sum(call.part == part for call in self.calls)

    def step_ns(self, parts: Iterable[Part], steps: int) -> Sequence[int]:
        """Give the time of `parts` before each update and after the one before it [ns].

        What follows the last of `steps` updates is in no step.
        """
        wanted, taken = frozenset(parts), [0] * steps
        for call in self.calls:
            if call.part in wanted and call.step < steps:
                taken[call.step] += call.own_ns
        return taken

    def step_counts(self, part: Part, steps: int) -> Sequence[int]:
        """Give the calls of `part` before each update and after the one before it."""
        starts = [call.step for call in self.calls if call.part == part]
        return [starts.count(step) for step in range(steps)]

    def _enter(self, clock: "_Clock") -> None:
        if not self._open or clock.part == "logging":
            self._open.append(clock)
            clock.start_ns = self._now()

    def _leave(self, clock: "_Clock") -> None:
        end_ns = self._now()
        if not self._open or self._open[-1] is not clock:
            return
        self._open.pop()
        whole_ns = end_ns - clock.start_ns
        if self._open:
            self._open[-1].inner_ns += whole_ns
        self.calls.append(Call(clock.part, whole_ns - clock.inner_ns, self.updates))
        self.updates += clock.part == "optimizer"


class _Clock:
    """One use of `Truth.clock`."""

    __slots__ = ("_truth", "inner_ns", "part", "start_ns")

    def __init__(self, truth: Truth, part: Part) -> None:
        self._truth = truth
        self.part: Part = part
        self.start_ns = self.inner_ns = 0

    def __enter__(self) -> "_Clock":
        self._truth._enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._truth._leave(self)
