"""What happens once, at its place on the time line, until the drain has written it as an event."""

from collections import deque
from dataclasses import dataclass
from typing import Final

# Kept until they are taken: only a drain that hangs leaves so many.
MAX_WAITING: Final = 10_000


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened once.

    Attributes:
        kind: The `kind` of the event.
        start_ns: When it began [ns, monotonic].
        duration_ns: How long it took, all that ran inside it included; None if it has no length.
        step: The step that was open or came next; None where that is found from `start_ns`.
    """

    kind: str
    start_ns: int
    duration_ns: int | None
    detail: str = ""
    step: int | None = None


class OccurrenceQueue:
    """Occurrences on their way to the drain; one thread adds and one takes, neither waits.

    Attributes:
        lost: Occurrences that came while too many were waiting.
    """

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._limit = limit
        self._waiting: deque[Occurrence] = deque()
        self.lost = 0

    def add(self, occurrence: Occurrence) -> None:
        """Queue one; if too many wait already, count it and forget it."""
        if len(self._waiting) < self._limit:
            self._waiting.append(occurrence)
        else:
            self.lost += 1

    def take(self) -> list[Occurrence]:
        """Give all that wait, oldest first, and forget them."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken
