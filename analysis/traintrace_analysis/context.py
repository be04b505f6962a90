"""What a rule may look at, and how it weighs a cause against its limits."""

from dataclasses import dataclass

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.convergence import Convergence
from traintrace_analysis.efficiency.model import EfficiencyBudget
from traintrace_analysis.epochs import InputWait
from traintrace_analysis.findings import CostBasis, Severity
from traintrace_analysis.metrics import rank_means, representative
from traintrace_analysis.model import Metric
from traintrace_analysis.ranks import Comparison
from traintrace_analysis.stages import StageAnalysis
from traintrace_analysis.statistics import estimate_ratio
from traintrace_analysis.step_window import Floats, StepWindow
from traintrace_analysis.sufficiency import is_short
from traintrace_analysis.thresholds import limit
from traintrace_analysis.traces import TraceAnalysis
from traintrace_analysis.wording import milliseconds, percent

NS_PER_MS = 1e6
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The facts that rules judge.

    Attributes:
        rank: What the representative rank recorded.
        wait: The wait for batches, None if not measured.
        pauses: What the findings about collections and compilations name of each steady step, ranks by
            steps in ns; None if there are no such findings.
        comparison: The ranks against each other, such pauses left out; None if fewer than two can be
            compared.
        stages: The pipeline of stages and queues; None if none was marked.
        traffic: What the traces of a profiler say; None without any.
        convergence: How training went; None if nothing is known of it.
        efficiency: The wall time against the device's peak; None if no time was recorded.
    """

    window: StepWindow
    metrics: dict[str, Metric]
    rank: RankFacts
    wait: InputWait | None
    pauses: Floats | None = None
    comparison: Comparison | None = None
    stages: StageAnalysis | None = None
    traffic: TraceAnalysis | None = None
    convergence: Convergence | None = None
    efficiency: EfficiencyBudget | None = None

    @property
    def short(self) -> bool:
        """True if there are too few steady steps for statistics; there may be none at all."""
        return is_short(self.window)

    @property
    def row(self) -> int:
        """The representative rank's row in the window's matrices; it has one if any step was completed."""
        return self.window.ranks.index(self.rank.rank)

    @property
    def blind(self) -> bool:
        """True if the device worked on its own and only the host was timed."""
        return self.window.accelerator and self.window.clock == "host"

    @property
    def sync_trust(self) -> float:
        """Factor on the confidence of host times in which waiting for the device may hide."""
        return limit("host_clock_sync_trust") if self.blind else 1.0

    def warmup_s(self, *accounts: str) -> float:
        """Give what `accounts` took in the warm-up steps, which shares and gains leave out."""
        window = self.window
        parts = [window.host[name] for name in accounts if name in window.host]
        first = window.warmup_steps
        return sum(float(np.nansum(part[self.row, :first])) for part in parts) / NS_PER_S


@dataclass(frozen=True, slots=True)
class Weight:
    """How much of its step one cause takes on the rank nearest the median over ranks.

    Attributes:
        share: Sum of the cause over sum of the step times.
        low, high: 95 % interval of the share; None if too few steps decide.
        confidence: Chance that the share reaches the warning limit, less with few steps.
        critical: Chance that it reaches the critical limit; 0 without one.
        cause_ms, step_ms: Means. median_ms, p95_ms: of the cause.
    """

    row: int
    share: float
    low: float | None
    high: float | None
    confidence: float
    critical: float
    cause_ms: float
    step_ms: float
    median_ms: float
    p95_ms: float

    @property
    def bursty(self) -> bool:
        """True if most steps lose little and a few lose much, so that the mean describes neither."""
        return self.median_ms < limit("bursty_wait") * self.cause_ms

    def range_text(self) -> str:
        """Write the share with its interval, in brackets, to follow a number."""
        if self.low is None or self.high is None:
            return f" ({percent(self.share)}; too few independent steps for an interval)"
        low, high = percent(max(0.0, self.low)), percent(min(1.0, self.high))
        if low == high:
            return f" ({percent(self.share)})"
        return f" ({percent(self.share)}, 95 % interval {low} to {high})"

    def spread_text(self) -> str:
        """Write how uneven the cause is, as a sentence of its own; nothing where it is even."""
        if not self.bursty:
            return ""
        if self.p95_ms > self.cause_ms:
            tail = f"one in twenty loses {milliseconds(self.p95_ms)} or more"
        else:
            tail = "fewer than one in twenty loses nearly all of it"
        return f" It comes in bursts: half of the steps lose under {milliseconds(self.median_ms)}, {tail}."

    def evidence(self) -> dict[str, float | int | str | None]:
        """Give the numbers behind the share."""
        return {
            "share": self.share,
            "share_low": self.low,
            "share_high": self.high,
            "cause_ms": self.cause_ms,
            "cause_median_ms": self.median_ms,
            "cause_p95_ms": self.p95_ms,
            "step_time_ms": self.step_ms,
        }


def weigh(window: StepWindow, cause_ns: Floats, warning: str, critical: str = "") -> Weight | None:
    """Weigh a cause, given as ranks by steady steps, against the step; None if not measured.

    Args:
        window: Where the steps are from.
        cause_ns: Nanoseconds that the cause took.
        warning: Name of the limit that the confidence is about.
        critical: Name of the limit from which on the cause is critical, if there is one.
    """
    row = representative(rank_means(cause_ns, len(window.ranks)), window.ranks)
    if row is None:
        return None
    step = window.host["step_time"][row, window.warmup_steps :]
    there = ~np.isnan(cause_ns[row])
    cause, step = cause_ns[row][there], step[there]
    ratio = estimate_ratio(cause, step)
    if ratio is None:
        return None
    low, high = ratio.interval() or (None, None)
    median, p95 = np.quantile(cause, [0.5, 0.95]) / NS_PER_MS
    return Weight(
        row=row,
        share=ratio.value,
        low=low,
        high=high,
        confidence=ratio.chance_at_least(limit(warning)) * (0.75 + 0.25 * ratio.knowledge),
        critical=ratio.chance_at_least(limit(critical)) if critical else 0.0,
        cause_ms=float(cause.mean()) / NS_PER_MS,
        step_ms=float(step.mean()) / NS_PER_MS,
        median_ms=float(median),
        p95_ms=float(p95),
    )


def weigh_cause(window: StepWindow, cause_ns: Floats, cause: str) -> Weight | None:
    """Weigh a cause of the step against the two limits that are named after it."""
    return weigh(window, cause_ns, f"{cause}_share_warning", f"{cause}_share_critical")


def grade(weight: Weight, cause: str, confidence: float, cost_s: float) -> Severity | None:
    """Grade a share of the step against the limits of `cause`.

    Returns:
        None under the warning limit, or where little is lost and even that is unsure; "info" where
        either alone holds, so that nobody is blamed for it; "critical" only if it is hardly in
        doubt that the critical limit is reached.
    """
    if weight.share < limit(f"{cause}_share_warning"):
        return None
    small = is_small(weight, cost_s)
    unsure = confidence < limit("confidence_to_name")
    if small or unsure:
        return None if small and unsure else "info"
    return "critical" if weight.critical >= limit("confidence_of_critical") else "warning"


def grade_of_wall(share: float, cause: str, cost_s: float) -> Severity | None:
    """Grade a share of the wall time against the limits of `cause`; "info" if too small to matter."""
    if share < limit(f"{cause}_share_warning"):
        return None
    if cost_s < limit("between_loss_floor"):
        return "info"
    return "critical" if share >= limit(f"{cause}_share_critical") else "warning"


def is_small(weight: Weight, cost_s: float) -> bool:
    """Tell whether neither a step nor the run loses enough for a person to care."""
    return weight.cause_ms < limit("step_loss_floor") and cost_s < limit("run_loss_floor")


def step_cost(
    context: Context, accounts: tuple[str, ...], mean_ms: float
) -> tuple[float, CostBasis]:
    """Give what `accounts` took inside the steady steps of the whole run, in seconds, and the basis.

    Exact from the totals, less the warm-up, where these hold all the accounts that occurred; else
    the window's mean times the number of steady steps.
    """
    totals = context.rank.totals
    occurred = [name for name in accounts if name in totals.account_ns]
    if occurred and all(name in totals.inside_ns for name in occurred):
        whole_s = sum(totals.inside_ns[name] for name in occurred) / NS_PER_S
        return max(0.0, whole_s - context.warmup_s(*occurred)), "run"
    return scaled_cost(context, mean_ms), "window"


def scaled_cost(context: Context, mean_ms: float) -> float:
    """Give the window's mean times the number of steps after the warm-up, in seconds."""
    return max(0.0, mean_ms / 1e3 * (context.rank.totals.steps - context.window.warmup_steps))
