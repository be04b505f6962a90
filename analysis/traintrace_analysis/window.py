"""Align the ranks of a run on their common steps and derive the metrics of each step."""

from collections.abc import Mapping

import numpy as np

from traintrace.accounts import ACCOUNTS, GROUPS, STEP_ACCOUNT_NAMES
from traintrace.facts import RankFacts, RunFacts
from traintrace_analysis.columns import MEMORY_COLUMNS, Aligner, common_steps, counted_step_ids
from traintrace_analysis.findings import Clock
from traintrace_analysis.reasons import missing_reasons
from traintrace_analysis.step_window import Floats, StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.warmup import warmup_steps

METRICS: tuple[str, ...] = (
    "step_time",
    "traced_step_time",
    "input_wait",
    "h2d",
    "forward",
    "backward",
    "optimizer",
    "compute",
    "residual",
    *(
        name
        for name in STEP_ACCOUNT_NAMES
        if name not in ("input_wait", "h2d", "forward", "backward", "optimizer")
    ),
)

# Accounts whose absence on a step means "did not happen", once they happened in the run.
_OCCURRENCE = frozenset(
    ("h2d", "optimizer", "batch_prep", "communication", "clip", "callbacks", "user")
)
_DEVICE_PHASES = ("h2d", "forward", "backward", "optimizer")
_BETWEEN = frozenset(account.name for account in ACCOUNTS if account.place == "between")


def build_window(facts: RunFacts, window_steps: int) -> StepWindow:
    """Build the canonical window of the latest attempt that completed a step."""
    attempt, ranks = _participants(facts)
    steps = common_steps(ranks, window_steps)
    aligner = Aligner(ranks, steps)
    start_ns, open_ns = aligner.integers("start_ns"), aligner.integers("open_ns")
    close_ns = start_ns + aligner.integers("duration_ns")
    flags = aligner.integers("flags")
    before, inside = aligner.spans()
    host = _host_accounts(aligner, ranks)
    step_time = (close_ns - open_ns).astype(np.float64)
    for name, values in inside.items():
        if name in _BETWEEN:
            step_time -= values
    device = _device_phases(aligner, host)
    # Steps that were abandoned were no start: training has begun anew after them.
    given_up = max((rank.totals.steps_abandoned for rank in ranks), default=0)
    warmup = warmup_steps(steps - given_up, step_time, flags)
    clock: Clock = "device" if _device_covers(host, device, warmup) else "host"
    host["step_time"] = step_time
    accelerator = any(_is_accelerator(rank) for rank in ranks)
    reasons = missing_reasons(ranks, host, accelerator, alone=facts.world_size <= 1)
    _derive(host, device, clock, reasons)
    return StepWindow(
        attempt=attempt,
        # An earlier attempt may have had more ranks: an elastic job goes on with those that are left.
        expected_ranks=tuple(
            sorted(
                {*range(facts.world_size)}
                | {rank.rank for rank in facts.ranks if rank.attempt == attempt}
            )
        ),
        ranks=tuple(rank.rank for rank in ranks),
        facts=ranks,
        strategy=_strategy(ranks),
        steps=steps,
        warmup_steps=warmup,
        clock=clock,
        accelerator=accelerator,
        start_ns=start_ns,
        open_ns=open_ns,
        close_ns=close_ns,
        flags=flags,
        samples=_work(aligner, "samples"),
        tokens=_work(aligner, "tokens"),
        host=host,
        device=device,
        between=before,
        inside=inside,
        memory={
            name: matrix
            for name in MEMORY_COLUMNS
            if (matrix := aligner.floats(name)) is not None and matrix.size
        },
        gc_ns=aligner.floats("gc_ns"),
        reasons=reasons,
    )


def attempt_ranks(facts: RunFacts, attempt: int) -> tuple[RankFacts, ...]:
    """Give what the ranks recorded in one attempt, by ascending rank."""
    return tuple(
        sorted((rank for rank in facts.ranks if rank.attempt == attempt), key=lambda r: r.rank)
    )


def _participants(facts: RunFacts) -> tuple[int, tuple[RankFacts, ...]]:
    with_rows = [rank for rank in facts.ranks if len(counted_step_ids(rank))]
    pool = with_rows or list(facts.ranks)
    attempt = max((rank.attempt for rank in pool), default=0)
    ranks = sorted((r for r in with_rows if r.attempt == attempt), key=lambda r: r.rank)
    return attempt, tuple(ranks)


