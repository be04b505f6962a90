"""A host that runs ahead of its device, and what says when the host launched what."""

from pathlib import Path

import pytest

from tests.labs.kineto import GEMM, NCCL, KinetoFile
from traintrace_analysis.traces import analyse_traces, compare_traces
from traintrace_analysis.traces.summary import TraceTime


def only(file: KinetoFile, folder: Path) -> TraceTime:
    found = analyse_traces([file.read(folder)])
    assert found is not None
    return found.traces[0]


def ahead(*kernel_us: float) -> KinetoFile:
    """Steps that the host launches in 10 us each, while the device takes as long as given, one after the other."""
    file, free = KinetoFile(0), 5.0
    file.steps(*(10.0 * step for step in range(len(kernel_us) + 1)), name="traintrace.step")
    for step, us in enumerate(kernel_us):
        file.kernel(free, free + 0.6 * us, launched=10.0 * step + 4)
        file.kernel(free + 0.6 * us, free + us, NCCL, stream=20, launched=10.0 * step + 5)
        free += us
    return file


def test_the_work_of_steps_counts_although_the_host_ended_them_long_before(tmp_path: Path) -> None:
    """Three steps of 100 us on the device; on the host all of them are over after 30 us."""
    (one,) = only(ahead(100, 100, 100), tmp_path).devices
    assert (one.span_ns, one.busy_ns, one.idle_ns) == (305_000, 300_000, 5_000)
    assert (one.compute_ns, one.exposed_ns) == (180_000, 120_000)
    assert one.exposed_by_step.tolist() == [40_000, 40_000, 40_000]


def test_kernels_are_counted_where_their_device_did_the_steps(tmp_path: Path) -> None:
    told = only(ahead(100, 100, 100), tmp_path)
    assert {use.name: (use.count, use.total_ns) for use in told.kernels} == {
        GEMM: (3, 180_000),
        NCCL: (3, 120_000),
    }


def test_a_step_is_compared_by_what_it_takes_on_the_device(tmp_path: Path) -> None:
    a, b = ahead(100, 100, 100).read(tmp_path), ahead(200, 200).read(tmp_path)
    times = {one.name: one for one in compare_traces([a], [b]).times}
    assert times["span"].a_ms == pytest.approx(0.305 / 3)
    assert times["span"].b_ms == pytest.approx(0.405 / 2)
    assert times["compute"].a_ms == pytest.approx(0.06)
    assert times["compute"].percent == pytest.approx(100.0)


def test_where_launches_are_not_known_the_hosts_steps_stand(tmp_path: Path) -> None:
    file = KinetoFile(0)
    file.steps(0, 10, name="traintrace.step")
    file.kernel(5, 100)
    (one,) = only(file, tmp_path).devices
    assert (one.span_ns, one.busy_ns, one.host_bound_ns) == (10_000, 5_000, None)


def test_a_copy_for_a_later_step_makes_no_step_longer(tmp_path: Path) -> None:
    file = KinetoFile(0)
    file.steps(0, 10, name="traintrace.step")
    file.kernel(5, 10, launched=1)
    file.kernel(5, 90, "Memcpy HtoD (Pinned -> Device)", cat="gpu_memcpy", stream=9, launched=2)
    (one,) = only(file, tmp_path).devices
    assert (one.span_ns, one.copy_ns) == (10_000, 5_000)


@pytest.mark.parametrize("correlation", [2**31 + 5, 2**32 - 1, 2**40])
def test_correlations_of_any_size_join_a_kernel_with_its_launch(
    correlation: int, tmp_path: Path
) -> None:
    file = KinetoFile(0)
    file.call("hipLaunchKernel", 100, 160, correlation)
    file.kernel(0, 100, launched=0)
    file.kernel(200, 300, correlation=correlation)
    (one,) = only(file, tmp_path).devices
    assert (one.host_bound_ns, one.waiting_ns) == (60_000, 40_000)


def test_a_correlation_of_zero_joins_nothing(tmp_path: Path) -> None:
    file = KinetoFile(0)
    file.call("cudaLaunchKernel", 0, 5, 0)
    file.kernel(0, 100, correlation=0)
    file.kernel(200, 300, correlation=0)
    (one,) = only(file, tmp_path).devices
    assert (one.idle_ns, one.waiting_ns) == (100_000, None)


@pytest.mark.parametrize(
    "name", ["hipMemcpyWithStream", "urEventWait", "hipStreamSynchronize", "zeEventHostSynchronize"]
)
def test_the_host_waits_in_the_calls_of_other_makers_too(name: str, tmp_path: Path) -> None:
    file = KinetoFile(0)
    file.kernel(10, 100, launched=10)
    file.call(name, 50, 130)
    file.kernel(200, 300, launched=200)
    (one,) = only(file, tmp_path).devices
    assert one.waiting_ns == 30_000
    nobody = KinetoFile(0)
    nobody.kernel(10, 100, launched=10)
    nobody.call("cudaStreamWaitEvent", 50, 130)
    nobody.kernel(200, 300, launched=200)
    assert only(nobody, tmp_path).devices[0].waiting_ns == 0


def test_of_two_calls_with_one_correlation_the_earlier_one_launched(tmp_path: Path) -> None:
    """A driver's call inside a runtime's, wherever they stand in the file."""
    file = KinetoFile(0)
    file.kernel(0, 100, launched=0)
    file.call("cuLaunchKernelEx", 150, 155, 77)
    file.call("cudaLaunchKernelExC", 120, 160, 77)
    file.kernel(200, 300, correlation=77)
    (one,) = only(file, tmp_path).devices
    assert (one.host_bound_ns, one.waiting_ns) == (60_000, 40_000)
