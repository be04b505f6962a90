"""Training threads that are ready to run and find no core."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import CostBasis, Finding, Severity
from traintrace_analysis.reading_columns import by_node, column, mean, unread
from traintrace_analysis.replay import without
from traintrace_analysis.rules.observed import recorded
from traintrace_analysis.rules.process.blame import Blame, blame
from traintrace_analysis.rules.process.cores import NodeCores, nodes_of, steady_process
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.statistics import Ratio, estimate_ratio
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, seconds

_KIND: Final = "CPU_OVERSUBSCRIBED"


@dataclass(frozen=True, slots=True)
class _Delay:
    """How long a rank's training thread was ready to run without a core, as a share of the steady time."""

    rank: RankFacts
    share: Ratio
    throttled: float

    @property
    def confidence(self) -> float:
        enough = 0.75 + 0.25 * self.share.knowledge
        return self.share.chance_at_least(limit("run_queue_share_warning")) * enough


def cpu_oversubscribed(context: Context) -> list[Finding]:
    """Find the training thread that waits most for a core, and who took it."""
    delays = [delay for rank in recorded(context) if (delay := _delay(context, rank)) is not None]
    late = [one for one in delays if one.share.value >= limit("run_queue_share_warning")]
    if not late:
        return []
    worst = max(late, key=lambda one: one.share.value)
    cost_s, basis = _cost(worst.rank)
    trust = limit("host_clock_input_trust") if context.window.accelerator else 1.0
    confidence = worst.confidence * trust
    severity = _grade(context, worst, confidence, cost_s)
    if severity is None:
        return []
    node = next((one for one in nodes_of(context) if worst.rank.rank in one.ranks), None)
    # Without the cores of the node nobody can be blamed; the wait itself was measured all the same.
    found = None if node is None else blame(node, worst.rank.setup, worst.throttled)
    share, bounds = worst.share.value, worst.share.interval()
    spread = (
        ""
        if bounds is None
        else f", 95 % interval {percent(bounds[0])} to {percent(min(1.0, bounds[1]))}"
    )
    others = f" {len(late)} ranks wait so." if len(late) > 1 else ""
    return [
        Finding(
            id="cpu-oversubscribed",
            kind=_KIND,
            family="process",
            severity=severity,
            confidence=confidence,
            ranks=tuple(one.rank.rank for one in late),
            evidence=_evidence(context, worst, node, found),
            cost_s=cost_s,
            cost_basis=basis,
            gain=without(worst.rank.totals, cost_s, basis=basis, upper_bound=True),
            headline=f"The training thread waits for a CPU core {percent(share)} of the time.",
            why=(
                f"On rank {worst.rank.rank} it was ready to run and had no core for {seconds(cost_s)} "
                f"({percent(share)} of the steady time{spread}).{others} "
                f"{'' if found is None else found.why}{_bounds(context, worst, found)}"
            ).strip(),
            action=(
                "Give the run more cores, or let it use fewer threads and workers."
                if found is None
                else found.action
            ),
        )
    ]


def _delay(context: Context, rank: RankFacts) -> _Delay | None:
    readings = steady_process(context, rank)
    waited, length = column(readings, "run_queue_ns"), column(readings, "interval_ns")
    known = np.isfinite(waited) & (length > 0.0)
    if known.sum() < limit("machine_readings_minimum"):
        return None
    share = estimate_ratio(waited[known], length[known])
    if share is None:
        return None
    held = column(readings, "throttled_ns")[known]
    waited_ns = float(waited[known].sum())
    throttled = float(np.nansum(held)) / waited_ns if waited_ns > 0.0 else 0.0
    return _Delay(rank, share, throttled)


def _cost(rank: RankFacts) -> tuple[float, CostBasis]:
    """Give the seconds of waiting in the traced span; scaled up where readings do not cover it."""
    waited, length = column(rank.process, "run_queue_ns"), column(rank.process, "interval_ns")
    known = np.isfinite(waited) & (length > 0.0)
    seen_s, covered_s = (float(part[known].sum()) / NS_PER_S for part in (waited, length))
    wall_s = rank.totals.wall_ns / NS_PER_S
    if covered_s >= limit("coverage_minimum") * wall_s:
        return min(seen_s, wall_s), "run"
    return min(seen_s / covered_s, 1.0) * wall_s, "window"


