"""The tables of stages and queues in a rank's file: what is written, what is kept, and reading it.

Services and moments are many and small, so those of one flush are one row: a block of 64-bit integers.
"""

import sqlite3
import sys
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from traintrace.stagefacts import KEPT

# Rows that are added and never changed; what is deleted is the oldest of a worker or queue.
BLOCK_TABLES: Final = ("stage_services", "queue_moments")
# Rows that each flush writes anew.
STATE_TABLES: Final = ("stage_workers", "queues")

WORKER_COLUMNS: Final = (
    "number",
    "stage",
    "worker",
    "kind",
    "start_ns",
    "end_ns",
    "account_ns",
    "starved_ns",
    "blocked_ns",
    "items",
    "tokens",
    "service_count",
    "busy_sum_ns",
    "busy_sum_squares_ns2",
    "says_done",
    "unmeasured",
)
QUEUE_COLUMNS: Final = ("name", "capacity", "puts", "gets", "producers", "consumers", "held")
SERVICE_VALUES: Final = 4  # done_ns, busy_ns, items, tokens; `marks.NOT_SAID` stands for no tokens

STAGE_TABLES: Final = f"""
CREATE TABLE stage_workers (number INTEGER PRIMARY KEY, {", ".join(WORKER_COLUMNS[1:])});
CREATE TABLE stage_services (worker INTEGER, said INTEGER, count INTEGER, data BLOB);
CREATE TABLE queues (name TEXT PRIMARY KEY, {", ".join(QUEUE_COLUMNS[1:])});
CREATE TABLE queue_moments (queue TEXT, is_put INTEGER, count INTEGER, data BLOB);
"""


class Block(NamedTuple):
    """Services of a worker, or moments of a queue.

    Attributes:
        table: One of `BLOCK_TABLES`.
        key: Values of its first two columns.
        length: How many services or moments it holds.
    """

    table: str
    key: tuple[int | str, int]
    length: int
    data: bytes


class StageRows(NamedTuple):
    """What one flush writes; workers and queues replace what was there of them."""

    workers: Sequence[tuple[Any, ...]]
    queues: Sequence[tuple[Any, ...]]
    blocks: Sequence[Block]


def packed(values: Iterable[int]) -> bytes:
    """Give integers as 64-bit ones, the least byte first."""
    numbers = array("q", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpacked(data: object) -> "array[int]":
    """Give the integers of a block.

    Raises:
        ValueError, TypeError: It is none.
    """
    if not isinstance(data, bytes):
        raise TypeError("not a block of integers")
    numbers = array("q")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class StageWriter:
    """Writes the tables of one file, and keeps of each worker and queue the latest services and moments."""

    def __init__(self, keep: int = KEPT) -> None:
        self._keep = keep
        self._blocks: dict[tuple[str, object], deque[tuple[int, int]]] = {}
        self._counts: dict[tuple[str, object], int] = {}

    def write(self, connection: sqlite3.Connection, rows: StageRows) -> None:
        """Write one flush; within the caller's transaction."""
        for table, records in (("stage_workers", rows.workers), ("queues", rows.queues)):
            for record in records:
                places = ",".join("?" * len(record))
                connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", record)
        for block in rows.blocks:
            added = connection.execute(
                f"INSERT INTO {block.table} VALUES (?,?,?,?)",
                (*block.key, block.length, block.data),
            )
            self._drop_older(connection, block, int(added.lastrowid or 0))

    def drop_old(self, connection: sqlite3.Connection) -> None:
        """Drop what is no longer among the latest of a file that was put together of pieces."""
        for table in BLOCK_TABLES:
            rows = connection.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall()
            for row, first, second, count, _ in rows:
                self._drop_older(connection, Block(table, (first, second), count, b""), row)

    def _drop_older(self, connection: sqlite3.Connection, block: Block, row: int) -> None:
        key = (block.table, block.key)
        blocks = self._blocks.setdefault(key, deque())
        blocks.append((row, block.length))
        count = self._counts.get(key, 0) + block.length
        # One block more than holds the latest: those of several workers overlap in time at their ends.
        while len(blocks) > 1 and count - blocks[0][1] - blocks[1][1] >= self._keep:
            oldest, size = blocks.popleft()
            connection.execute(f"DELETE FROM {block.table} WHERE rowid = ?", (oldest,))
            count -= size
        self._counts[key] = count
