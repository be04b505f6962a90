"""Put the segments of a rank's file together again, as far as they arrived."""

import gzip
import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traintrace.publishing.segments import INFO_KEY, STANDING, attached, copy_rows, counters_of
from traintrace.store.schema import SCHEMA_VERSION, TABLES
from traintrace.store.stagetables import StageWriter


@dataclass(frozen=True, slots=True)
class Assembly:
    """What became of a rank's segments.

    Attributes:
        used: Numbers of the segments that were put together; none if nothing could be read.
        lost: Numbers of those that are missing or damaged.
        steps_without_row: Steps that had a row in the rank's file and have none now.
        about: What the last segment says of itself.
    """

    used: Sequence[int]
    lost: Sequence[int]
    steps_without_row: int
    about: Mapping[str, Any]


def assemble(segments: Mapping[int, bytes], into: Path) -> Assembly:
    """Put segments together to one rank's file; what is lost with one is said in the file's warnings.

    Args:
        segments: Compressed segments by number.
        into: The rank's file to write; replaced if it is there.

    Raises:
        OSError, sqlite3.Error: `into` cannot be written.
    """
    into.unlink(missing_ok=True)
    piece = into.with_name(f".{into.name}.piece")
    used: list[int] = []
    about: Mapping[str, Any] = {}
    with closing(sqlite3.connect(into, uri=True, isolation_level=None)) as whole:
        whole.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + TABLES)
        whole.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        for number, data in sorted(segments.items()):
            try:
                piece.write_bytes(gzip.decompress(data))
                with attached(whole, f"{piece.resolve().as_uri()}?mode=ro"):
                    about = _merge(whole, about)
            # The last two: it is whole, and was never a segment.
            except (EOFError, ValueError, OSError, sqlite3.Error, zlib.error, KeyError, TypeError):
                continue
            finally:
                piece.unlink(missing_ok=True)
            used.append(number)
        StageWriter().drop_old(whole)
        lost = sorted(set(range(1, max(segments, default=0) + 1)) - set(used))
        missing = _say_what_is_lost(whole, about, lost) if used else 0
    return Assembly(used, lost, missing, about)


def _merge(whole: sqlite3.Connection, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take in one attached segment; what it sends again replaces what was there.

    Args:
        whole: The rank's file so far, with the segment attached.
        before: What the segment before says of itself; empty if this is the first.
    """
    (text,) = whole.execute("SELECT value FROM other.meta WHERE key = ?", (INFO_KEY,)).fetchone()
    about: Mapping[str, Any] = json.loads(text)
    whole.execute("BEGIN")
    # What was folded since the segment before: values that came later for a folded step are kept.
    since, until = int(before.get("folded_until", 0)), int(about["folded_until"])
    if before:
        for table in ("steps", "spans", "regions", "scalars"):
            whole.execute(f"DELETE FROM main.{table} WHERE step > ? AND step <= ?", (since, until))
    for table, last in about["after"].items():
        if not last:  # all there is, once more
            whole.execute(f"DELETE FROM main.{table}")
        copy_rows(whole, table)
    for table in STANDING:
        whole.execute(f"DELETE FROM main.{table}")
        copy_rows(whole, table)
    whole.execute("DELETE FROM main.meta WHERE key = ?", (INFO_KEY,))
    whole.execute("COMMIT")
    return about


def _say_what_is_lost(
    whole: sqlite3.Connection, about: Mapping[str, Any], lost: Sequence[int]
) -> int:
    """Count the steps whose rows are in no segment that was read, and say so in the file itself."""
    (rows,) = whole.execute("SELECT count(*) FROM main.steps").fetchone()
    missing: int = max(0, int(about.get("step_rows", rows)) - rows)
    if not lost:
        return missing
    counters = counters_of(whole, "main")
    counters["dropped_rows"] = (counters.get("dropped_rows") or 0) + missing
    (text,) = whole.execute("SELECT value FROM main.meta WHERE key = 'warnings'").fetchone() or (
        "[]",
    )
    numbers = ", ".join(map(str, lost[:5])) + (" and more" if len(lost) > 5 else "")
    warning = f"published segment {numbers} is missing or damaged: {missing} steps are in the sums and have no rows"
    for key, value in (("counters", counters), ("warnings", [*json.loads(text), warning])):
        whole.execute("INSERT OR REPLACE INTO main.meta VALUES (?, ?)", (key, json.dumps(value)))
    return missing
