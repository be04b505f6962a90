"""What went through the queues of one name, as far as one process saw it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from traintrace.stagefacts import KEPT
from traintrace.stages.records import QueueUpdate


@dataclass(slots=True)
class QueueBook:
    """Counts are exact; of the moments that were not handed on yet the latest are kept."""

    name: str
    wrapped: int = 0
    capacity: int | None = 0
    held: int = 0
    puts: int = 0
    gets: int = 0
    producers: dict[str, None] = field(default_factory=dict)  # in the order in which they came
    consumers: dict[str, None] = field(default_factory=dict)
    _put_ns: list[int] = field(default_factory=list)
    _get_ns: list[int] = field(default_factory=list)
    _changed: bool = False

    def add_queue(self, capacity: int | None, held: int) -> None:
        """One more queue has this name, which holds `held` items."""
        self.wrapped += 1
        self.held += held
        if self.capacity is not None:
            self.capacity = None if capacity is None else self.capacity + capacity
        self._changed = True

    def note(self, is_put: bool, moments: Sequence[int], stage: str) -> None:
        """Take in when operations succeeded; `stage` is "" outside stages."""
        self._changed = True
        if is_put:
            self.puts += len(moments)
            _keep_latest(self._put_ns, moments)
        else:
            self.gets += len(moments)
            _keep_latest(self._get_ns, moments)
        if stage:
            (self.producers if is_put else self.consumers)[stage] = None

    def take(self) -> QueueUpdate | None:
        """Hand on what is new; None if nothing is."""
        if not self._changed:
            return None
        self._changed = False
        put_ns, get_ns = (sorted(kept)[-KEPT:] for kept in (self._put_ns, self._get_ns))
        self._put_ns.clear()
        self._get_ns.clear()
        return QueueUpdate(
            self.name,
            self.wrapped,
            self.capacity,
            self.puts,
            self.gets,
            list(self.producers),
            list(self.consumers),
            put_ns,
            get_ns,
            self.held,
        )

    def forget(self) -> None:
        """In a forked child: what was counted so far is the parent's."""
        self.wrapped, self.capacity, self.held, self.puts, self.gets = 0, 0, 0, 0, 0
        for container in (self.producers, self.consumers, self._put_ns, self._get_ns):
            container.clear()
        self._changed = False


def _keep_latest(kept: list[int], moments: Sequence[int]) -> None:
    """Add moments and keep the latest: workers tell theirs one after another, so not in the order of time."""
    kept.extend(moments)
    if len(kept) > 2 * KEPT:
        kept.sort()
        del kept[:-KEPT]
