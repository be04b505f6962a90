"""Segments: what is new in a rank's file since the last one, small enough to be sent every minute.

A segment is a SQLite file with the tables of a rank's file, compressed: rows that were not sent yet (and steps
sent before, whose device times may have come since), and the sums and the description of the rank in full. Rows
keep their numbers, so that segments put together in order are the rank's file again. Compression also carries a
checksum: a segment that was cut short or changed is recognised, and costs its own rows only.
"""

import gzip
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from traintrace.store.retention import KEEP_FIRST
from traintrace.store.schema import (
    DEVICE_COLUMNS,
    READING_TABLES,
    SCHEMA_VERSION,
    TABLES,
)
from traintrace.store.stagetables import BLOCK_TABLES, STATE_TABLES

SUFFIX: Final = ".sqlite.gz"
# The entry of `meta` in which a segment says what it is; a rank's file has none.
INFO_KEY: Final = "segment"
# Tables whose rows are added and never changed; deleting begins with the oldest (see `retention`).
_GROWING: Final = (
    *("spans", "regions", "scalars", "events"),
    *READING_TABLES,
    "blocks",
    *BLOCK_TABLES,
)
# Tables that say how everything stands: each segment holds them whole.
STANDING: Final = ("totals", "meta", *STATE_TABLES)
# A device time that is missing on a step further back than this will never come.
_LATE_STEPS: Final = 4_096
# The host's time of a phase is there and the device's is not.
_AWAITS_DEVICE: Final = " OR ".join(
    f"({column.removesuffix('_device_ns')}_ns IS NOT NULL AND {column} IS NULL)"
    for column in DEVICE_COLUMNS
)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a rank's rows have been sent.

    Attributes:
        segments: Segments so far.
        last_step: Number of the last step that was sent.
        resend_from: Steps from this one on are sent again, since they may still change.
        abandoned: Steps up to this number were given up when the last segment was cut.
        last_rows: By table the last row that was sent, its number first.
    """

    segments: int = 0
    last_step: int = 0
    resend_from: int = 1
    abandoned: int = 0
    last_rows: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def cut(
    spool: str, scratch: Path, mark: Mark, *, keep_first: int = KEEP_FIRST, **about: float
) -> tuple[bytes, Mark]:
    """Give the next segment of a rank's file, and the mark to cut the one after it from.

    Args:
        spool: Path of the rank's file, which may be written at the same time; nobody waits for this.
        scratch: Folder for one temporary file.
        mark: How far the rows have been sent.
        keep_first: Steps up to this one are never folded into blocks.
        about: What to say of the segment besides, e.g. the seconds until the next.

    Raises:
        sqlite3.Error: The rank's file cannot be read.
        OSError: The temporary file cannot be written.
    """
    path = scratch / f"{Path(spool).stem}.segment"
    path.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(path, uri=True, isolation_level=None)) as segment:
            # Read once when it is whole, and thrown away: nothing has to survive a crash.
            segment.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + TABLES)
            segment.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            with attached(segment, f"{Path(spool).resolve().as_uri()}?mode=ro"):
                segment.execute("BEGIN")  # all tables as of one flush
                following = _copy_new(segment, mark, keep_first, about)
                segment.execute("COMMIT")
        return gzip.compress(path.read_bytes(), 6, mtime=0), following
    finally:
        path.unlink(missing_ok=True)


def _copy_new(
    segment: sqlite3.Connection, mark: Mark, keep_first: int, about: Mapping[str, float]
) -> Mark:
    abandoned = counters_of(segment, "other").get("steps_abandoned") or 0
    if abandoned != mark.abandoned:
        # Flags of old rows changed, and blocks went.
        mark = Mark(mark.segments)
    after: dict[str, int] = {}
    last_rows: dict[str, tuple[Any, ...]] = {}
    for table in _GROWING:
        after[table] = _sent_rows(segment, table, mark.last_rows.get(table))
        copy_rows(segment, table, f"WHERE rowid > {after[table]:d}")
        last = segment.execute(f"SELECT rowid, * FROM other.{table} ORDER BY rowid DESC LIMIT 1")
        for row in last:
            last_rows[table] = row
    copy_rows(segment, "steps", f"WHERE step >= {mark.resend_from:d}")
    for table in STANDING:
        copy_rows(segment, table)
    rows, last_step = segment.execute(
        "SELECT count(*), ifnull(max(step), 0) FROM other.steps"
    ).fetchone()
    kept: int | None
    (kept,) = segment.execute(
        f"SELECT min(step) FROM other.steps WHERE step > {keep_first:d}"
    ).fetchone()
    following = Mark(
        segments=mark.segments + 1,
        last_step=max(last_step, mark.last_step),
        resend_from=_first_unfinished(segment, max(last_step, mark.last_step)),
        abandoned=abandoned,
        last_rows=last_rows,
    )
    info = {
        "number": following.segments,
        "after": after | {"steps": mark.last_step},
        "step_rows": rows,
        # The rows between the first ones and the latest ones, which retention folds from below.
        "folded_until": keep_first if kept is None else kept - 1,
        **about,
    }
    segment.execute("INSERT INTO meta VALUES (?, ?)", (INFO_KEY, json.dumps(info)))
    return following


def _sent_rows(segment: sqlite3.Connection, table: str, last: tuple[Any, ...] | None) -> int:
    """Give the number of the last row that was sent; 0 if that row is gone: then its number may be another's."""
    if last is None:
        return 0
    same = segment.execute(f"SELECT rowid, * FROM other.{table} WHERE rowid = ?", last[:1])
    return int(last[0]) if same.fetchone() == last else 0


def _first_unfinished(segment: sqlite3.Connection, last_step: int) -> int:
    """Give the first step whose device times may still come; the next step if there is none."""
    clock = segment.execute("SELECT value FROM other.meta WHERE key = 'device_clock'").fetchone()
    if clock is None or json.loads(clock[0]) is None:
        return last_step + 1
    since = last_step - _LATE_STEPS
    (first,) = segment.execute(
        f"SELECT min(step) FROM other.steps WHERE step > {since:d} AND ({_AWAITS_DEVICE})"
    ).fetchone()
    return last_step + 1 if first is None else int(first)


def counters_of(connection: sqlite3.Connection, schema: str) -> dict[str, Any]:
    """Give the counters that a file keeps as an entry of `meta`."""
    row = connection.execute(f"SELECT value FROM {schema}.meta WHERE key = 'counters'").fetchone()
    return {} if row is None else dict(json.loads(row[0]))


def copy_rows(connection: sqlite3.Connection, table: str, where: str = "") -> None:
    """Copy rows of the attached file with their numbers, in the columns that both have.

    An older version's file may lack the table.
    """
    theirs = {row[1] for row in connection.execute(f"PRAGMA other.table_info({table})")}
    if not theirs:
        return
    ours = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
    columns = ", ".join(("rowid", *(name for name in ours if name in theirs)))
    connection.execute(
        f"INSERT OR REPLACE INTO main.{table} ({columns}) SELECT {columns} FROM other.{table} {where}"
    )


@contextmanager
def attached(connection: sqlite3.Connection, uri: str) -> Iterator[None]:
    """Attach the file of `uri` as `other` meanwhile; a transaction that is still open then failed."""
    connection.execute("ATTACH ? AS other", (uri,))
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("DETACH other")