def _grade(context: Context, delay: _Delay, confidence: float, cost_s: float) -> Severity | None:
    step_ms = context.metrics["step_time"].mean_ms or 0.0
    lost_ms = delay.share.value * step_ms
    small = lost_ms < limit("step_loss_floor") and cost_s < limit("run_loss_floor")
    unsure = confidence < limit("confidence_to_name")
    if small or unsure:
        return None if small and unsure else "info"
    critical = delay.share.chance_at_least(limit("run_queue_share_critical"))
    return "critical" if critical >= limit("confidence_of_critical") else "warning"


def _bounds(context: Context, delay: _Delay, found: Blame | None) -> str:
    """Say on which side of the measured wait the true loss lies."""
    if context.window.accelerator:
        return " The device may have been busy meanwhile, so cost and gain are upper bounds."
    if found is not None and found.causes == ("own",):
        return (
            " Part of that time other threads of the run did its work, so the loss may be smaller; threads that "
            "spin for one without a core make it larger."
        )
    if (delay.rank.setup.omp_threads or 1) > 1:
        return " The loss may be larger: while one thread has no core, the others of the same operation spin and wait."
    return ""


def _evidence(
    context: Context, delay: _Delay, node: NodeCores | None, found: Blame | None
) -> dict[str, float | int | str | None]:
    readings = steady_process(context, delay.rank)
    bounds = delay.share.interval()
    lost, kept = column(readings, "involuntary_switches"), column(readings, "interval_ns")
    known = np.isfinite(lost) & (kept > 0.0)
    per_s = float(lost[known].sum() / kept[known].sum()) * NS_PER_S if known.any() else None
    return {
        "run_queue_share": delay.share.value,
        "run_queue_share_low": None if bounds is None else bounds[0],
        "run_queue_share_high": None if bounds is None else bounds[1],
        "worst_rank": delay.rank.rank,
        "caused_by": None if found is None else ",".join(found.causes),
        "throttled_ratio": delay.throttled,
        "involuntary_switches_per_s": per_s,
        "allowed_cores": None if node is None else node.cores,
        "node_cpus_count": None if node is None else node.cpus,
        "own_cores": None if node is None else node.own,
        "other_cores": None if node is None else node.others,
        "threads_count": None if node is None else node.threads,
        "workers_count": None if node is None else node.workers,
        "ranks_on_node_count": None if node is None else len(node.ranks),
        "load_1min": _load(context, delay.rank),
        "suggested_threads_count": None if found is None else found.threads,
        "suggested_workers_count": None if found is None else found.workers,
    }


def _load(context: Context, rank: RankFacts) -> float | None:
    members = by_node(recorded(context))[rank.node]
    return mean(column([one for member in members for one in member.system], "load_1min"))


def _missing(context: Context) -> str:
    if any(_delay(context, rank) is not None for rank in recorded(context)):
        return ""
    why = unread(recorded(context), "process", "run_queue_ns", "interval_ns")
    return (
        f"the training thread's wait for a core ({why or 'too few readings in the steady steps'})"
    )


RULE: Final = Rule(
    topic="waiting for a CPU core",
    kinds=(
        Kind(
            name=_KIND,
            means=(
                "The training thread is ready to run and finds no core: the run's own threads and workers are more than "
                "the cores, other processes use them, or the container's quota is spent."
            ),
            fires=(
                "The kernel counts a tenth of the steady time or more as such a wait, and that is 2 ms of a step or a "
                "minute of the run."
            ),
            never=(
                "Exact seconds lost: threads that spin for one without a core lose more, and where the run's own threads "
                "took the core they did its work. Gain is an upper bound."
            ),
            action="Set OMP_NUM_THREADS and num_workers so that ranks x threads and workers fit the cores.",
            limits=(
                "run_queue_share_warning",
                "run_queue_share_critical",
                "throttled_ratio",
                "other_cores_share",
                "cores_full",
                "machine_readings_minimum",
                "step_loss_floor",
                "run_loss_floor",
                "host_clock_input_trust",
            ),
        ),
    ),
    examine=cpu_oversubscribed,
    missing=_missing,
)
