"""What happens beside the books: collections, compilations, the allocator's troubles, by step.

training thread   begin, close     put the watches on, and take them off
drain             look             take in what they saw
drain             fill_in          note on a step's capture what happened in it
drain             take             give what is placed, to be written as events
"""

from collections.abc import MutableMapping, Sequence

from traintrace.facts import COMPILED, COMPILED_KNOWN
from traintrace.ports import COMPILATION, Watch
from traintrace.recording.books import LedgerRow
from traintrace.recording.garbage import GarbageWatch
from traintrace.recording.occurrences import Occurrence


class Incidents:
    """Finds the step of each occurrence by its moment."""

    def __init__(
        self,
        garbage: GarbageWatch,
        watches: Sequence[Watch],
        unmeasured: MutableMapping[str, str],
    ) -> None:
        self._garbage = garbage
        self._watches = watches
        self._unmeasured = unmeasured
        self._waiting: list[Occurrence] = []
        self._placed: list[tuple[int, Occurrence]] = []

    @property
    def gc_ns(self) -> int:
        """Give the time of all collections on the training thread up to the last look."""
        return self._garbage.total_ns

    def begin(self) -> None:
        """Watch from now on."""
        self._garbage.begin()
        for watch in self._watches:
            watch.begin()

    def close(self) -> None:
        """Watch no more; what was seen can still be looked at."""
        self._garbage.close()
        for watch in self._watches:
            watch.close()

    def close_in_child(self) -> None:
        """Watch nothing in a forked child: there no lock can be trusted, so none is taken."""
        self._garbage.close()  # the watches know their own process

    def look(self) -> None:
        """Take in what was seen since the last look."""
        self._garbage.look()
        seen, self._garbage.long_pauses = self._garbage.long_pauses, []
        for watch in self._watches:
            seen += watch.look()
            if watch.unmeasured is not None:
                self._unmeasured.setdefault(watch.kind, watch.unmeasured)
        self._waiting = sorted(self._waiting + seen, key=lambda occurrence: occurrence.start_ns)

    def fill_in(self, step: int, row: LedgerRow) -> None:
        """Note on the capture of a completed step what happened in it; in the order of steps."""
        capture = row.capture
        self._garbage.fill_in(row)
        if any(watch.kind == COMPILATION and watch.unmeasured is None for watch in self._watches):
            capture.flags |= COMPILED_KNOWN
        while self._waiting and self._waiting[0].start_ns < row.end_ns:
            occurrence = self._waiting.pop(0)
            self._placed.append((step, occurrence))
            if occurrence.kind == COMPILATION and _reaches(occurrence, row.open_ns):
                capture.flags |= COMPILED | COMPILED_KNOWN

    def place_rest(self, step: int, keep: int = 0) -> None:
        """Place what happened after the last completed step in `step`, the next one.

        Args:
            step: The number of the step that comes next.
            keep: As many of the latest may wait until that step is completed.
        """
        rest = self._waiting[: max(0, len(self._waiting) - keep)]
        self._placed += [(step, occurrence) for occurrence in rest]
        del self._waiting[: len(rest)]

    def take(self) -> list[tuple[int, Occurrence]]:
        """Give the occurrences whose step is known, with its number."""
        taken, self._placed = self._placed, []
        return taken


def _reaches(occurrence: Occurrence, moment: int) -> bool:
    return occurrence.start_ns + (occurrence.duration_ns or 0) >= moment