def _strategy(ranks: tuple[RankFacts, ...]) -> str | None:
    """Give the strategy that every rank names; None if one names none or two differ."""
    named = {rank.setup.strategy for rank in ranks}
    return named.pop() if len(named) == 1 else None


def _is_accelerator(rank: RankFacts) -> bool:
    return rank.device_clock is not None or rank.setup.device_kind not in (None, "cpu")


def _host_accounts(aligner: Aligner, ranks: tuple[RankFacts, ...]) -> dict[str, Floats]:
    host: dict[str, Floats] = {}
    for name in STEP_ACCOUNT_NAMES:
        matrix = aligner.floats(f"{name}_ns")
        occurred = [name in rank.totals.account_ns for rank in ranks]
        if name in _OCCURRENCE:
            matrix = _fill_occurrence(matrix, occurred, (len(ranks), len(aligner.steps)))
        if matrix is not None and matrix.size:
            host[name] = matrix
    return host


def _fill_occurrence(
    matrix: Floats | None, occurred: list[bool], shape: tuple[int, int]
) -> Floats | None:
    if matrix is None:
        if not any(occurred):
            return None
        matrix = np.full(shape, np.nan)
    happened = np.asarray(occurred, dtype=bool) | ~np.isnan(matrix).all(axis=1)
    matrix[happened[:, None] & np.isnan(matrix)] = 0.0
    return matrix


def _device_phases(aligner: Aligner, host: Mapping[str, Floats]) -> dict[str, Floats]:
    device: dict[str, Floats] = {}
    for name in _DEVICE_PHASES:
        matrix = aligner.floats(f"{name}_device_ns")
        if matrix is None or name not in host:
            continue
        matrix[np.isnan(matrix) & (host[name] == 0.0)] = 0.0
        device[name] = matrix
    return device


def _device_covers(host: Mapping[str, Floats], device: Mapping[str, Floats], warmup: int) -> bool:
    """Tell whether every rank has device times for nearly all that was measured on the host."""
    measured = [name for name in _DEVICE_PHASES if name in host]
    if not measured or not any(name in device for name in measured):
        return False
    for name in measured:
        on_host = ~np.isnan(host[name][:, warmup:])
        if not on_host.any():
            continue
        if name not in device:
            return False
        on_both = on_host & ~np.isnan(device[name][:, warmup:])
        needed = limit("coverage_minimum") * on_host.sum(axis=1)
        if (on_both.sum(axis=1) < needed).any():
            return False
    return True


def _derive(
    host: dict[str, Floats], device: dict[str, Floats], clock: Clock, reasons: dict[str, str]
) -> None:
    """Add the derived metrics, each only where its parts were measured on the step."""
    step_time = host["step_time"]
    if "input_wait" in host:
        host["traced_step_time"] = step_time - host["input_wait"]
    if "compute" not in reasons:
        host["compute"] = _sum_of(host, GROUPS["compute"])
    if clock == "device" and all(name in device for name in GROUPS["compute"]):
        device["compute"] = _sum_of(device, GROUPS["compute"])
    if "residual" in reasons:
        return
    if clock == "device" and "compute" in device:
        # On the device clock the rest is what neither the device nor a wait accounts for.
        known = device["compute"].copy()
        for extra in (device.get("h2d"), host.get("gradient_sync")):
            if extra is not None:
                known += np.nan_to_num(extra)
        host["residual"] = host["traced_step_time"] - known
        return
    # An unseen phase would sit in these accounts, so each needs the phases of its step as well.
    parts = [np.nan_to_num(host[name]) for name in GROUPS["residual"] if name in host]
    phases = host["compute"] + host["input_wait"]
    host["residual"] = np.where(np.isnan(phases), np.nan, np.sum(parts, axis=0))


def _sum_of(source: Mapping[str, Floats], names: tuple[str, ...]) -> Floats:
    total: Floats = source[names[0]].copy()
    for name in names[1:]:
        total += source[name]
    return total


def _work(aligner: Aligner, column: str) -> Floats:
    matrix = aligner.floats(column)
    return np.full((len(aligner.ranks), len(aligner.steps)), np.nan) if matrix is None else matrix
