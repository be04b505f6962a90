"""Turn a draft into the facts of a run: rows, spans, totals and events that agree to the nanosecond."""

from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from benchmarks.corpus.draft import Draft
from benchmarks.corpus.machine import read_machine
from traintrace.facts import (
    Environment,
    Event,
    RankFacts,
    RunFacts,
    RunStatus,
    Span,
    Totals,
    TracerCost,
)
from traintrace_analysis.step_window import Floats, Ints

START_NS = 1_700_000_000_000_000_000
_NS_PER_MS = 1e6
_UNSEEN_WAIT = "the end of this rank's own backward work cannot be marked; backward holds the wait"


def make_facts(draft: Draft, name: str) -> RunFacts:
    """Make the facts that a run as drafted would have left."""
    work, device = _with_waits(draft)
    inside = {account: _ns(matrix) for account, matrix in work.items()}
    before = {account: _ns(matrix) for account, matrix in draft.before_ms.items()}
    within = {account: _ns(matrix) for account, matrix in draft.inside_ms.items()}
    on_device = {phase: _ns(matrix) for phase, matrix in device.items()}
    ranks = tuple(
        _rank(draft, row, inside, before, within, on_device)
        for row in range(draft.ranks)
        if row not in draft.silent
    )
    return RunFacts(
        name=name,
        id=name,
        status="failed" if draft.lost else "completed",
        exit_code=1 if draft.lost else 0,
        plugin="plain_torch",
        plugin_version="0.1.0",
        framework="torch",
        framework_version="2.13.0",
        tool_version="0.1.0",
        started_at=START_NS / 1e9,
        duration_s=max(rank.totals.wall_ns for rank in ranks) / 1e9,
        world_size=draft.ranks,
        nodes_expected=len(set(draft.nodes)) or 1,
        environment=Environment(python="3.11.7", torch="2.13.0"),
        ranks=ranks,
    )


