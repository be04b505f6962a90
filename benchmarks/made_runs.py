"""Runs for `benchmarks.scale`: written row by row through the real store, their times drawn at random."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from traintrace.facts import Environment, Setup, Span, StepRow, Totals
from traintrace.recording.rows import BookedStep
from traintrace.runs.folder import create_folder, rank_file
from traintrace.runs.manifest import Manifest
from traintrace.store.retention import Retention
from traintrace.store.writer import RankWriter

WIDE_STEPS: Final = 1_000
_FLUSH: Final = 1_000
_START_NS: Final = 1_700_000_000_000_000_000
_GAP_NS: Final = 50_000
# Mean milliseconds of each account of a step.
_MEANS_MS: Final = {
    "input_wait": 2.0,
    "h2d": 0.5,
    "batch_prep": 0.1,
    "forward": 8.0,
    "backward": 14.0,
    "gradient_sync": 2.0,
    "optimizer": 3.0,
    "other": 0.4,
}
_PHASES: Final = ("input_wait", "h2d", "forward", "backward", "optimizer")


def write_long_run(folder: Path, steps: int) -> Path:
    """Write a run of one rank with `steps` steps, through retention; give its folder."""
    made = create_folder(folder.parent, folder.name)
    _write_manifest(made, 1)
    _write_rank(made, 0, steps)
    return made


def make_wide_run(folder: Path, ranks: int) -> Path:
    """Write a run of `ranks` ranks with `WIDE_STEPS` steps each; give its folder."""
    made = create_folder(folder.parent, folder.name)
    _write_manifest(made, ranks)
    for rank in range(ranks):
        _write_rank(made, rank, WIDE_STEPS)
    return made


def _write_manifest(folder: Path, ranks: int) -> None:
    Manifest(
        name=folder.name, id="made", status="completed", exit_code=0, plugin="plain_torch",
        plugin_version="0", framework="torch", framework_version="2", tool_version="0",
        started_at=_START_NS / 1e9, ended_at=None, world_size=ranks, nodes=max(1, ranks // 8),
        environment=Environment(python="3"), folder=folder,
    ).write()  # fmt: skip


def _write_rank(folder: Path, rank: int, steps: int) -> None:
    random = np.random.default_rng(rank)
    writer = RankWriter(rank_file(folder, rank, 0))
    retention = Retention(writer)
    sums = dict.fromkeys(_MEANS_MS, 0)
    sums["gap"] = 0
    now, done = _START_NS, 0
    while done < steps:
        count = min(_FLUSH, steps - done)
        drawn = {
            name: np.maximum(1, random.normal(mean, 0.05 * mean, count) * 1e6).astype(int).tolist()
            for name, mean in _MEANS_MS.items()
        }
        booked = []
        for index in range(count):
            accounts = {name: values[index] for name, values in drawn.items()}
            booked.append(_book(done + index + 1, now, accounts))
            now += booked[-1].row.duration_ns
        for name, values in drawn.items():
            sums[name] += sum(values)
        sums["gap"] += _GAP_NS * count
        done += count
        writer.write(booked, _totals(sums, done), meta=_meta(rank))
        retention.apply(done)
    writer.close()


def _book(step: int, start_ns: int, accounts: dict[str, int]) -> BookedStep:
    row = StepRow(
        step=step, framework_step=step, epoch=0, micro_batches=1, samples=32, tokens=None,
        padded_tokens=None, start_ns=start_ns, open_ns=start_ns + _GAP_NS,
        duration_ns=_GAP_NS + sum(accounts.values()), account_ns=accounts,
        calls=dict.fromkeys(_PHASES, 1), device_ns={}, peak_allocated_bytes=None,
        peak_reserved_bytes=None, rss_bytes=500_000_000, flags=0, gc_ns=0,
    )  # fmt: skip
    return BookedStep(row, (Span(step, "gap", False, _GAP_NS, 0),), ())


def _totals(sums: dict[str, int], steps: int) -> Totals:
    inside = {name: value for name, value in sums.items() if name != "gap"}
    return Totals(
        account_ns=dict(sums), inside_ns=inside, calls=dict.fromkeys(_PHASES, steps),
        wall_ns=sum(sums.values()), start_ns=_START_NS, steps=steps, steps_aborted=0, dropped_rows=0,
        micro_batches=steps, samples=32 * steps, tokens=None, padded_tokens=None, updates_skipped=0,
        epochs=1, transitions=12 * steps, foreign_calls=0, unbalanced=0, gc_ns=0,
    )  # fmt: skip


def _meta(rank: int) -> dict[str, object]:
    setup = asdict(Setup(device_kind="cpu", cpu_count=8))
    cost = {
        "hot_transition_ns": 300.0, "in_situ_transition_ns": None, "setup_s": 0.0, "finish_s": 0.0,
        "drain_s": 0.0,
    }  # fmt: skip
    return {
        "rank": rank, "attempt": 0, "node": rank // 8, "status": "completed", "level": "host",
        "device_clock": None, "setup": setup, "cost": cost, "unmeasured": {}, "warnings": [],
    }  # fmt: skip
