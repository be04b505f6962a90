"""Runs made by hand: a builder that keeps rows, spans and totals consistent with each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from traintrace.accounts import PHASES, STEP_ACCOUNT_NAMES
from traintrace.facts import (
    EPOCH_FIRST,
    Environment,
    LoaderSetup,
    RankFacts,
    RunFacts,
    Scalar,
    Setup,
    Span,
    Totals,
    TracerCost,
)

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
    memory: Mapping[str, int] | None = None,
) -> RankFacts:
    """Make one rank whose step k takes `ms` per account, stretched by a repeating jitter.

    `before_ms` and `inside_ms` give between-step accounts by step; `missing` are steps without row.
    """
    names = (
        "step", "start_ns", "open_ns", "duration_ns", "flags", "samples", "tokens",
        *(f"{name}_ns" for name in STEP_ACCOUNT_NAMES),
        *(f"{name}_device_ns" for name in PHASES),
        "peak_allocated_bytes", "peak_reserved_bytes", "rss_bytes",
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
                **(memory or {}),
            }  # fmt: skip
            for name, column in columns.items():
                column.append(row.get(name))
        now = closed
    sums["shutdown"] = 7_000_000
    wall_ns = sum(sums.values())
    return RankFacts(
        rank=rank,
        attempt=attempt,
        node=0,
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
        events=(),
        unmeasured=unmeasured or {},
        warnings=warnings,
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


@pytest.fixture
def new_rank() -> Callable[..., RankFacts]:
    return make_rank


@pytest.fixture
def new_run() -> Callable[..., RunFacts]:
    return make_run


@pytest.fixture
def cpu_step() -> dict[str, Value]:
    """Milliseconds per account of an ordinary step on a CPU."""
    return dict(CPU_STEP)


@pytest.fixture
def gpu_setup() -> Setup:
    loader = LoaderSetup(workers=4, prefetch_factor=2, pin_memory=False, persistent=False)
    return Setup(device_kind="cuda", device_name="H100", cpu_count=16, loader=loader)


@pytest.fixture
def without_steps() -> Callable[[RankFacts], RankFacts]:
    """Take all rows and sums out of a rank, as if it had died before its first step."""

    def empty(rank: RankFacts) -> RankFacts:
        totals = replace(
            rank.totals, account_ns={"startup": 5}, inside_ns={}, calls={}, wall_ns=5, steps=0,
            micro_batches=0, samples=None, epochs=None, transitions=0, dropped_rows=0,
        )  # fmt: skip
        columns: dict[str, Sequence[int | None]] = {name: [] for name in rank.columns}
        return replace(rank, totals=totals, columns=columns, spans=(), scalars=())

    return empty


@pytest.fixture
def scenarios(
    gpu_setup: Setup, without_steps: Callable[[RankFacts], RankFacts]
) -> dict[str, RunFacts]:
    """Runs of every kind that a reader will meet, by what is odd in them."""
    epoch_starts = range(1, 101, 10)
    nan, inf = float("nan"), float("inf")
    return {
        "no_ranks": make_run(),
        "no_steps": make_run(without_steps(make_rank())),
        "one_step": make_run(make_rank(1)),
        "nine_steps": make_run(make_rank(9)),
        "plain_cpu": make_run(make_rank()),
        "slow_input": make_run(
            make_rank(ms={"input_wait": 10.0, "forward": 0.8, "backward": 0.8, "optimizer": 0.3, "other": 0.1})
        ),
        "fast_tiny_model": make_run(
            make_rank(600, ms={"input_wait": 0.6, "forward": 0.3, "backward": 0.5, "optimizer": 0.2, "other": 0.05})
        ),
        "forward_missing_everywhere": make_run(
            make_rank(
                ms={"input_wait": 0.5, "backward": 6.0, "optimizer": 1.0, "other": 5.0},
                unmeasured={"forward": "model runs inside a compiled function"},
            )
        ),
        "forward_missing_on_one_rank": make_run(
            make_rank(rank=0),
            make_rank(rank=1, ms={"input_wait": 0.5, "backward": 6.0, "optimizer": 1.0, "other": 5.0}),
        ),
        "rank_without_rows": make_run(
            make_rank(rank=0), make_rank(rank=1), without_steps(make_rank(rank=2)), world_size=4
        ),
        "rank_missing_steps": make_run(make_rank(rank=0), make_rank(rank=1, missing=(40, 41, 42, 43))),
        "evaluation": make_run(
            make_rank(before_ms={step: {"evaluation": 400.0} for step in (25, 50, 75, 100)})
        ),
        "checkpoint_inside_steps": make_run(
            make_rank(inside_ms={step: {"checkpoint": 300.0} for step in (50, 100)})
        ),
        "epoch_starts": make_run(
            make_rank(
                setup=replace(gpu_setup, device_kind="cpu"),
                flags={step: EPOCH_FIRST for step in epoch_starts},
                before_ms={step: {"epoch_boundary": 50.0} for step in epoch_starts},
                ms={**CPU_STEP, "input_wait": [30.0 if k % 10 == 0 else 0.5 for k in range(100)]},
                epochs=10,
            )
        ),
        "gpu_device_clock": make_run(
            make_rank(
                setup=gpu_setup,
                ms={"input_wait": 4.0, "h2d": 0.2, "forward": 1.0, "backward": 1.0, "optimizer": 0.5, "other": 5.0},
                device_ms={"h2d": 0.1, "forward": 3.0, "backward": 6.5, "optimizer": 1.0},
                memory={"peak_allocated_bytes": 2**30, "peak_reserved_bytes": 2**31, "rss_bytes": 2**29},
            )
        ),
        "gpu_host_clock": make_run(
            make_rank(setup=gpu_setup, ms={**CPU_STEP, "h2d": 0.2, "other": 8.0})
        ),
        "h2d_bound_gpu": make_run(
            make_rank(
                setup=gpu_setup,
                ms={"input_wait": 0.2, "h2d": 5.0, "forward": 3.0, "backward": 6.0, "optimizer": 1.0, "other": 0.2},
                device_ms={"h2d": 5.0, "forward": 3.0, "backward": 6.0, "optimizer": 1.0},
            )
        ),
        "odd_scalars": make_run(
            make_rank(
                scalars=[Scalar(k + 1, "loss", v) for k, v in enumerate([2.0, nan, inf, -inf, 1.0])]
            )
        ),
        "restarted": make_run(
            make_rank(30, attempt=0), make_rank(40, attempt=1, start_ns=START_NS + 60_000_000_000)
        ),
    }  # fmt: skip