def _with_waits(draft: Draft) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Put the waiting for other ranks where the tracer would have seen it."""
    work, device = dict(draft.work_ms), dict(draft.device_ms)
    if draft.sync == "none":
        return work, device
    waits = draft.waiting_ms()
    if draft.on_device:
        # The device waits in its backward, the host where it asks for the loss.
        device["backward"] = device["backward"] + waits
        work["other"] = work["other"] + waits
    elif draft.sync == "marked":
        work["gradient_sync"] = waits
    else:
        work["backward"] = work["backward"] + waits
    return work, device


def _ns(ms: Floats) -> Ints:
    return np.rint(ms * _NS_PER_MS).astype(np.int64)


def _rank(
    draft: Draft,
    row: int,
    inside: dict[str, Ints],
    before: dict[str, Ints],
    within: dict[str, Ints],
    on_device: dict[str, Ints],
) -> RankFacts:
    startup_ns = round(draft.startup_ms * _NS_PER_MS)
    shutdown_ns = 0 if row in draft.lost else round(draft.shutdown_ms * _NS_PER_MS)
    ahead = np.zeros(draft.steps, dtype=np.int64)
    ahead[0] = startup_ns
    for matrix in before.values():
        ahead += matrix[row]
    in_step = np.sum([m[row] for m in (*inside.values(), *within.values())], axis=0)
    close_ns = START_NS + np.cumsum(ahead + in_step)
    start_ns = np.concatenate([[START_NS], close_ns[:-1]])
    open_ns = start_ns + ahead
    columns: dict[str, npt.NDArray[np.int64]] = {
        "step": np.arange(1, draft.steps + 1),
        "start_ns": start_ns,
        "open_ns": open_ns,
        "duration_ns": close_ns - start_ns,
        "flags": draft.flags[row],
        **{f"{account}_ns": matrix[row] for account, matrix in inside.items()},
        **{f"{phase}_device_ns": matrix[row] for phase, matrix in on_device.items()},
        **{name: matrix[row].astype(np.int64) for name, matrix in draft.memory.items()},
    }
    for name, work in (("samples", draft.samples), ("tokens", draft.tokens)):
        if work is not None:
            columns[name] = work[row]
    gc_ns = None if draft.gc_ms is None else _ns(draft.gc_ms[row])
    if gc_ns is not None:
        columns["gc_ns"] = gc_ns
    inner, outer = _sums(row, {**inside, **within}), _sums(row, before)
    totals = _totals(draft, row, inner, {**outer, "startup": startup_ns, "shutdown": shutdown_ns})
    calls = {
        account: int((matrix[row] > 0).sum()) for account, matrix in {**before, **within}.items()
    }
    readings = read_machine(draft, row, START_NS, totals.wall_ns)
    return RankFacts(
        rank=row,
        attempt=0,
        node=draft.nodes[row] if draft.nodes else 0,
        status=_status(draft, row),
        level="full" if on_device else "host",
        device_clock="cuda" if on_device else None,
        setup=draft.setup,
        cost=TracerCost(700.0, None, 0.01, 0.2, 0.05),
        totals=_with_calls(totals, {**dict.fromkeys(inner, draft.steps), **calls}, gc_ns),
        columns={name: cast("list[int | None]", values) for name, values in columns.items()},
        spans=_spans(row, before, within, startup_ns),
        regions=(),
        scalars=(),
        events=_events(draft, row, open_ns),
        unmeasured={"gradient_sync": _UNSEEN_WAIT} if draft.sync == "in_backward" else {},
        warnings=(),
        process_peak_allocated_bytes=draft.process_peak_bytes,
        system=readings.system,
        process=readings.process,
        devices=readings.devices,
    )


def _status(draft: Draft, row: int) -> RunStatus:
    if row in draft.lost:
        return "lost"
    return "failed" if draft.lost else "completed"


def _totals(draft: Draft, row: int, inner: dict[str, int], outer: dict[str, int]) -> Totals:
    names = dict.fromkeys((*inner, *outer))
    account_ns = {name: inner.get(name, 0) + outer.get(name, 0) for name in names}
    samples = None if draft.samples is None else int(draft.samples[row].sum())
    tokens = None if draft.tokens is None else int(draft.tokens[row].sum())
    return Totals(
        account_ns=account_ns,
        inside_ns=inner,
        calls={},
        wall_ns=sum(account_ns.values()),
        start_ns=START_NS,
        steps=draft.steps,
        steps_aborted=0,
        dropped_rows=0,
        micro_batches=draft.steps * (draft.setup.accumulation or 1),
        samples=samples,
        tokens=tokens,
        padded_tokens=None,
        updates_skipped=0,
        epochs=draft.epochs,
        transitions=10 * draft.steps,
        foreign_calls=0,
        unbalanced=0,
    )


def _with_calls(totals: Totals, calls: dict[str, int], gc_ns: Ints | None) -> Totals:
    watched = None if gc_ns is None else int(gc_ns.sum())
    return replace(totals, calls=calls, gc_ns=watched)


def _sums(row: int, accounts: dict[str, Ints]) -> dict[str, int]:
    sums = {account: int(matrix[row].sum()) for account, matrix in accounts.items()}
    return {account: ns for account, ns in sums.items() if ns}


def _spans(
    row: int, before: dict[str, Ints], within: dict[str, Ints], startup_ns: int
) -> list[Span]:
    spans = [Span(1, "startup", False, startup_ns, 1)]
    for is_inside, side in ((False, before), (True, within)):
        for account, matrix in side.items():
            for place in np.flatnonzero(matrix[row]):
                ns = int(matrix[row, place])
                spans.append(Span(int(place) + 1, account, is_inside, ns, 1))
    return sorted(spans, key=lambda span: (span.step, span.inside, span.account))


def _events(draft: Draft, row: int, open_ns: Ints) -> list[Event]:
    mine = sorted((h for h in draft.happenings if h.rank == row), key=lambda h: h.step)
    return [
        Event(
            at_ns=int(open_ns[happening.step - 1]),
            kind=happening.kind,
            step=happening.step,
            detail=happening.detail,
            duration_ns=None
            if happening.duration_ms is None
            else round(happening.duration_ms * _NS_PER_MS),
        )
        for happening in mine
    ]
