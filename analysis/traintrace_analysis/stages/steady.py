"""From which moment on a pipeline is judged: its first services may load, compile and allocate."""

from collections.abc import Sequence

from traintrace.stagefacts import Service, StageWorker
from traintrace_analysis.stages.flow import Flow
from traintrace_analysis.thresholds import limit

_FIRST = 5


def warm_until(flow: Flow) -> int | None:
    """Give the moment at which the last worker was warm; None if all were from the start.

    A worker warms up while one of its first five services takes three times as long as any later one of its
    stage.
    Where that would leave less than half of what the last stage did, nothing is left out.
    """
    ends = [end for name in flow.names for end in _warm_ends(flow.workers[name])]
    if not ends:
        return None
    last = [one.done_ns for worker in flow.workers[flow.last] for one in worker.services]
    kept = sum(done > max(ends) for done in last)
    return max(ends) if 2 * kept >= len(last) else None


def filling_s(flow: Flow) -> float:
    """Give how long the last stage waited for its first item; 0.0 where that is not kept."""
    first = [
        queue.get_ns[0]
        for queue in flow.queues
        if flow.last in queue.consumers and queue.gets == len(queue.get_ns) > 0
    ]
    start = min(worker.start_ns for worker in flow.workers[flow.last])
    return max(0, max(first) - start) / 1e9 if first else 0.0


def since(worker: StageWorker, begin_ns: int | None) -> Sequence[Service]:
    """Give the kept services of a worker that were done after a moment; all without one."""
    if begin_ns is None:
        return worker.services
    return [one for one in worker.services if one.done_ns > begin_ns]


def _warm_ends(workers: Sequence[StageWorker]) -> list[int]:
    """Give when each of a stage's workers had done the last of its services that were slow as a first one is."""
    if any(len(one.services) < one.service_count for one in workers):
        return []  # the first ones are not kept
    later = [one.busy_ns for worker in workers for one in worker.services[_FIRST:]]
    if len(later) < limit("stage_services_minimum"):
        return []
    slow = limit("stage_warmup_ratio") * max(later)
    firsts = ([one for one in w.services[:_FIRST] if one.busy_ns >= slow > 0.0] for w in workers)
    return [slowest[-1].done_ns for slowest in firsts if slowest]
