"""Whole traces against a second reckoning: sets of single nanoseconds, from the events as they stand in the file."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.labs.kineto import NCCL
from traintrace_analysis.traces import analyse_traces
from traintrace_analysis.traces.device_time import DeviceTime
from traintrace_analysis.traces.kernel_table import kernel_table
from traintrace_reporting.traces.kineto import read_trace

SIZE = 60
Event = dict[str, Any]
NAMES = ("sgemm", "triton_broadcast", NCCL, "ncclDevKernel_AllGather_RING_LL")
ACTIVITIES = st.tuples(
    st.sampled_from(("kernel", "kernel", "gpu_memcpy", "gpu_memset")),
    st.sampled_from(NAMES),
    st.integers(0, SIZE),
    st.integers(0, 15),
    st.integers(0, 1),  # device
    st.integers(7, 9),  # stream
    st.integers(0, 12),  # correlation: few, so that several share one, as in a graph; 0 is none
)
CALLS = st.tuples(
    st.sampled_from(("cudaLaunchKernel", "cudaGraphLaunch", "cudaStreamSynchronize", "cudaMemcpy")),
    st.integers(0, SIZE),
    st.integers(0, 10),
)
BORDERS = st.lists(st.integers(0, SIZE), max_size=4, unique=True).map(sorted)


def written(ns: int, shape: int) -> object:
    """Give a time as some profiler writes it: text, a number, or whole microseconds where it is one."""
    exact = f"{ns // 1000}.{ns % 1000:03d}"
    return exact if shape == 0 else float(exact) if shape == 1 or ns % 1000 else ns // 1000


def moments(events: Iterable[Event]) -> set[int]:
    return {moment for one in events for moment in range(one["start"], one["end"])}


@st.composite
def traces(draw: st.DrawFn) -> list[Event]:
    """Give events of a trace, with their times in whole ns beside them."""
    found: list[Event] = []

    def add(cat: str, name: str, start: int, length: int, **more: Any) -> None:
        found.append(
            {"cat": cat, "name": name, "start": start, "end": start + length, "args": more}
        )

    for correlation, (name, start, length) in enumerate(draw(st.lists(CALLS, max_size=12)), 1):
        add("cuda_runtime", name, start, length, correlation=correlation)
    for cat, name, start, length, device, stream, correlation in draw(
        st.lists(ACTIVITIES, min_size=1, max_size=14)
    ):
        add(cat, name, start, length, device=device, stream=stream, correlation=correlation)
    borders = draw(BORDERS)
    for number, (start, end) in enumerate(itertools.pairwise(borders), 4):
        add("user_annotation", f"traintrace.step#{number}", start, end - start)
        add("user_annotation", f"ProfilerStep#{number}", 0, SIZE)  # ours go first
    return found


class Reckoned:
    """One device, nanosecond by nanosecond."""

    def __init__(self, events: list[Event], device: int) -> None:
        calls: dict[int, Event] = {}
        for one in events:
            if one["cat"] == "cuda_runtime":
                calls[one["args"]["correlation"]] = one
        everything = [one for one in events if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        self.here = [one for one in everything if one["args"]["device"] == device]
        launches = [(calls.get(one["args"]["correlation"]), one) for one in self.here]
        known = [(call, one) for call, one in launches if call is not None]
        self.tells = bool(known) and len(known) >= 0.95 * len(self.here)

        def border(host: int) -> int:
            done = [
                one["end"]
                for call, one in known
                if one["cat"] == "kernel" and call["start"] < host and self.tells
            ]
            return max([host, *done])

        marks = [one for one in events if one["name"].startswith("traintrace.step")]
        self.steps = [(border(one["start"]), border(one["end"])) for one in marks]
        if self.steps:
            first, last = self.steps[0][0], max(end for _, end in self.steps)
        else:
            first, last = min(e["start"] for e in everything), max(e["end"] for e in everything)
        self.first, self.last, self.span = first, last, set(range(first, last))
        kernels = [one for one in self.here if one["cat"] == "kernel"]
        self.communication = moments(e for e in kernels if "nccl" in e["name"]) & self.span
        self.compute = moments(e for e in kernels if "nccl" not in e["name"]) & self.span
        self.copies = moments(e for e in self.here if e["cat"] != "kernel") & self.span
        self.busy = self.communication | self.compute | self.copies
        self.exposed = self.communication - self.compute
        self.idle = self.span - self.busy
        queued = {
            moment for call, one in known for moment in range(call["end"], one["start"])
        } | moments(
            e for e in calls.values() if e["name"] in ("cudaStreamSynchronize", "cudaMemcpy")
        )
        self.waiting = self.idle & queued

    def agrees_with(self, one: DeviceTime) -> None:
        assert one.span_ns == len(self.span)
        assert one.busy_ns == len(self.busy)
        assert one.compute_ns == len(self.compute)
        assert one.communication_ns == len(self.communication)
        assert one.exposed_ns == len(self.exposed)
        assert one.overlapped_ns == len(self.communication & self.compute)
        assert one.copy_ns == len(self.copies)
        assert one.idle_ns == len(self.idle)
        assert one.waiting_ns == (len(self.waiting) if self.tells else None)
        assert one.host_bound_ns == (len(self.idle - self.waiting) if self.tells else None)
        assert one.exposed_by_step.tolist() == [
            len(self.exposed & set(range(start, end))) for start, end in self.steps
        ]
        for stream, ns in one.streams.items():
            mine = [e for e in self.here if e["args"]["stream"] == stream]
            assert ns == len(moments(mine) & self.span)

    def table(self) -> Counter[tuple[str, str]]:
        """Give the summed lengths and the numbers of events by name."""
        sums: Counter[tuple[str, str]] = Counter()
        for one in self.here:
            if one["start"] < self.last and (one["end"] > self.first or one["start"] == self.first):
                sums[one["name"], "ns"] += len(moments([one]) & self.span)
                sums[one["name"], "count"] += 1
        return sums


def unique(events: list[Event]) -> list[Event]:
    """Leave out what stands there twice, of devices and ranges."""
    seen, kept = set(), []
    for one in events:
        key = json.dumps(one, sort_keys=True)
        if one["cat"] == "cuda_runtime" or key not in seen:
            kept.append(one)
        seen.add(key)
    return kept


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(traces(), st.integers(0, 2), st.randoms(use_true_random=False))
def test_every_number_of_a_device_is_that_of_its_single_nanoseconds(
    tmp_path: Path, events: list[Event], shape: int, random: Any
) -> None:
    path = tmp_path / "trace.json"
    shuffled = random.sample(events, len(events))
    content = [
        {
            "ph": "X", "cat": one["cat"], "name": one["name"], "pid": 1, "tid": 1, "args": one["args"],
            "ts": written(one["start"], shape), "dur": written(one["end"] - one["start"], shape),
        }
        for one in shuffled
    ]  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    trace = read_trace(path)
    analysis = analyse_traces([trace])
    assert analysis is not None
    found = analysis.traces[0]
    wanted: Counter[tuple[str, str]] = Counter()
    for one in found.devices:
        assert one.device is not None
        reckoned = Reckoned(unique(events), one.device)
        reckoned.agrees_with(one)
        wanted += reckoned.table()
    table: Counter[tuple[str, str]] = Counter()
    for use in kernel_table(trace, found.steps):
        table[use.name, "ns"] += use.total_ns
        table[use.name, "count"] += use.count
    assert +table == +wanted


HOST: st.SearchStrategy[list[tuple[str, int, int, int]]] = st.lists(
    st.tuples(
        st.sampled_from(("aten::mm", "c10d::allreduce_", "record_param_comms", "gloo:all_reduce")),
        st.integers(0, SIZE),
        st.integers(0, 20),
        st.integers(1, 2),  # thread
    ),
    min_size=1,
    max_size=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOST)
def test_every_number_of_the_host_is_that_of_its_single_nanoseconds(
    tmp_path: Path, rows: list[tuple[str, int, int, int]]
) -> None:
    """A collective's start, and waiting for it, is no work even inside an operator; other threads go on."""
    content, communication, span = [], set(), (SIZE + 20, 0)
    working: dict[int, set[int]] = {1: set(), 2: set()}
    starting: dict[int, set[int]] = {1: set(), 2: set()}
    for name, start, length, thread in rows:
        talks, mine = name.startswith("gloo"), set(range(start, start + length))
        communication |= mine if talks else set()
        side = working if name.startswith("aten") else starting
        side[thread] |= set() if talks else mine
        span = min(span[0], start), max(span[1], start + length)
        content.append(
            {
                "ph": "X", "cat": "user_annotation" if talks else "cpu_op", "name": name, "pid": 1,
                "tid": thread, "ts": written(start, 0), "dur": written(length, 0),
            }
        )  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    analysis = analyse_traces([read_trace(path)])
    assert analysis is not None
    (one,) = analysis.traces[0].devices
    compute = (working[1] - starting[1]) | (working[2] - starting[2])
    assert one.span_ns == span[1] - span[0]
    assert one.compute_ns == len(compute)
    assert one.communication_ns == len(communication)
    assert one.exposed_ns == len(communication - compute)
    assert one.busy_ns == len(communication | compute)
