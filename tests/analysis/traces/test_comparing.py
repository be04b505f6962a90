"""Two traces against each other: what is told, in which order, and what is not."""

from pathlib import Path

import pytest

from tests.labs.kineto import NCCL, KinetoFile
from traintrace_analysis.traces import TraceComparison, compare_traces


def compared(folder: Path, a: KinetoFile, b: KinetoFile) -> TraceComparison:
    return compare_traces([a.read(folder, "a.json")], [b.read(folder, "b.json")])


def steps(word: str, *ends: float) -> KinetoFile:
    """Steps as long as the given kernels, whose idle rest is 10 us each."""
    file, now = KinetoFile(0), 0.0
    borders = [now]
    for us in ends:
        file.kernel(now, now + us, launched=now + 1)
        now += us + 10
        borders.append(now)
    file.steps(*borders, name=word)
    return file


def test_every_kind_of_time_has_old_new_difference_and_percent_the_biggest_first(
    tmp_path: Path,
) -> None:
    a, b = steps("traintrace.step", 100, 100), steps("traintrace.step", 150, 150, 150)
    b.kernel(152, 154, NCCL, stream=20, launched=152)
    found = compared(tmp_path, a, b)
    assert [one.name for one in found.times[:2]] == ["span", "compute"]
    apart = [abs(one.difference_ms or 0.0) for one in found.times[1:]]
    assert apart == sorted(apart, reverse=True)
    compute = found.times[1]
    assert (compute.a_ms, compute.b_ms, compute.difference_ms, compute.percent) == pytest.approx(
        (0.1, 0.15, 0.05, 50.0)
    )
    differences = [abs(one.difference_ms) for one in found.kernels]
    assert differences == sorted(differences, reverse=True)


def test_what_a_trace_of_the_host_does_not_tell_is_not_compared(tmp_path: Path) -> None:
    """What Python does between operators is in no event: a host is not idle then."""
    host = KinetoFile(0)
    host.event("cpu_op", "aten::mm", 0, 30)
    host.event("cpu_op", "aten::mm", 90, 100)
    both = compared(tmp_path, host, host)
    assert not {"idle", "copies"} & {one.name for one in both.times}
    mixed = compared(tmp_path, steps("ProfilerStep", 10), host)
    (idle,) = (one for one in mixed.times if one.name == "idle")
    assert (idle.a_ms is None, idle.b_ms, idle.difference_ms, idle.percent) == (
        False, None, None, None,
    )  # fmt: skip


def test_steps_of_the_run_and_of_the_profiler_may_not_be_the_same(tmp_path: Path) -> None:
    ours, theirs = steps("traintrace.step", 10), steps("ProfilerStep", 10)
    assert any("may not be the same" in note for note in compared(tmp_path, ours, theirs).notes)
    assert not any("may not be" in note for note in compared(tmp_path, ours, ours).notes)


def test_a_range_inside_its_like_and_one_written_twice_are_no_further_ones(tmp_path: Path) -> None:
    file = KinetoFile(0)
    file.event("user_annotation", "forward", 0, 100)
    file.event("user_annotation", "forward", 20, 40)
    file.event("user_annotation", "forward", 50, 60, tid=101)
    file.events.append(dict(file.events[0]))
    (one,) = compared(tmp_path, file, file).ranges
    assert one.a_count == 2
    assert one.a_ms == pytest.approx(0.1)
