"""Training threads that are ready to run and find no core."""

from typing import Final

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding, Gain
from traintrace_analysis.reading_columns import by_node, column, mean, unread
from traintrace_analysis.replay import without
from traintrace_analysis.rules.observed import recorded
from traintrace_analysis.rules.process.blame import Blame, blame
from traintrace_analysis.rules.process.cores import NodeCores, nodes_of, steady_process
from traintrace_analysis.rules.process.delay import Delay, delays_of, grade
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent, seconds

_KIND: Final = "CPU_OVERSUBSCRIBED"


def cpu_oversubscribed(context: Context) -> list[Finding]:
    """Find the training thread that waits most for a core, and who took it."""
    graded = [(one, grade(context, one)) for one in delays_of(context)]
    late = [(one, severity) for one, severity in graded if severity is not None]
    if not late:
        return []
    worst, severity = max(late, key=lambda pair: pair[0].share.value)
    node = next((one for one in nodes_of(context) if worst.rank.rank in one.ranks), None)
    # Without the cores of the node nobody can be blamed; the wait itself was measured all the same.
    found = (
        None
        if node is None
        else blame(node, worst.rank.setup, worst.throttled, _input_share(context))
    )
    if severity == "critical" and _did_its_work(node, found):
        severity = "warning"  # that it waited is sure, that much is lost is not
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
            confidence=worst.confidence,
            ranks=tuple(one.rank.rank for one, _ in late),
            evidence=_evidence(context, worst, node, found),
            cost_s=worst.cost_s,
            cost_basis=worst.basis,
            gain=None if _did_its_work(node, found) else _gain(context, worst),
            headline=f"The training thread waits for a CPU core {percent(share)} of the time.",
            why=(
                f"On rank {worst.rank.rank} it was ready to run and had no core for {seconds(worst.cost_s)} "
                f"({percent(share)} of the steady time{spread}).{others} "
                f"{'' if found is None else found.why}{_bounds(context, worst, node, found)}"
            ).strip(),
            action=(
                "Give the run more cores, or let it use fewer threads and workers."
                if found is None
                else found.action
            ),
        )
    ]


def _input_share(context: Context) -> float:
    """Give the share of step time that training waits for batches; 0 if that was not measured."""
    return context.metrics["input_wait"].share or 0.0


def _has_partners(delay: Delay) -> bool:
    """Say whether other threads share the operations of the training thread, and wait for each other."""
    return (delay.rank.setup.omp_threads or 1) > 1


def _did_its_work(node: NodeCores | None, found: Blame | None) -> bool:
    """Say whether other threads of the same process alone took the core, so that they did its work meanwhile.

    Measured on 2 cores: 8 threads waited a third of the time, and a step took 8.1 ms instead of 6.8. Workers
    and other ranks do other work, and what they take is lost.
    """
    if node is None or found is None or found.causes != ("own",):
        return False
    return len(node.ranks) == 1 and node.workers_own < limit("other_cores_share") * node.cores


def _gain(context: Context, delay: Delay) -> Gain | None:
    """Give the speed-up without the wait; threads that spin meanwhile leave it without bounds."""
    if _has_partners(delay) and not context.window.accelerator:
        return without(delay.rank.totals, delay.cost_s, basis="window")
    return without(delay.rank.totals, delay.cost_s, basis=delay.basis, upper_bound=True)


def _bounds(context: Context, delay: Delay, node: NodeCores | None, found: Blame | None) -> str:
    """Say on which side of the measured wait the true loss lies."""
    if context.window.accelerator:
        return " The device may have been busy meanwhile, so cost and gain are upper bounds."
    if _did_its_work(node, found):
        return (
            " Meanwhile those threads did a part of its work, so the loss may be smaller, down to none; where they "
            "spin and wait for each other it is larger. What fewer threads win, only a try can tell."
        )
    if found is not None and found.causes == ("own",):
        return (
            " Part of that time the run's other processes did work that it needs as well, so the loss may be "
            "smaller; threads that spin for one without a core make it larger."
        )
    if _has_partners(delay):
        return " The loss may be larger: while one thread has no core, the others of the same operation spin and wait."
    return ""


def _evidence(
    context: Context, delay: Delay, node: NodeCores | None, found: Blame | None
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
    if delays_of(context):
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
                "took the core they did its work. Seconds in what other findings name are counted there. With one thread the gain is an upper bound, with more it has no bounds."
            ),
            action="Set OMP_NUM_THREADS and num_workers so that ranks x threads and workers fit the cores.",
            limits=(
                "run_queue_share_warning",
                "run_queue_share_critical",
                "throttled_ratio",
                "other_cores_share",
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
