"""Logged values on their way to the store; those of a device are read when they have arrived."""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from traintrace import facts
from traintrace.faults import FaultReporter

# Names beyond this many are not recorded: a name made from a counter must not fill the disk.
MAX_NAMES: Final = 100


class Deferred(Protocol):
    """A logged value that is still on its way from the device."""

    def ready(self) -> bool:
        """Say whether `value` can be read without waiting."""

    def value(self) -> float:
        """Give the value."""


class LoggedValues:
    """Takes values from training, gives them to the drain."""

    def __init__(self, faults: FaultReporter) -> None:
        self._faults = faults
        self._names: set[str] = set()
        self._arrived: deque[facts.Scalar] = deque()
        self._deferred: list[tuple[int, str, Deferred]] = []

    @property
    def on_their_way(self) -> int:
        """Give how many values have not arrived yet."""
        return len(self._deferred)

    def add(self, scalar: facts.Scalar) -> None:
        """Queue a value that is known; may be called from any thread."""
        if self._has_room(scalar.name):
            self._arrived.append(scalar)

    def add_of_step(self, step: int, pairs: Sequence[tuple[str, object]]) -> None:
        """Queue what a capture carried; called by the drain."""
        for name, value in pairs:
            if not self._has_room(name):
                continue
            if isinstance(value, float):
                self._arrived.append(facts.Scalar(step, name, value))
            else:
                self._deferred.append((step, name, value))  # type: ignore[arg-type]  # see Session.log

    def take(self) -> list[facts.Scalar]:
        """Give what has arrived, without waiting for the rest; called by the drain."""
        waiting, self._deferred = self._deferred, []
        for step, name, value in waiting:
            if value.ready():
                self._arrived.append(facts.Scalar(step, name, value.value()))
            else:
                self._deferred.append((step, name, value))
        taken = []
        while self._arrived:  # training may be adding
            taken.append(self._arrived.popleft())
        return taken

    def _has_room(self, name: str) -> bool:
        if name in self._names:
            return True
        if len(self._names) >= MAX_NAMES:
            self._faults.warn(f"more than {MAX_NAMES} names are logged: the rest is not recorded")
            return False
        self._names.add(name)
        return True
