"""What the rules about ranks say alike."""

from collections.abc import Sequence

from traintrace_analysis.context import Context
from traintrace_analysis.findings import CostBasis
from traintrace_analysis.ranks import Comparison, OwnWork
from traintrace_analysis.replay import CriticalPath
from traintrace_analysis.step_window import Floats
from traintrace_analysis.wording import listed

_SHOWN = 8


def ranks_text(ranks: Sequence[int], node: int | None = None) -> str:
    """Write "rank 3", "ranks 2 and 5", "all ranks of node 1 (8 to 15)"."""
    if node is not None:
        return f"all ranks of node {node} ({_numbers(ranks)})"
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_numbers(ranks)}"


def _numbers(ranks: Sequence[int]) -> str:
    ordered = sorted(ranks)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    if len(ordered) > _SHOWN:
        shown = ", ".join(str(rank) for rank in ordered[:_SHOWN])
        return f"{shown} and {len(ordered) - _SHOWN} more"
    return listed([str(rank) for rank in ordered])


def needs_peers(context: Context) -> str:
    """Say why ranks cannot be compared; "" if they can."""
    if len(context.window.expected_ranks) < 2:
        return "differences between ranks (one rank trains)"
    if context.comparison is None:
        return "differences between ranks (fewer than two ranks measured the same phases)"
    return ""


def comparison_of(context: Context) -> Comparison:
    """Give the comparison of a run that has one.

    Raises:
        ValueError: The run has none; `needs_peers` tells.
    """
    if context.comparison is None:
        raise ValueError("this run's ranks are not compared")
    return context.comparison


def whole_run(context: Context, per_step_ns: float) -> tuple[float, CostBasis]:
    """Give seconds over the run's steady steps: exact if the window holds all of them, else scaled."""
    window = context.window
    steps = context.rank.totals.steps - window.warmup_steps
    basis: CostBasis = "run" if steps == window.steady_steps else "window"
    return max(0.0, per_step_ns / 1e9 * max(0, steps)), basis


def path_of(work: OwnWork, own: Floats) -> CriticalPath:
    """Give the critical path of rounds: what the slowest rank's work does not fill is shared."""
    return CriticalPath(own, (work.row - own.max(axis=0)).clip(min=0.0))
