"""The summary's section on communication."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from traintrace_analysis import Analysis
    from traintrace_analysis.traces.device_time import DeviceTime
    from traintrace_analysis.traces.lens import Communication, Pipeline
    from traintrace_analysis.traces.summary import TraceAnalysis, TraceTime

_TRACES: Final = 16  # a job may have a thousand
_KERNELS: Final = 20
_STEPS: Final = 100
_LABELS: Final = 2


def section(analysis: "Analysis") -> dict[str, Any] | None:
    """Give the JSON section; None where one rank trains alone and no trace was read."""
    found: Communication | None = analysis.communication
    if found is None:
        return None
    traces = found.traces
    return {
        "waiting_ms_by_rank": {str(rank): ms for rank, ms in found.waiting_ms.items()},
        "shared_wait_ms": found.shared_ms,
        "traces": [] if traces is None else [_trace(one) for one in traces.traces[:_TRACES]],
        "traces_read": 0 if traces is None else len(traces.traces),
        "late_share_by_rank": (
            {}
            if traces is None
            else {str(rank): share for rank, share in traces.late_share.items()}
        ),
        "collectives": None if traces is None else _collectives(traces),
        "pipeline": None if found.pipeline is None else _pipeline(found.pipeline),
        "notes": [] if traces is None else _notes(traces),
    }


def _trace(trace: "TraceTime") -> dict[str, Any]:
    numbers = trace.steps.numbers
    return {
        "label": trace.label,
        "rank": trace.rank,
        "host_only": trace.host_only,
        "steps": {
            "count": len(numbers),
            "first": numbers[0] if numbers else None,
            "last": numbers[-1] if numbers else None,
            "of_run": trace.steps.ours,
        },
        "devices": [
            _device(one, trace, None if trace.late_wait_ns is None else trace.late_wait_ns[number])
            for number, one in enumerate(trace.devices)
        ],
        "kernels": [
            {"name": use.name, "sort": use.sort, "count": use.count, "total_ms": use.total_ns / 1e6}
            for use in trace.kernels[:_KERNELS]
        ],
        "damage": trace.damage,
        "skipped_events": sum(trace.skipped.values()),
    }


def _device(one: "DeviceTime", trace: "TraceTime", late_ns: int | None) -> dict[str, Any]:
    """Give the sums over the measured span in ms; `exposed_ms_by_step` step by step."""
    by_step = one.exposed_by_step[:_STEPS]
    return {
        "device": one.device,
        "span_ms": one.span_ns / 1e6,
        "busy_ms": one.busy_ns / 1e6,
        "compute_ms": one.compute_ns / 1e6,
        "communication_ms": one.communication_ns / 1e6,
        "overlapped_ms": one.overlapped_ns / 1e6,
        "exposed_ms": one.exposed_ns / 1e6,
        "late_wait_ms": None if late_ns is None else late_ns / 1e6,
        "copy_ms": one.copy_ns / 1e6,
        "idle_ms": one.idle_ns / 1e6,
        "host_bound_ms": None if one.host_bound_ns is None else one.host_bound_ns / 1e6,
        "waiting_ms": None if one.waiting_ns is None else one.waiting_ns / 1e6,
        "streams_ms": {str(stream): ns / 1e6 for stream, ns in one.streams.items()},
        "exposed_ms_by_step": [int(ns) / 1e6 for ns in by_step],
    }


def _collectives(traces: "TraceAnalysis") -> dict[str, Any] | None:
    waits = traces.waits
    if waits is None:
        return None
    return {
        "matched": waits.matched,
        "unmatched": waits.unmatched,
        "clock_offset_ms": [ns / 1e6 for ns in waits.clock_offset_ns[:_TRACES]],
    }


def _notes(traces: "TraceAnalysis") -> list[str]:
    """Give what to know of the traces, each note once with the traces that it is about."""
    about: dict[str, list[str]] = {}
    for one in traces.traces:
        for note in one.notes:
            about.setdefault(note, []).append(one.label)
    return [f"{_few(labels)}: {note}." for note, labels in about.items()][:_TRACES]


def _few(labels: list[str]) -> str:
    more = len(labels) - _LABELS
    return ", ".join(labels[:_LABELS]) + (f" and {more} more" if more > 0 else "")


def _pipeline(pipeline: "Pipeline") -> dict[str, Any]:
    bubble, shape = pipeline.bubble, pipeline.bubble.shape
    return {
        "source": pipeline.source,
        "ranks": None if shape is None else shape.ranks,
        "micro_batches": None if shape is None else shape.micro_batches,
        "stages_per_rank": None if shape is None else shape.stages_per_rank,
        "bubble_share": bubble.achieved,
        "minimum_share": bubble.minimum,
        "uneven_share": bubble.uneven,
        "span_ms": bubble.span_ms,
        "busy_ms_by_rank": {str(rank): ms for rank, ms in bubble.busy_ms.items()},
        "unknown": bubble.unknown or None,
    }
