"""A journal that also says when a forward or a backward of training begins and ends.

So whoever counts what is computed needs no hooks of its own, and is there wherever these two accounts are:
in a loop, in Lightning, in the Hugging Face Trainer. Used only where counting was asked for.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from traintrace.accounts import BACKWARD, FORWARD
from traintrace.flopfacts import COUNT, FlopFacts
from traintrace.options import TraceOptions
from traintrace.ports import FlopCounter
from traintrace.recording.journal import Clock, Journal, Recorder, Segment

_COUNTED: Final = (FORWARD, BACKWARD)


class CountingJournal(Journal):
    """A journal whose markers of forward and backward tell a counter too."""

    __slots__ = ("_counter",)

    def __init__(
        self,
        counter: FlopCounter,
        owner: int,
        publish: Callable[[Segment], None],
        now: Clock,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(owner, publish, now, recorder)
        self._counter = counter

    @property
    def plain(self) -> None:
        """Let nobody go round the markers."""

    def before_backward(self, tensors: object) -> None:
        """Show the counter from what a backward is about to begin."""
        self._counter.before_backward(tensors)

    def marker(self, code: int) -> Callable[[], None]:
        """Make the function that writes `code`, and tells the counter if it is one of the two accounts."""
        mark, counter = super().marker(code), self._counter
        account = code if code >= 0 else ~code
        if account not in _COUNTED:
            return mark

        def enter() -> None:
            mark()
            counter.enter(account)

        def leave() -> None:
            try:
                counter.leave(account)
            finally:
                mark()

        return enter if code >= 0 else leave


class FlopRecord:
    """What a session keeps of the floating-point work: what the user said, and what is counted."""

    def __init__(self, options: TraceOptions, counter: FlopCounter | None, session: Any) -> None:
        self._options = options
        self._counter = counter
        self._counts = options.flops_per_step == COUNT
        if counter is not None and self._counts:
            counter.begin(session)

    def journal(
        self, owner: int, publish: Callable[[Segment], None], now: Clock, recorder: Recorder | None
    ) -> Journal:
        """Make the session's journal: an ordinary one unless steps are to be counted."""
        if self._counter is not None and self._counts:
            return CountingJournal(self._counter, owner, publish, now, recorder)
        return Journal(owner, publish, now, recorder)

    def to_json(self) -> dict[str, Any]:
        """Give all of it as of now, for the rank's file; called by the drain."""
        given = self._options.flops_per_step
        counted = FlopFacts() if self._counter is None else self._counter.facts(self._counts)
        content = asdict(counted)
        content["flops_per_step"] = None if given == COUNT else given
        content["peak_tflops"] = self._options.peak_tflops
        if self._counts and self._counter is None:
            content["not_counted"] = "this integration does not count"
        return content
