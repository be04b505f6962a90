"""Whether the runs of a guard had the CPUs to themselves, and what they show apart from that."""

import statistics
from collections.abc import Iterator, Sequence

from traintrace.accounts import STEP_ACCOUNT_NAMES
from traintrace_analysis.comparison.model import ComparedRun
from traintrace_analysis.comparison.own_time import OwnRun, own_time
from traintrace_analysis.thresholds import limit
from traintrace_reporting.comparing import Input
from traintrace_reporting.format import dig, finite


def own_run(one: Input, compared: ComparedRun) -> OwnRun:
    """Give what is asked of a run on a busy machine; a run without steps waited for nothing that is known."""
    means = {
        name: side.mean_ms
        for name, side in compared.metrics.items()
        if side.mean_ms is not None and name in STEP_ACCOUNT_NAMES
    }
    step = compared.metrics.get("step_time")
    step_ms = step.mean_ms if step is not None else None
    waited = dig(one.summary, "process", "run_queue_worst_share", "value")
    return OwnRun(step_ms or 0.0, means, finite(waited) if step_ms else None)


def waiting_for_cpu(runs: Sequence[OwnRun]) -> Iterator[str]:
    """Say how long training waited for a CPU, and what remains without it; nothing if that was short or is not known.

    Args:
        runs: In the order of starts: A B, B A, A B, ...
    """
    known = [run.waited for run in runs if run.waited is not None]
    if not known or max(known) < limit("run_queue_share_warning"):
        return
    yield (
        f"training waited for a CPU {100.0 * statistics.median(known):.0f} % of the time, and up to "
        f"{100.0 * max(known):.0f} % in one run: other programs used it, or too many threads and workers of its own; "
        "a machine at rest shows smaller changes"
    )
    own = own_time(runs)
    if own is not None:
        low, ratio, high = (f"{100.0 * (one - 1.0):+.1f}" for one in (own.low, own.ratio, own.high))
        yield f"without that wait a step of B takes {ratio} % (99 % interval {low} to {high} %): a hint, no decision"
