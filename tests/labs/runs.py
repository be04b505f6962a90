"""Runs made by hand: a builder that keeps rows, spans and totals consistent with each other."""

from collections.abc import Mapping, Sequence

from traintrace.accounts import PHASES, STEP_ACCOUNT_NAMES
from traintrace.facts import (
    Environment,
    Event,
    LoaderSetup,
    RankFacts,
    RunFacts,
    Scalar,
    Setup,
    Span,
    Totals,
    TracerCost,
)
from traintrace.readings import DeviceReading, ProcessReading, SystemReading

START_NS = 1_700_000_000_000_000_000
STARTUP_NS = 50_000_000
Value = float | None | Sequence[float | None]
CPU_STEP: Mapping[str, Value] = {
    "input_wait": 0.5,
    "forward": 4.0,
    "backward": 6.0,
    "optimizer": 1.0,
    "other": 0.3,
}


def _ns(value: Value, index: int) -> int | None:
    if isinstance(value, Sequence):
        value = value[index]
    return None if value is None else round(value * 1e6)


def make_rank(
    steps: int = 100,
    *,
    ms: Mapping[str, Value] = CPU_STEP,
    device_ms: Mapping[str, Value] | None = None,
    before_ms: Mapping[int, Mapping[str, float]] | None = None,
    inside_ms: Mapping[int, Mapping[str, float]] | None = None,
    flags: Mapping[int, int] | None = None,
    jitter: float = 0.03,
    rank: int = 0,
    attempt: int = 0,
    start_ns: int = START_NS,
    missing: Sequence[int] = (),
    samples: int | None = 32,
    setup: Setup | None = None,
    unmeasured: Mapping[str, str] | None = None,
    scalars: Sequence[Scalar] = (),
    epochs: int | None = 1,
    cost: TracerCost | None = None,
    warnings: Sequence[str] = (),
    memory: Mapping[str, int | Sequence[int | None]] | None = None,
    gc_ms: Value = None,
    node: int = 0,
    events: Sequence[Event] = (),
    system: Sequence[SystemReading] = (),
    process: Sequence[ProcessReading] = (),
    devices: Sequence[DeviceReading] = (),
) -> RankFacts:
    """Make one rank whose step k takes `ms` per account, stretched by a repeating jitter.

    `before_ms` and `inside_ms` give between-step accounts by step; `missing` are steps without row.
    """
    names = (
        "step", "start_ns", "open_ns", "duration_ns", "flags", "samples", "tokens", "padded_tokens",
        *(f"{name}_ns" for name in STEP_ACCOUNT_NAMES),
        *(f"{name}_device_ns" for name in PHASES),
        "peak_allocated_bytes", "peak_reserved_bytes", "rss_bytes", "gc_ns",
    )  # fmt: skip
    columns: dict[str, list[int | None]] = {name: [] for name in names}
    spans: list[Span] = []
    sums: dict[str, int] = {"startup": STARTUP_NS}
    inner: dict[str, int] = {}
    calls: dict[str, int] = {"startup": 1}
    now = start_ns
    state = 12345 + rank
    for index in range(steps):
        step = index + 1
        before = {k: round(v * 1e6) for k, v in (before_ms or {}).get(step, {}).items()}
        inside = {k: round(v * 1e6) for k, v in (inside_ms or {}).get(step, {}).items()}
        state = (1103515245 * state + 12345) % 2**31
        stretch = 1.0 + jitter * (2.0 * state / 2**31 - 1.0)
        spent = {k: _ns(v, index) for k, v in ms.items()}
        accounts = {k: round(v * stretch) for k, v in spent.items() if v is not None}
        if step == 1:
            before["startup"] = STARTUP_NS
        opened = now + sum(before.values())
        closed = opened + sum(accounts.values()) + sum(inside.values())
        for source, is_inside in ((before, False), (inside, True)):
            for name, value in source.items():
                spans.append(Span(step, name, is_inside, value, 1))
                if name != "startup":
                    sums[name] = sums.get(name, 0) + value
                    calls[name] = calls.get(name, 0) + 1
                if is_inside:
                    inner[name] = inner.get(name, 0) + value
        for name, value in accounts.items():
            sums[name] = sums.get(name, 0) + value
            inner[name] = inner.get(name, 0) + value
            calls[name] = calls.get(name, 0) + 1
        if step not in missing:
            row: dict[str, int | None] = {
                "step": step, "start_ns": now, "open_ns": opened, "duration_ns": closed - now,
                "flags": (flags or {}).get(step, 0), "samples": samples,
                **{f"{k}_ns": v for k, v in accounts.items()},
                **{f"{k}_device_ns": _ns(v, index) for k, v in (device_ms or {}).items()},
                **{k: v[index] if isinstance(v, Sequence) else v for k, v in (memory or {}).items()},
                "gc_ns": _ns(gc_ms, index),
            }  # fmt: skip
            for name, column in columns.items():
                column.append(row.get(name))
        now = closed
    sums["shutdown"] = 7_000_000
    wall_ns = sum(sums.values())
    return RankFacts(
        rank=rank,
        attempt=attempt,
        node=node,
        status="completed",
        level="full" if device_ms else "host",
        device_clock="cuda" if device_ms else None,
        setup=setup or Setup(device_kind="cpu", cpu_count=8, loader=LoaderSetup(workers=0)),
        cost=cost or TracerCost(700.0, None, 0.01, 0.2, 0.05),
        totals=Totals(
            account_ns=sums, inside_ns=inner, calls=calls, wall_ns=wall_ns, start_ns=start_ns,
            steps=steps, steps_aborted=0, dropped_rows=len(missing), micro_batches=steps,
            samples=None if samples is None else samples * steps, tokens=None,
            padded_tokens=None, updates_skipped=0, epochs=epochs, transitions=10 * steps,
            foreign_calls=0, unbalanced=0,
        ),
        columns=columns,
        spans=spans,
        regions=(),
        scalars=scalars,
        events=events,
        unmeasured=unmeasured or {},
        warnings=warnings,
        system=system,
        process=process,
        devices=devices,
    )  # fmt: skip


def make_run(*ranks: RankFacts, world_size: int | None = None) -> RunFacts:
    """Make a run of the given ranks."""
    return RunFacts(
        name="digits",
        id="r1",
        status="completed",
        exit_code=0,
        plugin="plain_torch",
        plugin_version="0.1.0",
        framework="torch",
        framework_version="2.13.0",
        tool_version="0.1.0",
        started_at=START_NS / 1e9,
        duration_s=max((rank.totals.wall_ns for rank in ranks), default=0) / 1e9,
        world_size=len({rank.rank for rank in ranks}) if world_size is None else world_size,
        nodes_expected=1,
        environment=Environment(python="3.11.7", torch="2.13.0+cpu"),
        ranks=ranks,
    )
