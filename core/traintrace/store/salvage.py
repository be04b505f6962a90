"""Read what can be read of a damaged rank file: the rows before, after and between its damaged pages.

SQLite refuses a query as soon as it meets a damaged page. So a range of rows that cannot be read is
halved until what is left of it lies on damaged pages alone.
"""

import sqlite3
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import lt
from typing import Any, Final

Row = tuple[Any, ...]
# A page holds more rows than this; a range as short as this is read row by row where it touches a sound page.
_ROW_BY_ROW: Final = 16
# Tables of a few long rows have fewer on a page: among their first rows each one is tried.
_FIRST_ROWS: Final = 64
# Queries of one table that may fail; a file of the size that retention allows needs fewer.
_MAX_FAILURES: Final = 100_000
# No row is shorter, with what SQLite keeps of it on a page.
_BYTES_PER_ROW: Final = 16


def is_held(error: sqlite3.Error) -> bool:
    """Tell whether a query failed because another process holds the file, which is no damage."""
    return "is locked" in str(error)  # Python 3.10 gives no error code


def readable_rows(
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    *,
    after: int = 0,
    last: int | None = None,
) -> list[Row]:
    """Read the rows of a damaged table that can be read, in the order of their rowids.

    Args:
        connection: The open file.
        table: The table.
        columns: What to select of it.
        after: Leave out rowids up to this one.
        last: The last rowid if it is known from elsewhere; it helps where the table's end is damaged.

    Raises:
        sqlite3.Error: Somebody else holds the file.
    """
    chosen = f"SELECT rowid, {', '.join(columns)} FROM {table} NOT INDEXED WHERE rowid"

    def read(low: int, high: int) -> list[Row]:
        if low == high:
            # One row is looked up without a step to the next one, which may be damaged.
            rows = connection.execute(f"{chosen} = ?", (low,)).fetchall()
        else:
            query = f"{chosen} BETWEEN ? AND ? ORDER BY rowid"
            rows = connection.execute(query, (low, high)).fetchall()
        # Of a page that was written in part SQLite gives rows that nobody wrote.
        keys = [low - 1, *(row[0] for row in rows), high + 1]
        if not all(map(lt, keys, keys[1:])):
            raise sqlite3.DatabaseError("rows out of order")
        return rows

    ends = [end for end in (last, _last_rowid(connection, table)) if end is not None]
    rows = _halve(read, after + 1, max(ends) if ends else _most_rows(connection))
    return [row[1:] for row in rows]


def _halve(read: Callable[[int, int], list[Row]], first: int, last: int) -> list[Row]:
    rows: list[Row] = []
    failures = 0
    ranges = [(first, last)] if first <= last else []
    while ranges and failures <= _MAX_FAILURES:
        low, high = ranges.pop()
        try:
            rows += read(low, high)
        except sqlite3.DatabaseError as error:
            if is_held(error):
                raise
            failures += 1
            if low != high and high - low < _ROW_BY_ROW:
                if low < _FIRST_ROWS or _reaches_sound_page(read, low, high):
                    ranges += [(key, key) for key in range(high, low - 1, -1)]
            elif low != high:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]
    return rows


def _reaches_sound_page(read: Callable[[int, int], list[Row]], low: int, high: int) -> bool:
    for key in (low, high):
        try:
            read(key, key)
            return True
        except sqlite3.DatabaseError:
            continue
    return False


def missing_ranges(
    steps: Sequence[int], first: int, last: int, folded: tuple[int, int]
) -> list[tuple[int, int]]:
    """Give the ranges of steps from `first` to `last` that are not among `steps`, which ascend.

    Args:
        steps: Numbers of the steps that were read.
        first: The first step that was asked for.
        last: The last one that there was.
        folded: The first and last step that have no row by intent.
    """
    edges = [first - 1, *steps, last + 1]
    absent = [(low + 1, high - 1) for low, high in pairwise(edges) if high - low > 1]
    cut = [part for low, high in absent for part in _without(low, high, folded)]
    return [(low, high) for low, high in cut if low <= high]


def _without(low: int, high: int, folded: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    if folded[0] > high or folded[1] < low:
        return ((low, high),)
    return (low, folded[0] - 1), (folded[1] + 1, high)


def _last_rowid(connection: sqlite3.Connection, table: str) -> int | None:
    try:
        (last,) = connection.execute(f"SELECT max(rowid) FROM {table} NOT INDEXED").fetchone()
    except sqlite3.DatabaseError as error:
        if is_held(error):
            raise
        return None
    return int(last or 0)


def _most_rows(connection: sqlite3.Connection) -> int:
    """Give a number of rows that no table of this file can exceed."""
    try:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    except sqlite3.DatabaseError:
        return 0
    return int(pages) * int(size) // _BYTES_PER_ROW
