"""Turn curves into the facts of a run, and ask the family `convergence` about it."""

from typing import cast

import numpy as np

from benchmarks.convergence.noise import Curves
from traintrace.facts import (
    Environment,
    RankFacts,
    RunFacts,
    Scalar,
    Setup,
    Totals,
    TracerCost,
)
from traintrace_analysis.context import Context
from traintrace_analysis.convergence import examine_convergence
from traintrace_analysis.findings import Finding
from traintrace_analysis.metrics import summarise_metrics
from traintrace_analysis.registry import applicable
from traintrace_analysis.rules import convergence
from traintrace_analysis.window import build_window

START_NS = 1_700_000_000_000_000_000


def make_facts(curves: Curves) -> RunFacts:
    """Make what a run of one rank would have recorded."""
    duration = np.rint(curves.step_ms * 1e6).astype(np.int64)
    close = START_NS + np.cumsum(duration)
    start = close - duration
    steps = len(duration)
    columns = {
        "step": np.arange(1, steps + 1),
        "start_ns": start,
        "open_ns": start,
        "duration_ns": duration,
        "flags": np.zeros(steps, dtype=np.int64),
        "forward_ns": duration // 3,
        "backward_ns": duration - duration // 3,
        "samples": np.full(steps, 32),
        "tokens": curves.tokens.astype(np.int64),
        "padded_tokens": curves.padded_tokens.astype(np.int64),
        "peak_allocated_bytes": np.rint(curves.memory_mb * 1e6).astype(np.int64),
    }
    logged = np.arange(0, steps, curves.every)
    scalars = [
        Scalar(int(place) + 1, name, float(values[place]))
        for name, values in (("loss", curves.loss), ("grad_norm", curves.grad_norm))
        for place in logged
    ]
    total = int(duration.sum())
    accounts = {"forward": total // 3, "backward": total - total // 3}
    return RunFacts(
        name="made", id="made", status="completed", exit_code=0, plugin="plain_torch",
        plugin_version="0", framework="torch", framework_version="2", tool_version="0",
        started_at=START_NS / 1e9, duration_s=total / 1e9, world_size=1, nodes_expected=1,
        environment=Environment(python="3"),
        ranks=(
            RankFacts(
                rank=0, attempt=0, node=0, status="completed", level="host", device_clock=None,
                setup=Setup(device_kind="cpu"), cost=TracerCost(700.0, None, 0.0, 0.0, 0.0),
                totals=Totals(
                    account_ns=accounts, inside_ns=accounts, calls={}, wall_ns=total,
                    start_ns=START_NS, steps=steps, steps_aborted=0, dropped_rows=0,
                    micro_batches=steps, samples=32 * steps, tokens=None, padded_tokens=None,
                    updates_skipped=0, epochs=1, transitions=0, foreign_calls=0, unbalanced=0,
                ),
                columns={name: cast("list[int | None]", column) for name, column in columns.items()},
                spans=(), regions=(), scalars=scalars, events=(), unmeasured={}, warnings=(),
            ),
        ),
    )  # fmt: skip


def findings_of(curves: Curves) -> list[Finding]:
    """Give what the family finds in a run; no other family is asked."""
    facts = make_facts(curves)
    window = build_window(facts, 10_000)
    metrics = summarise_metrics(window) if len(curves.loss) < 100 else {}
    learning = examine_convergence(window, facts.ranks, 0)
    context = Context(window, metrics, facts.ranks[0], None, convergence=learning)
    return [
        finding
        for rule in convergence.FAMILY.rules
        if applicable(rule, context)
        for finding in rule.examine(context)
    ]
