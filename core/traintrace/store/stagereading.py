"""Read the stages and queues of a rank's file."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from traintrace.stagefacts import KEPT, STAGE_ACCOUNTS, Pipeline, QueueRecord, Service, StageWorker
from traintrace.stages.marks import NOT_SAID
from traintrace.store.salvage import Row
from traintrace.store.stagetables import (
    QUEUE_COLUMNS,
    SERVICE_VALUES,
    WORKER_COLUMNS,
    unpacked,
)
from traintrace.store.tables import Tables

_KINDS: Final = ("thread", "process", "task")
_KEYS: Final = {"stage_services": ("worker", "said"), "queue_moments": ("queue", "is_put")}

Blocks = Mapping[tuple[Any, ...], Sequence[bytes]]


def read_pipeline(tables: Tables) -> Pipeline | None:
    """Give what a file holds of stages and queues; None if that is nothing, as before schema 4."""
    if not tables.stored("stage_workers"):
        return None
    services, moments = _blocks(tables, "stage_services"), _blocks(tables, "queue_moments")
    workers = tables.records(
        "stages",
        tables.rows("stage_workers", WORKER_COLUMNS),
        lambda *row: _worker(row, services),
    )
    stored = tables.stored("queues")
    # Schema 4 has one less, which is null in a file that was put together of its segments.
    columns = [name if name in stored else f"NULL AS {name}" for name in QUEUE_COLUMNS]
    queues = tables.records(
        "queues", tables.rows("queues", columns), lambda *row: _queue(row, moments)
    )
    return Pipeline(workers, queues) if workers or queues else None


def _blocks(tables: Tables, table: str) -> Blocks:
    blocks: dict[tuple[Any, ...], list[bytes]] = {}
    for *key, data in tables.rows(table, [*_KEYS[table], "data"]):
        blocks.setdefault(tuple(key), []).append(data)
    return blocks


def _latest(blocks: Sequence[bytes], values: int) -> list[tuple[int, ...]]:
    """Give the latest records of some blocks, by their first value."""
    records: list[tuple[int, ...]] = []
    for block in blocks:
        numbers = unpacked(block)
        records += zip(*(numbers[place::values] for place in range(values)), strict=True)
    records.sort(key=lambda record: record[0])
    return records[-KEPT:]


def _worker(row: Row, services: Blocks) -> StageWorker:
    number, stage, worker, kind, start_ns, end_ns, *rest = row
    account_ns, starved_ns, blocked_ns, items, tokens, count, busy, squares, said, unmeasured = rest
    amounts = _amounts(account_ns)
    if kind not in _KINDS or set(amounts) != set(STAGE_ACCOUNTS):
        raise ValueError("no worker")
    return StageWorker(
        str(stage),
        _whole(worker),
        kind,
        _whole(start_ns),
        _whole(end_ns),
        amounts,
        _amounts(starved_ns),
        _amounts(blocked_ns),
        _whole(items),
        None if tokens is None else _whole(tokens),
        _whole(count),
        _whole(busy),
        float(squares),
        [
            Service(done, ns, n, None if tokens == NOT_SAID else tokens)
            for done, ns, n, tokens in _latest(services.get((number, said), ()), SERVICE_VALUES)
        ],
        str(unmeasured),
    )


def _queue(row: Row, moments: Blocks) -> QueueRecord:
    name, capacity, puts, gets, producers, consumers, held = row
    put_ns, get_ns = ([at for (at,) in _latest(moments.get((name, i), ()), 1)] for i in (1, 0))
    return QueueRecord(
        str(name),
        None if capacity is None else _whole(capacity),
        _whole(puts),
        _whole(gets),
        put_ns,
        get_ns,
        _names(producers),
        _names(consumers),
        0 if held is None else _whole(held),
    )


def _amounts(text: str) -> dict[str, int]:
    return {str(name): _whole(ns) for name, ns in json.loads(text).items()}


def _names(text: str) -> list[str]:
    return [str(name) for name in json.loads(text)]


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value
