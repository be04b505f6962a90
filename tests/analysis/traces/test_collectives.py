"""Waiting for late ranks told apart from moving data."""

from pathlib import Path

import pytest

from tests.labs.kineto import GEMM, NCCL, KinetoFile, write_all
from traintrace_analysis.traces import TraceAnalysis, analyse_traces


def analysed(folder: Path, *files: KinetoFile) -> TraceAnalysis:
    found = analyse_traces(write_all(folder, files))
    assert found is not None
    return found


def ranks(late_by: float, *, clock: float = 0.0, calls: int = 4) -> tuple[KinetoFile, KinetoFile]:
    """Two ranks that all-reduce for 100 us each time; rank 1 comes later and has another clock."""
    files = KinetoFile(0), KinetoFile(1)
    for number in range(calls):
        start = 1_000.0 * number
        files[0].kernel(start, start + 500 - late_by)
        files[0].kernel(start + 500 - late_by, start + 600, NCCL, stream=20)
        files[1].kernel(start + clock, start + 500 + clock, GEMM)
        files[1].kernel(start + 500 + clock, start + 600 + clock, NCCL, stream=20)
    return files


@pytest.mark.parametrize("clock", [0.0, 7_654.321])
def test_a_rank_waits_until_the_last_one_comes_whatever_their_clocks(
    clock: float, tmp_path: Path
) -> None:
    found = analysed(tmp_path, *ranks(200.0, clock=clock))
    first, second = found.traces
    assert first.devices[0].exposed_ns == 4 * 300_000
    assert first.late_wait_ns == (4 * 200_000,)
    assert second.late_wait_ns == (0,)
    assert found.late_share == {0: 0.0, 1: 1.0}
    assert found.waits is not None
    assert found.waits.clock_offset_ns == (0, -round(clock * 1000))
    assert (found.waits.matched, found.waits.unmatched) == (4, 0)


def test_waiting_that_compute_hides_is_no_exposed_waiting(tmp_path: Path) -> None:
    files = ranks(200.0, calls=1)
    files[0].kernel(300, 450, stream=8)
    found = analysed(tmp_path, *files)
    assert found.traces[0].devices[0].exposed_ns == 150_000
    assert found.traces[0].late_wait_ns == (50_000,)


def test_different_numbers_of_calls_are_not_matched(tmp_path: Path) -> None:
    files = ranks(200.0)
    files[1].kernel(9_000, 9_100, NCCL)
    found = analysed(tmp_path, *files)
    assert found.waits is None
    assert found.traces[0].late_wait_ns is None


def test_collectives_are_matched_in_their_process_group(tmp_path: Path) -> None:
    """Ranks 0 and 1 are one group, 2 and 3 another that does not wait for them."""
    files = [KinetoFile(rank, 4) for rank in range(4)]
    for rank, (start, end) in enumerate([(0, 100), (60, 100), (0, 30), (10, 30)]):
        group = "[0, 1]" if rank < 2 else "[2, 3]"
        files[rank].kernel(start, end, NCCL, group=group)
    found = analysed(tmp_path, *files)
    assert [trace.late_wait_ns for trace in found.traces] == [(60_000,), (0,), (10_000,), (0,)]


def test_sends_and_broadcasts_are_no_joint_collectives(tmp_path: Path) -> None:
    files = KinetoFile(0), KinetoFile(1)
    for file in files:
        file.kernel(0, 100, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)")
        file.kernel(200, 300, "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    assert analysed(tmp_path, *files).waits is None


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    files = KinetoFile(3), KinetoFile(3)
    for file in files:
        file.kernel(0, 10)
    with pytest.raises(ValueError, match="both of rank 3"):
        analyse_traces(write_all(tmp_path, files))


def test_waiting_on_one_device_is_none_of_another(tmp_path: Path) -> None:
    files = KinetoFile(0), KinetoFile(1)
    for file, (first, second) in zip(files, ((0, 60), (40, 30)), strict=True):
        file.kernel(first, 100, NCCL, device=0)
        file.kernel(second, 100, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", device=1)
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert [one.late_wait_ns for one in found.traces] == [(40_000, 0), (0, 30_000)]
