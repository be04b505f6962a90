"""A rank's file that is written flush by flush, as the drain does it, and cut into segments."""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from traintrace import accounts, facts
from traintrace.faults import FaultReporter
from traintrace.publishing.assembly import assemble
from traintrace.publishing.fetch import fetch_run
from traintrace.publishing.place import Location
from traintrace.publishing.publisher import Publisher
from traintrace.publishing.segments import Mark, cut
from traintrace.readings import ProcessReading
from traintrace.recording.rows import BookedStep
from traintrace.store.retention import Retention
from traintrace.store.schema import COUNTERS, READING_TABLES
from traintrace.store.stagetables import BLOCK_TABLES, STATE_TABLES, Block, StageRows, packed
from traintrace.store.writer import RankWriter

TABLES: Final = (
    *("steps", "spans", "regions", "scalars", "events", *READING_TABLES, "totals", "blocks"),
    *(*STATE_TABLES, *BLOCK_TABLES),
)
ROWS_OF_A_FLUSH: Final = 7
STEM: Final = "rank-00003"
_PATIENCE_S: Final = 60.0


class WrittenRank:
    """A rank's file that is written flush by flush, as the drain does it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "rank-00003.sqlite"
        self.writer = RankWriter(self.path)
        self.retention = Retention(self.writer, keep_first=5, keep_last=20, block=10)
        self.step = self.abandoned = 0
        self.segments: dict[int, bytes] = {}
        self.mark = Mark()
        self.described: Mapping[str, Any] = {}

    def flush(self, rows: int = ROWS_OF_A_FLUSH, *, late: int = 3, events: int = 1) -> None:
        """Write `rows` more steps; of the newest `late` ones the device times come with the next flush."""
        first = self.step + 1
        self.step += rows
        steps = [_booked(number) for number in range(first, self.step + 1)]
        resolved = range(max(1, first - late), self.step + 1 - late)
        self.writer.write(
            steps,
            self._totals(),
            scalars=[facts.Scalar(max(1, self.step - 15), "loss", self.step / 3)],
            events=[facts.Event(self.step, "gc", self.step, "", 5)] * events,
            device_ns=[(number, dict.fromkeys(accounts.PHASES, number)) for number in resolved],
            meta={
                "rank": 3,
                "device_clock": "cuda",
                "status": "running",
                "warnings": [],
                **self.described,
            },
            readings={"process": [_reading(self.step)]},
            stages=staged(self.step),
        )
        self.retention.apply(self.step)

    def abandon(self) -> None:
        """Let the steps so far count no more."""
        self.abandoned = self.step
        self.writer.write((), self._totals(), abandoned=self.abandoned)

    def log_late(self) -> None:
        """Write a value of the very first steps, whose rows are folded by now."""
        self.writer.write((), self._totals(), scalars=[facts.Scalar(6, "late", 1.0)])

    def cut(self) -> None:
        data, self.mark = cut(str(self.path), self.folder, self.mark, keep_first=5)
        self.segments[self.mark.segments] = data

    def assembled(self, *, without: Sequence[int] = ()) -> Path:
        into = self.folder / "assembled.sqlite"
        kept = {n: data for n, data in self.segments.items() if n not in without}
        assemble(kept, into)
        return into

    def _totals(self) -> facts.Totals:
        return replace(
            _NO_TOTALS,
            account_ns={"forward": 10 * self.step, "gap": 5},
            steps=self.step - self.abandoned,
            steps_abandoned=self.abandoned,
            wall_ns=10 * self.step + 5,
        )


_NO_TOTALS = facts.Totals(
    account_ns={},
    inside_ns={},
    calls={},
    **dict.fromkeys(COUNTERS, 0),
)


def _booked(step: int) -> BookedStep:
    row = facts.StepRow(
        step=step,
        framework_step=None,
        epoch=0,
        micro_batches=1,
        samples=8,
        tokens=None,
        padded_tokens=None,
        start_ns=step * 1000,
        open_ns=step * 1000 + 5,
        duration_ns=1000,
        account_ns={"forward": 10 * step, "input_wait": step},
        calls=dict.fromkeys(accounts.PHASES, 1),
        device_ns={},
        peak_allocated_bytes=None,
        peak_reserved_bytes=None,
        rss_bytes=123,
        flags=0,
    )
    return BookedStep(
        row, (facts.Span(step, "gap", False, 5, 0),), (facts.Region(step, "tokenise", step, 1),)
    )


def staged(at: int) -> StageRows:
    """Give what one worker and one queue did since the flush before, which ended at `at`."""
    accounts_ns = '{"busy": 1, "starved": 0, "blocked": 0, "other": 0}'
    waits = ["{}", "{}"]
    worker = (0, "work", 0, "thread", 1, at, accounts_ns, *waits, at, None, at, at, 1.0, 1, "")
    services = Block("stage_services", (0, 1), 2, packed([at, 5, 1, 3, at + 1, 5, 1, -1]))
    moments = [Block("queue_moments", ("items", is_put), 1, packed([at])) for is_put in (0, 1)]
    return StageRows([worker], [("items", 3, at, at, "[]", '["work"]', 0)], [services, *moments])


def _reading(at: int) -> ProcessReading:
    return ProcessReading(*[at] * len(ProcessReading.__slots__))


def contents(path: Path) -> Mapping[str, list[tuple[Any, ...]]]:
    """Give all rows of all tables with their numbers, and what `meta` says."""
    with closing(sqlite3.connect(path)) as connection:
        found = {
            table: connection.execute(
                f"SELECT {'rowid, ' if table != 'totals' else ''}* FROM {table} ORDER BY 1"
            ).fetchall()
            for table in TABLES
        }
        meta = connection.execute("SELECT key, value FROM meta ORDER BY key")
        found["meta"] = [(key, json.loads(value)) for key, value in meta]
    return found


# -- publishing it -------------------------------------------------------------------------------


def publisher_of(
    rank: WrittenRank, place: Location, faults: FaultReporter, interval_s: float = 0.05
) -> Publisher:
    return Publisher(place, rank.path, lambda: rank.writer.location, faults, interval_s, rank=3)


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not what():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def close(rank: WrittenRank, publisher: Publisher) -> None:
    with publisher.not_reading():
        assert rank.writer.close() is None


def last_steps(place: Location) -> list[int]:
    """Give the last step that can be read at a place, in a list; nothing if there is none."""
    file = fetch_run(place.text) / f"ranks/{STEM}.sqlite"
    return [row[0] for row in contents(file)["steps"]][-1:]
