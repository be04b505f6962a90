"""Waits of ranks against jobs that are played out: who came when is known, clocks and groups are not."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.labs.kineto import GEMM, NCCL, KinetoFile, write_all
from traintrace_analysis.traces import analyse_traces

Stretch = tuple[int, int]


@dataclass
class Played:
    """What the ranks of a job did, in ns of one clock.

    Attributes:
        calls: Groups of ranks with the arrival of each, and the common end.
        compute: By rank.
    """

    size: int
    calls: list[tuple[tuple[int, ...], dict[int, int], int]] = field(default_factory=list)
    compute: list[tuple[int, int, int]] = field(default_factory=list)

    def files(self, clocks: list[int], ranks: list[int]) -> list[KinetoFile]:
        files = [KinetoFile(rank, self.size) for rank in ranks]
        for file, rank in zip(files, ranks, strict=True):

            def at(ns: int, clock: int = clocks[rank]) -> float:
                return (ns + clock) / 1000

            for members, came, end in self.calls:
                if rank in came:
                    group = f"[{', '.join(map(str, members))}]"
                    file.kernel(at(came[rank]), at(end), NCCL, stream=20, group=group)
            for mine, start, end in self.compute:
                if mine == rank:
                    file.kernel(at(start), at(end), GEMM)
            file.kernel(at(0), at(1), "first")
        return files


@st.composite
def jobs(draw: st.DrawFn) -> Played:
    size = draw(st.integers(2, 4))
    group = st.sets(st.integers(0, size - 1), min_size=2).map(lambda one: tuple(sorted(one)))
    groups = draw(st.lists(group, min_size=1, max_size=3, unique=True))
    job, free = Played(size), [1] * size
    for members in draw(st.lists(st.sampled_from(groups), min_size=1, max_size=6)):
        came = {rank: free[rank] + draw(st.integers(0, 20)) for rank in members}
        end = max(came.values()) + draw(st.integers(1, 10))
        for rank in members:
            free[rank] = end
        job.calls.append((members, came, end))
    for rank in range(size):
        for start in draw(st.lists(st.integers(1, 80), max_size=3, unique=True)):
            job.compute.append((rank, start, start + draw(st.integers(1, 20))))
    return job


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(jobs(), st.lists(st.integers(0, 10**9), min_size=4, max_size=4), st.sets(st.integers(0, 3)))
def test_the_waits_of_a_job_that_was_played_out_are_found(
    tmp_path: Path, job: Played, clocks: list[int], missing: set[int]
) -> None:
    ranks = [rank for rank in range(job.size) if rank not in missing] or [0]
    found = analyse_traces(write_all(tmp_path, job.files(clocks, ranks)))
    assert found is not None
    whole = [one for one in job.calls if set(one[0]) <= set(ranks)]
    if not whole:
        assert found.waits is None
        assert all(one.late_wait_ns is None for one in found.traces)
        return
    assert found.waits is not None
    assert found.waits.matched == len(whole)
    caused = dict.fromkeys(ranks, 0)
    for row, rank in enumerate(ranks):
        waited = {
            moment
            for members, came, _ in whole
            if rank in members
            for moment in range(came[rank], max(came.values()))
        }
        talks = {
            moment
            for _, came, end in job.calls
            if rank in came
            for moment in range(came[rank], end)
        }
        works = {m for mine, start, end in job.compute if mine == rank for m in range(start, end)}
        assert found.traces[row].devices[0].exposed_ns == len(talks - works)
        assert found.traces[row].late_wait_ns == (len((waited & talks) - works),)
    for _, came, _ in whole:
        latest = max(came.values())
        # Who of several that came at one moment is called the last makes no difference to the others.
        caused[min(rank for rank in came if came[rank] == latest)] += sum(
            latest - moment for moment in came.values()
        )
    total = sum(caused.values())
    wanted = {rank: ns / total for rank, ns in caused.items()} if total else {}
    assert found.late_share == pytest.approx(wanted)


def test_clocks_are_brought_together_over_ranks_that_share_no_collective(tmp_path: Path) -> None:
    """Two nodes of three ranks: tensor parallel within a node, whose ranks have one clock, data parallel across."""
    job = Played(6)
    for number in range(3):
        start = 1_000 * number
        for node in ((0, 1, 2), (3, 4, 5)):
            job.calls.append((node, dict.fromkeys(node, start + 100), start + 200))
        for across in ((0, 3), (1, 4), (2, 5)):
            job.calls.append(
                (across, {across[0]: start + 300, across[1]: start + 350}, start + 400)
            )
    files = job.files([0, 0, 0, *[5_000_000] * 3], list(range(6)))
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.waits is not None
    assert found.waits.clock_offset_ns == (0, 0, 0, *[-5_000_000] * 3)
    assert [one.late_wait_ns for one in found.traces] == [(150,)] * 3 + [(0,)] * 3


def test_a_rank_whose_trace_is_missing_may_have_come_last(tmp_path: Path) -> None:
    job = Played(3, [((0, 1, 2), {0: 10, 1: 30, 2: 90}, 100)])
    given_two = analyse_traces(write_all(tmp_path, job.files([0, 0, 0], [0, 1])))
    assert given_two is not None
    assert given_two.waits is None
    assert given_two.late_share == {}
    every = analyse_traces(write_all(tmp_path, job.files([0, 0, 0], [0, 1, 2])))
    assert every is not None
    assert every.late_share == {0: 0.0, 1: 0.0, 2: 1.0}


def test_long_lists_of_ranks_are_told_apart_by_the_groups_name(tmp_path: Path) -> None:
    """torch shortens them. Two groups talk at once here, and begin in another order on the second rank."""
    files = KinetoFile(0, 2), KinetoFile(1, 2)
    for file, calls in zip(
        files,
        (((0, 100, "tp"), (10, 60, "dp")), ((80, 100, "tp"), (20, 60, "dp"))),
        strict=True,
    ):
        for start, end, name in calls:
            file.kernel(start, end, NCCL, stream=20)
            details = {"Process Group Ranks": "[0, 1, ...]", "Process Group Name": name}
            file.events[-1]["args"] |= details | {"Group size": 2}
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.waits is not None
    assert (found.waits.matched, found.waits.clock_offset_ns) == (2, (0, 0))
    assert [one.late_wait_ns for one in found.traces] == [(80_000,), (0,)]
    for event in (*files[0].events, *files[1].events):
        event["args"]["Group size"] = 40
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.waits is None


def test_calls_of_the_host_that_are_written_twice_are_one_call(tmp_path: Path) -> None:
    files = KinetoFile(0), KinetoFile(1)
    for rank, file in enumerate(files):
        file.event("cpu_op", "aten::mm", 0, 5)
        for start in (10.0, 200.0):
            file.event("user_annotation", "gloo:all_reduce", start + 30 * rank, start + 100, tid=9)
    files[1].events.append(dict(files[1].events[-1]))
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.waits is not None
    assert (found.waits.matched, found.waits.unmatched) == (2, 0)
    assert [one.late_wait_ns for one in found.traces] == [(60_000,), (0,)]


def stepped(rank: int, steps: range, late_us: float) -> KinetoFile:
    """Steps of 1 ms, each with one all-reduce that ends 900 us into it."""
    file = KinetoFile(rank)
    file.steps(
        *(1_000.0 * step for step in (*steps, steps.stop)),
        first=steps.start,
        name="traintrace.step",
    )
    for step in steps:
        start = 1_000.0 * step
        file.kernel(start, start + 700 + late_us, launched=start)
        file.kernel(start + 700 + late_us, start + 900, NCCL, stream=20, launched=start + 10)
    return file


@pytest.mark.parametrize(("of_a", "of_b"), [(range(3, 6), range(4, 7)), (range(3, 9), range(4, 6))])
def test_calls_are_matched_in_the_steps_that_all_traces_hold(
    of_a: range, of_b: range, tmp_path: Path
) -> None:
    """Matched by their order alone they would be one step apart, and all waiting would hide in the clocks."""
    files = [stepped(0, of_a, 0.0), stepped(1, of_b, 100.0)]
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.waits is not None
    assert found.waits.clock_offset_ns == (0, 0)
    assert (found.waits.matched, found.waits.unmatched) == (2, len(of_a) + len(of_b) - 4)
    assert [one.late_wait_ns for one in found.traces] == [(200_000,), (0,)]


def test_a_call_is_of_the_step_that_launched_it_although_the_device_is_late(tmp_path: Path) -> None:
    """Host steps of 10 us, of which the device does each in 100; rank 1 has the last two of three."""
    files = []
    for rank, steps in ((0, (3, 4, 5)), (1, (4, 5))):
        file = KinetoFile(rank)
        file.steps(*(10.0 * step for step in (*steps, 6)), first=steps[0], name="traintrace.step")
        for step in steps:
            begin = 100.0 * step
            come = begin + 70 + 10 * rank
            file.kernel(begin, come, launched=10.0 * step + 2)
            file.kernel(come, begin + 100, NCCL, stream=20, launched=10.0 * step + 4)
        files.append(file)
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.waits is not None
    assert (found.waits.matched, found.waits.clock_offset_ns) == (2, (0, 0))
    assert [one.late_wait_ns for one in found.traces] == [(20_000,), (0,)]


def test_without_a_group_calls_of_a_job_with_several_groups_are_not_matched(tmp_path: Path) -> None:
    files = KinetoFile(0), KinetoFile(1)
    for file in files:
        file.kernel(0, 100, NCCL)
        file.head["distributedInfo"]["pg_count"] = 3
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.waits is None


def test_a_rank_that_a_trace_does_not_say_is_blamed_for_nothing(tmp_path: Path) -> None:
    files = KinetoFile(1), KinetoFile()
    files[0].kernel(0, 100, NCCL)
    files[1].kernel(50, 100, NCCL)
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.late_share == {}
    assert any("does not say its rank" in note for note in found.traces[1].notes)
    assert [one.late_wait_ns for one in found.traces] == [(50_000,), (0,)]
