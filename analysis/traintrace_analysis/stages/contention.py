"""Whether workers hold each other up where no queue is: at the cores, or at Python's interpreter."""

from collections.abc import Sequence

from traintrace.readings import ProcessReading, SystemReading
from traintrace_analysis.reading_columns import column, largest, mean, within
from traintrace_analysis.stages.model import Contention, StageLoad
from traintrace_analysis.thresholds import limit


def find_contention(
    stages: Sequence[StageLoad],
    process: Sequence[ProcessReading],
    system: Sequence[SystemReading],
    span_ns: tuple[int, int],
) -> Contention | str | None:
    """Give what workers compete for; None if nothing, a reason if that is not known.

    Sleeping and waiting for an accelerator count as work of a worker and use no core. So many busy workers
    tell nothing alone; it takes the cores that were really used.

    Args:
        stages: The stages of the pipeline.
        process: Readings of the process that they run in.
        system: Readings of its node, if this rank took them.
        span_ns: Moments between which the pipeline ran.
    """
    readings = within(process, span_ns)
    used, children = (mean(column(readings, name)) for name in ("cpu_cores", "workers_cpu_cores"))
    if used is None:
        return "the cores in use were not read while the pipeline ran"
    allowed = largest(column(readings, "allowed_cores"))
    total = used + (children or 0.0)
    busy = sum(one.workers * one.busy_share for one in stages)
    threads = sum(one.workers * one.busy_share for one in stages if one.kinds != ("process",))
    full = limit("stage_cores_in_use")
    if allowed is not None and busy > allowed and total >= full * allowed:
        return Contention("cores", busy, total, allowed)
    node = within(system, span_ns)
    node_used, count = mean(column(node, "cpu_cores")), largest(column(node, "cpu_count"))
    if node_used is not None and count is not None and node_used >= full * count:
        return Contention("node", busy, node_used, count)
    low, high = limit("stage_interpreter_low"), limit("stage_interpreter_high")
    if threads >= limit("stage_threads_busy") and low <= used <= high:
        return Contention("interpreter", threads, used, allowed)
    return None
