"""What a rule may look at, and how it weighs a cause against its limits."""

from dataclasses import dataclass

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.epochs import InputWait
from traintrace_analysis.findings import CostBasis, Severity
from traintrace_analysis.metrics import rank_means, representative
from traintrace_analysis.model import Metric
from traintrace_analysis.statistics import (
    bootstrap_ratios,
    chance_at_least,
    effective_count,
    interval,
)
from traintrace_analysis.step_window import Floats, StepWindow
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent

NS_PER_MS = 1e6
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The facts that rules judge.

    Attributes:
        rank: What the representative rank recorded.
        wait: The wait for batches, None if not measured.
    """

    window: StepWindow
    metrics: dict[str, Metric]
    rank: RankFacts
    wait: InputWait | None

    @property
    def row(self) -> int:
        """The representative rank's row in the window's matrices."""
        return self.window.ranks.index(self.rank.rank)

    @property
    def blind(self) -> bool:
        """True if the device worked on its own and only the host was timed."""
        return self.window.accelerator and self.window.clock == "host"

    @property
    def sync_trust(self) -> float:
        """Factor on the confidence of host times in which waiting for the device may hide."""
        return limit("host_clock_sync_trust") if self.blind else 1.0


@dataclass(frozen=True, slots=True)
class Weight:
    """How much of its step one cause takes on the rank nearest the median over ranks.

    Attributes:
        share: Sum of the cause over sum of the step times.
        low, high: 95 % interval of the share; None under 20 independent steps.
        confidence: Chance that the share reaches the warning limit, less with few steps.
    """

    row: int
    share: float
    low: float | None
    high: float | None
    confidence: float
    cause_ms: float
    step_ms: float

    def range_text(self) -> str:
        """Write the share with its interval, in brackets, to follow a number."""
        if self.low is None or self.high is None:
            return f" ({percent(self.share)}; too few independent steps for an interval)"
        if percent(self.low) == percent(self.high):
            return f" ({percent(self.share)})"
        bounds = f"{percent(self.low)} to {percent(self.high)}"
        return f" ({percent(self.share)}, 95 % interval {bounds})"

    def evidence(self) -> dict[str, float | int | str | None]:
        """Give the numbers behind the share."""
        return {
            "share": self.share,
            "share_low": self.low,
            "share_high": self.high,
            "cause_ms": self.cause_ms,
            "step_time_ms": self.step_ms,
        }


def weigh(window: StepWindow, cause_ns: Floats, warning: float) -> Weight | None:
    """Weigh a cause, given as ranks by steady steps, against the step; None if not measured."""
    row = representative(rank_means(cause_ns, len(window.ranks)), window.ranks)
    if row is None:
        return None
    step = window.host["step_time"][row, window.warmup_steps :]
    there = ~np.isnan(cause_ns[row])
    cause, step = cause_ns[row][there], step[there]
    if not step.sum() > 0.0:
        return None
    replicates = bootstrap_ratios(cause, step)
    known = effective_count(cause)
    enough = limit("effective_steps_for_interval")
    bounds = interval(replicates) if known >= enough else None
    low, high = bounds if bounds is not None else (None, None)
    return Weight(
        row=row,
        share=float(cause.sum() / step.sum()),
        low=low,
        high=high,
        confidence=chance_at_least(replicates, warning) * (0.5 + 0.5 * min(1.0, known / enough)),
        cause_ms=float(cause.mean()) / NS_PER_MS,
        step_ms=float(step.mean()) / NS_PER_MS,
    )


def grade(weight: Weight, cause: str, confidence: float, cost_s: float) -> Severity | None:
    """Grade a share of the step against the limits of `cause`.

    Returns:
        None under the warning limit, or where little is lost and even that is unsure; "info" where
        either alone holds, so that nobody is blamed for it.
    """
    if weight.share < limit(f"{cause}_share_warning"):
        return None
    small = is_small(weight, cost_s)
    unsure = confidence < limit("confidence_to_name")
    if small or unsure:
        return None if small and unsure else "info"
    return "critical" if weight.share >= limit(f"{cause}_share_critical") else "warning"


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
    """Give what `accounts` took inside the steps of the whole run, in seconds, and on what basis.

    Exact from the totals where these hold all the accounts that occurred; else the window's mean
    times the number of steps.
    """
    totals = context.rank.totals
    occurred = [name for name in accounts if name in totals.account_ns]
    if occurred and all(name in totals.inside_ns for name in occurred):
        return sum(totals.inside_ns[name] for name in occurred) / NS_PER_S, "run"
    return max(0.0, mean_ms / 1e3 * totals.steps), "window"
