"""Writes a job into a run folder as the ranks themselves would: through the store, one file a rank."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tests.scenarios.pipelines import rows_of
from tests.scenarios.record import Floats, Job, RankRecord
from traintrace.accounts import NAMES, PHASES
from traintrace.facts import Environment, Region, Span, StepRow, Totals, TracerCost
from traintrace.readings import Reading
from traintrace.recording.rows import BookedStep
from traintrace.runs.folder import create_folder
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import Manifest
from traintrace.runs.started import StartedRun

_NS_PER_MS = 1e6
_COST = TracerCost(700.0, None, 0.01, 0.2, 0.05)


def write_job(job: Job, root: Path, name: str) -> Path:
    """Write a run called `name` under `root`; give its folder."""
    folder = create_folder(root, name)
    started = StartedRun(folder, _manifest(job, folder, name))
    for record in job.ranks:
        identity = Identity(
            rank=record.rank,
            world_size=job.world_size,
            node=record.node,
            nodes=job.nodes,
            attempt=record.attempt,
        )
        _write_rank(started, identity, record)
    started.finish(job.status, Identity(world_size=job.world_size))
    return folder


def _manifest(job: Job, folder: Path, name: str) -> Manifest:
    return Manifest(
        name=name,
        id=f"id-{name}",
        status="running",
        exit_code=None,
        plugin="plain_torch",
        plugin_version="0.1.0",
        framework="torch",
        framework_version="2.13.0",
        tool_version="0.1.0",
        started_at=min((record.start_ns for record in job.ranks), default=0) / 1e9,
        ended_at=None,
        world_size=job.world_size,
        nodes=job.nodes,
        environment=Environment(python="3.11.7", torch="2.13.0"),
        folder=folder,
    )


def _write_rank(started: StartedRun, identity: Identity, record: RankRecord) -> None:
    writer = started.open_writer(identity)
    ledger = _Ledger(record)
    steps = list(ledger.book())
    device = {name: _ns(values) for name, values in record.device.items()}
    readings: dict[str, Sequence[Reading]] = {
        "system": record.system,
        "process": record.process,
        "devices": record.devices,
    }
    writer.write(
        steps,
        ledger.totals(),
        tail=ledger.tail(),
        scalars=record.scalars,
        events=record.events,
        device_ns=[
            (
                booked.row.step,
                {
                    name: ns
                    for name, column in device.items()
                    if (ns := column[booked.row.step - 1]) is not None
                },
            )
            for booked in steps
        ]
        if device
        else (),
        meta={
            "rank": record.rank,
            "attempt": record.attempt,
            "node": record.node,
            "status": record.status,
            "level": record.level,
            "device_clock": record.device_clock,
            "setup": asdict(record.setup),
            "cost": asdict(_COST),
            "unmeasured": dict(record.unmeasured),
            "warnings": [],
            "flops": {} if record.flops is None else asdict(record.flops),
        },
        readings={table: taken for table, taken in readings.items() if taken},
        stages=None if record.pipeline is None else rows_of(record.pipeline),
    )
    assert writer.close() is None


def _ns(values: Floats) -> list[int | None]:
    """Give milliseconds as whole nanoseconds; None for NaN."""
    return [None if np.isnan(ms) else round(ms * _NS_PER_MS) for ms in values]


class _Ledger:
    """Books a record: rows that tile the timeline, and sums that agree with them."""

    def __init__(self, record: RankRecord) -> None:
        self._record = record
        self._sums: Counter[str] = Counter()
        self._inside: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._end_ns = record.start_ns
        self._dropped = 0

    def book(self) -> Iterator[BookedStep]:
        """Give every step that has a row, in order."""
        record = self._record
        inside = {name: _ns(values) for name, values in record.inside.items()}
        before = {name: _ns(values) for name, values in record.before.items()}
        between = {name: _ns(values) for name, values in record.inside_between.items()}
        memory = {name: values.astype(np.int64).tolist() for name, values in record.memory.items()}
        collected = None if record.gc_ms is None else _ns(record.gc_ms)
        regions: dict[int, tuple[Region, ...]] = {}
        for region in record.regions:
            regions[region.step] = (*regions.get(region.step, ()), region)
        for index in range(record.steps):
            step = index + 1
            accounts = {
                name: ns for name, column in inside.items() if (ns := column[index]) is not None
            }
            spans = [
                Span(step, name, is_inside, ns, 1)
                for source, is_inside in ((before, False), (between, True))
                for name, column in source.items()
                if (ns := column[index])
            ]
            start = self._end_ns
            opened = start + sum(span.ns for span in spans if not span.inside)
            closed = opened + sum(accounts.values()) + sum(s.ns for s in spans if s.inside)
            self._end_ns = closed
            self._add(accounts, spans)
            if step in record.dropped:
                self._dropped += 1
                continue
            yield BookedStep(
                StepRow(
                    step=step,
                    framework_step=step,
                    epoch=None,
                    micro_batches=1,
                    samples=int(record.samples[index]),
                    tokens=None,
                    padded_tokens=None,
                    start_ns=start,
                    open_ns=opened,
                    duration_ns=closed - start,
                    account_ns=accounts,
                    calls={name: int(name in accounts) for name in PHASES},
                    device_ns={},
                    peak_allocated_bytes=_at(memory.get("peak_allocated_bytes"), index),
                    peak_reserved_bytes=_at(memory.get("peak_reserved_bytes"), index),
                    rss_bytes=_at(memory.get("rss_bytes"), index),
                    flags=int(record.flags[index]),
                    gc_ns=_at(collected, index),
                ),
                tuple(spans),
                regions.get(step, ()),
            )

    def _add(self, accounts: dict[str, int], spans: list[Span]) -> None:
        self._sums.update(accounts)
        self._inside.update(accounts)
        self._calls.update(accounts.keys())
        for span in spans:
            self._sums[span.account] += span.ns
            self._calls[span.account] += 1
            if span.inside:
                self._inside[span.account] += span.ns

    def tail(self) -> list[Span]:
        """Give what came after the last step."""
        return [
            Span(self._record.steps + 1, name, False, round(ms * _NS_PER_MS), 1)
            for name, ms in self._record.after_ms.items()
        ]

    def totals(self) -> Totals:
        """Give the sums over the whole span, what came after the last step included."""
        record = self._record
        tail = {name: round(ms * _NS_PER_MS) for name, ms in record.after_ms.items()}
        sums = Counter(self._sums)
        sums.update(tail)
        calls = Counter(self._calls)
        calls.update(tail.keys())
        assert set(sums) <= set(NAMES)
        return Totals(
            account_ns=dict(sums),
            inside_ns=dict(self._inside),
            calls=dict(calls),
            wall_ns=sum(sums.values()),
            start_ns=record.start_ns,
            steps=record.steps,
            steps_aborted=0,
            dropped_rows=self._dropped,
            micro_batches=record.steps,
            samples=int(record.samples.sum()),
            tokens=None,
            padded_tokens=None,
            updates_skipped=0,
            epochs=record.epochs,
            transitions=10 * record.steps,
            foreign_calls=0,
            unbalanced=0,
            gc_ns=None if record.gc_ms is None else round(float(record.gc_ms.sum()) * _NS_PER_MS),
        )


def _at(column: list[int] | list[int | None] | None, index: int) -> int | None:
    return None if column is None else column[index]
