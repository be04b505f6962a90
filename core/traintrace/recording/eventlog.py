"""The events of one rank until they are written: few enough for any run, and what is over is counted."""

from collections import Counter, deque
from typing import Final

from traintrace import facts
from traintrace.recording.occurrences import Occurrence

MAX_EVENTS: Final = 10_000
# No kind takes all the room: a thousand pauses an hour must not hide how the run ended.
MAX_OF_A_KIND: Final = 5_000
# So many of each kind are kept however full it is.
RESERVED_OF_A_KIND: Final = 100


class EventLog:
    """Takes events from any thread and gives them to the drain.

    Attributes:
        dropped: Events that came after there were too many.
    """

    def __init__(
        self,
        limit: int = MAX_EVENTS,
        limit_of_a_kind: int = MAX_OF_A_KIND,
        reserved: int = RESERVED_OF_A_KIND,
    ) -> None:
        self._reserved = reserved
        self._limit = limit
        self._limit_of_a_kind = limit_of_a_kind
        self._waiting: deque[facts.Event] = deque()
        self._kept: Counter[str] = Counter()
        self.dropped = 0

    def add(self, event: facts.Event) -> None:
        """Keep an event for the next flush, or count it if there are too many."""
        count = self._kept[event.kind]
        is_full = count >= self._reserved and self._kept.total() >= self._limit
        if is_full or count >= self._limit_of_a_kind:
            self.dropped += 1
        else:
            self._kept[event.kind] += 1
            self._waiting.append(event)

    def add_occurrence(self, occurrence: Occurrence, step: int, offset_ns: int) -> None:
        """Keep an occurrence as an event; `offset_ns` makes its moment Unix time.

        Args:
            occurrence: What happened.
            step: Its step if it does not know that itself.
            offset_ns: From the monotonic clock to Unix time.
        """
        at_ns = occurrence.start_ns + offset_ns
        step = step if occurrence.step is None else occurrence.step
        event = facts.Event(at_ns, occurrence.kind, step, occurrence.detail, occurrence.duration_ns)
        self.add(event)

    def take(self) -> list[facts.Event]:
        """Give what waits, and forget it."""
        taken = []
        while self._waiting:  # training may be adding
            taken.append(self._waiting.popleft())
        return taken
