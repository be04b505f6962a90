"""The stream of events that Lightning reports to the user's profiler: fetches, transfers, hooks, epochs.

`start` and `stop` are shadowed on the profiler object itself, which keeps its type, its identity and
its own results. An event's name is looked at once; after that an event costs one dictionary look-up.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Final, NamedTuple

from traintrace.faults import guarded
from traintrace.patching import replace_attribute
from traintrace.recording.journal import Journal
from traintrace_lightning.fit import Mark, TracedFit
from traintrace_lightning.namespaces import is_lightnings_own

# What a row does at an event: write a journal code, or call a boundary of the fit.
Does = int | Callable[[TracedFit], None] | None
# Names kept at most: a user may profile sections of their own, under ever new names.
_NAMES_KEPT: Final = 4096


class EventName(NamedTuple):
    """A name of the stream, taken apart: `[Strategy]DDPStrategy.backward`.

    Attributes:
        owner: What reports: "Callback", "LightningModule", "Strategy", ...; empty for the loop itself.
        key: Which of them: a callback's `state_key`, else a class name.
        hook: What happens.
    """

    owner: str
    key: str
    hook: str

    @classmethod
    def parse(cls, name: str) -> "EventName":
        """Take a name apart."""
        if not name.startswith("["):
            return cls("", "", name)
        owner, _, rest = name[1:].partition("]")
        key, _, hook = rest.rpartition(".")
        return cls(owner, key, hook)


def always(fit: TracedFit, name: EventName) -> bool:
    """Let a row apply wherever its event is reported."""
    return True


class Row(NamedTuple):
    """One row of the table from events to boundaries; the first row that applies counts.

    Attributes:
        owner: See `EventName`; "*" for any.
        hook: See `EventName`; "*" for any.
        start: What happens at the event's start.
        stop: What happens at its stop.
        where: Says whether the row applies to this fit and event.
    """

    owner: str
    hook: str
    start: Does = None
    stop: Does = None
    where: Callable[[TracedFit, EventName], bool] = always


class Event:
    """What one name does; also the context that stands for `profiler.profile(name)`.

    It does nothing on another thread than the one that fits: a checkpoint may be saved on a second one.
    """

    __slots__ = ("_journal", "_name", "_start", "_stop")

    def __init__(self, name: str, start: Mark | None, stop: Mark | None, journal: Journal) -> None:
        self._name = name
        self._start = start
        self._stop = stop
        self._journal = journal

    def __enter__(self) -> str:
        if self._start is not None and get_ident() == self._journal.owner:
            self._start()
        return self._name

    def __exit__(self, *error: object) -> None:
        if self._stop is not None and get_ident() == self._journal.owner:
            self._stop()


class Events(dict[str, Event]):
    """The events by name, each classified when it is first seen."""

    def __init__(self, fit: TracedFit, table: Sequence[Row]) -> None:
        super().__init__()
        self._fit = fit
        self._table = table
        self._guarded = guarded(lambda: fit.session.faults, "some boundaries of a Lightning run")

    def __missing__(self, name: str) -> Event:
        start, stop = self._guarded(self._classify)(name) or (None, None)
        event = Event(name, start, stop, self._fit.session.journal)
        if len(self) < _NAMES_KEPT:
            self[name] = event
        return event

    def _classify(self, name: str) -> tuple[Mark | None, Mark | None]:
        parsed = EventName.parse(name)
        for row in self._table:
            if row.owner in ("*", parsed.owner) and row.hook in ("*", parsed.hook):
                if row.where(self._fit, parsed):
                    return self._function(row.start), self._function(row.stop)
        return None, None

    def _function(self, does: Does) -> Mark | None:
        if does is None:
            return None
        if isinstance(does, int):
            return self._fit.session.journal.marker(does)
        return self._guarded(partial(does, self._fit))


def listen(profiler: Any, events: Events) -> Iterator[Callable[[], None]]:
    """Shadow the profiler's `start` and `stop`; give what undoes it.

    What the user's profiler costs is kept out of what is measured: it goes first at a start and last
    at a stop.
    """
    original_start, original_stop = profiler.start, profiler.stop

    def start(action_name: str) -> None:
        original_start(action_name)
        events[action_name].__enter__()

    def stop(action_name: str) -> None:
        events[action_name].__exit__()
        original_stop(action_name)

    yield replace_attribute(profiler, "start", start)
    yield replace_attribute(profiler, "stop", stop)
    if _does_nothing(profiler):
        # No one to tell: one prepared object per name stands for a generator made at each of the
        # thirty events of a step.
        yield replace_attribute(profiler, "profile", lambda action_name: events[action_name])


def call_when_over(profiler: Any, over: EventName, function: Mark) -> Callable[[], None]:
    """Call `function` at the stop of the event `over`, of any key; give what undoes it."""
    original_stop = profiler.stop

    def stop(action_name: str) -> None:
        original_stop(action_name)
        if EventName.parse(action_name)._replace(key=over.key) == over:
            function()

    return replace_attribute(profiler, "stop", stop)


def _does_nothing(profiler: Any) -> bool:
    cls = type(profiler)
    return cls.__name__ == "PassThroughProfiler" and is_lightnings_own(cls)
