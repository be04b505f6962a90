"""The publisher: a thread per rank that sends what is new in its file to the place where the run is published.

It reads the rank's file with a connection of its own; training and the drain never wait for it, however slow
the place is. What it sent before a machine dies is what survives of that machine: with the usual interval, all
but the last minute.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from traintrace.faults import FaultReporter
from traintrace.publishing.layout import (
    has_published,
    rank_path,
    segment_path,
    segments_path,
    stem_of,
)
from traintrace.publishing.leftovers import publish_leftovers
from traintrace.publishing.patience import ANSWER_S, within
from traintrace.publishing.place import Location
from traintrace.publishing.segments import Mark, cut
from traintrace.publishing.spool import one_file

INTERVAL_S: Final = 60.0
# How long the end of a run waits for the last rows to be sent.
CLOSE_DEADLINE_S: Final = 30.0
FIRST_RETRY_S: Final = 1.0
# A place that takes longer than this, and than the interval, is worth a word.
_SLOW_S: Final = 10.0
# Ranks begin together; so that they do not all send at one moment, each starts its rhythm elsewhere.
_SPREAD: Final = 0.618


class Publisher:
    """Publishes one rank's file in segments, and whole when the rank has ended.

    Args:
        place: Where the run is published.
        rank_file: The file that the rank's writer began with.
        location_of: Gives what to open for reading now: its path, or a shared in-memory name after the disk failed.
        faults: Told, once, when the place cannot be written.
        interval_s: Seconds between two segments; what was sent so long ago at most is what survives this machine.
        rank: Number of the rank.
    """

    def __init__(
        self,
        place: Location,
        rank_file: Path,
        location_of: Callable[[], str],
        faults: FaultReporter,
        interval_s: float = INTERVAL_S,
        rank: int = 0,
    ) -> None:
        self._place = place
        self._rank_file = rank_file
        self._stem = stem_of(rank_file)
        self._location_of = location_of
        self._faults = faults
        self._interval_s = interval_s
        self._phase = 0.5 + (rank * _SPREAD) % 0.5
        self._mark = Mark()
        self._files: dict[str, bytes] = {}
        self._files_lock = threading.Lock()
        self._reading = threading.Lock()
        self._failures = 0
        self._told = False
        self._foreign: bool | None = None  # until it was looked up
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._given_up = threading.Event()
        self._done = threading.Event()
        name = f"traintrace-publisher-{self._stem}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; called on the training thread."""
        self._thread.start()

    def put(self, name: str, data: bytes) -> None:
        """Have a small file of the run written beside the ranks' soon; once this is closed, before returning.

        Raises:
            OSError: Only once this is closed: the place cannot be written, or does not answer.
        """
        if self._given_up.is_set():
            within(ANSWER_S, str(self._place), lambda: (self._place / name).write_bytes(data))
            return
        with self._files_lock:
            self._files[name] = data
        self._wake.set()

    @contextmanager
    def not_reading(self) -> Iterator[None]:
        """Keep the rank's file closed meanwhile, so that its writer can leave it as one ordinary file."""
        with self._reading:
            yield

    def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> bool:
        """Send the last rows and the whole file; call it when the rank's file is closed.

        Args:
            deadline_s: Seconds to wait at most. After them one warning says where the rows are.

        Returns:
            True if everything has arrived.
        """
        if self._thread.ident is None:
            return True  # it never began, so there is nothing to send
        self._ending.set()
        self._wake.set()
        self._thread.join(deadline_s)
        self._given_up.set()
        self._wake.set()
        if not self._done.is_set() and not self._foreign:
            self._faults.warn(
                f"the last rows of this rank did not reach {self._place} within {deadline_s:g} s; they are in "
                f"{self._rank_file}: copy that to {self._place}/{rank_path(self._stem)}"
            )
        return self._done.is_set()

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._faults.guard("what this rank has not published yet"):
            due = time.monotonic()
            while not self._ending.is_set():
                self._wake.wait(max(0.0, due - time.monotonic()))
                self._wake.clear()
                self._send_files()
                if not self._ending.is_set() and time.monotonic() >= due:
                    due = time.monotonic() + self._after(self._send_new)
            while not self._given_up.is_set() and not self._foreign:
                wait = self._after(self._send_all)
                if not self._failures:
                    if not self._foreign:
                        self._done.set()
                    return
                self._given_up.wait(wait)

    def _after(self, send: Callable[[], None]) -> float:
        """Send, and give the seconds until the next time."""
        began = time.monotonic()
        try:
            send()
        except (OSError, sqlite3.Error) as error:
            self._failures += 1
            self._tell(f"cannot be sent to {self._place} ({error}); it is tried again.")
            return min(FIRST_RETRY_S * 2.0 ** min(self._failures - 1, 10), self._interval_s)
        self._failures = 0
        took = time.monotonic() - began
        if took > max(self._interval_s, _SLOW_S):
            self._tell(f"take {took:.0f} s to reach {self._place}.")
        first = self._mark.segments == 1
        return self._interval_s * (self._phase if first else 1.0)

    def _tell(self, what: str) -> None:
        if self._told:
            return
        self._told = True
        self._faults.warn(
            f"the rows of this rank {what} If this machine is lost before they arrive, so are they; training does "
            "not wait for it"
        )

    def _send_new(self) -> None:
        if self._foreign is None:
            self._foreign = has_published(self._place, self._stem)
        if self._foreign:
            self._ending.set()
            self._faults.warn(
                f"{self._stem} has been published in {self._place} already, by another process: the rows of this one "
                f"stay in {self._rank_file}"
            )
            return
        location = self._location_of()
        if location.startswith("file:"):
            return  # in memory, where reading would disturb the writer; it is sent at the end
        with self._reading:
            data, mark = cut(
                location, self._rank_file.parent, self._mark, interval_s=self._interval_s
            )
        (self._place / segment_path(self._stem, mark.segments)).write_bytes(data)
        self._mark = mark

    def _send_files(self) -> None:
        """Send the small files that wait; one that fails waits for the next time."""
        with self._files_lock:
            waiting = dict(self._files)
        for name, data in waiting.items():
            try:
                (self._place / name).write_bytes(data)
            except OSError as error:
                self._tell(f"and {name} cannot be sent to {self._place} ({error}).")
                return
            with self._files_lock:
                if self._files.get(name) is data:
                    del self._files[name]

    def _send_all(self) -> None:
        """Send the last rows, small and hence soon there, then the whole file in place of the segments."""
        self._send_new()
        if self._foreign:
            return
        whole = self._place / rank_path(self._stem)
        with one_file(self._rank_file, self._location_of()) as path:
            whole.upload(path)
        with suppress(OSError):  # what is left beside the whole file is passed over
            (self._place / segments_path(self._stem)).remove()
        self._send_files()
        if self._files:
            raise OSError("not all of the run's files could be written")
        publish_leftovers(self._place)  # of ranks that died
