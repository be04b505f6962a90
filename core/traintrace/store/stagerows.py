"""One pipeline out of what the rank's process and its children hand on."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from traintrace.stages.records import QueueUpdate, Update, WorkerUpdate
from traintrace.store.stagetables import SERVICE_VALUES, Block, StageRows, packed


class Merger:
    """Numbers workers across processes, adds up queues, and makes rows of both.

    Args:
        offset_ns: Add it to a moment to get what reads as Unix time.
    """

    def __init__(self, offset_ns: int) -> None:
        self._offset_ns = offset_ns
        self._numbers: dict[tuple[Hashable, int], tuple[int, int]] = {}
        self._workers_of: Counter[str] = Counter()
        self._queues: dict[str, dict[Hashable, QueueUpdate]] = {}

    def rows(self, updates: Mapping[Hashable, Update]) -> StageRows | None:
        """Give what is to be written; None if nothing is.

        Args:
            updates: By the process that recorded them.
        """
        workers: list[tuple[Any, ...]] = []
        blocks: list[Block] = []
        changed: dict[str, None] = {}
        for source, update in updates.items():
            for worker in update.workers:
                number, place = self._number(source, worker)
                moved = worker._replace(
                    start_ns=worker.start_ns + self._offset_ns,
                    end_ns=worker.end_ns + self._offset_ns,
                )
                workers.append(_worker_row(number, place, moved))
                if worker.services:
                    blocks.append(self._services(number, worker))
            for queue in update.queues:
                changed[queue.name] = None
                blocks += self._moments(queue)
                counts = queue._replace(put_ns=(), get_ns=())
                self._queues.setdefault(queue.name, {})[source] = counts
        queues = [_queue_row(name, list(self._queues[name].values())) for name in changed]
        return StageRows(workers, queues, blocks) if workers or queues else None

    def _number(self, source: Hashable, worker: WorkerUpdate) -> tuple[int, int]:
        """Give a worker's number in the run, and the one within its stage."""
        key = (source, worker.number)
        if key not in self._numbers:
            self._numbers[key] = (len(self._numbers), self._workers_of[worker.stage])
            self._workers_of[worker.stage] += 1
        return self._numbers[key]

    def _services(self, number: int, worker: WorkerUpdate) -> Block:
        values: list[int] = []
        for done_ns, busy_ns, items, tokens, kind in worker.services:
            if kind == worker.counts:
                values += (done_ns + self._offset_ns, busy_ns, items, tokens)
        key = (number, int(worker.counts))
        return Block("stage_services", key, len(values) // SERVICE_VALUES, packed(values))

    def _moments(self, queue: QueueUpdate) -> list[Block]:
        return [
            Block(
                "queue_moments",
                (queue.name, is_put),
                len(moments),
                packed(at + self._offset_ns for at in moments),
            )
            for is_put, moments in ((1, queue.put_ns), (0, queue.get_ns))
            if moments
        ]


def joined(rows: Iterable[StageRows | None]) -> StageRows | None:
    """Give what several wrote one after another as one; None if that is nothing."""
    some = [part for part in rows if part is not None]
    if not some:
        return None
    return StageRows(
        [worker for part in some for worker in part.workers],
        [queue for part in some for queue in part.queues],
        [block for part in some for block in part.blocks],
    )


def _worker_row(number: int, place: int, update: WorkerUpdate) -> tuple[Any, ...]:
    return (
        number,
        update.stage,
        place,
        update.kind,
        update.start_ns,
        update.end_ns,
        *(json.dumps(ns) for ns in (update.account_ns, update.starved_ns, update.blocked_ns)),
        update.items,
        update.tokens,
        update.service_count,
        update.busy_sum_ns,
        update.busy_sum_squares_ns2,
        int(update.counts),
        update.unmeasured,
    )


def _queue_row(name: str, parts: list[QueueUpdate]) -> tuple[Any, ...]:
    capacities = [part.capacity for part in parts if part.wrapped]
    known = [capacity for capacity in capacities if capacity is not None]
    return (
        name,
        sum(known) if known and len(known) == len(capacities) else None,
        sum(part.puts for part in parts),
        sum(part.gets for part in parts),
        json.dumps(_in_order(stage for part in parts for stage in part.producers)),
        json.dumps(_in_order(stage for part in parts for stage in part.consumers)),
        sum(part.held for part in parts),
    )


def _in_order(names: Any) -> list[str]:
    return list(dict.fromkeys(names))
