"""Where a device's time went, on traces made by hand whose answer is known."""

from pathlib import Path

import pytest

from tests.labs.kineto import GEMM, NCCL, KinetoFile
from traintrace_analysis.traces import Trace, analyse_traces
from traintrace_analysis.traces.device_time import DeviceTime
from traintrace_analysis.traces.summary import TraceTime


def only(trace: Trace) -> TraceTime:
    found = analyse_traces([trace])
    assert found is not None
    return found.traces[0]


def devices(file: KinetoFile, folder: Path) -> tuple[DeviceTime, ...]:
    return only(file.read(folder)).devices


def test_communication_is_split_by_compute_on_other_streams(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 100)
    file.kernel(60, 180, NCCL, stream=20)
    file.kernel(150, 200)
    (one,) = devices(file, tmp_path)
    assert (one.span_ns, one.busy_ns, one.idle_ns) == (200_000, 200_000, 0)
    assert (one.communication_ns, one.overlapped_ns, one.exposed_ns) == (120_000, 70_000, 50_000)
    assert one.streams == {7: 150_000, 20: 120_000}


def test_collectives_at_the_same_time_take_their_time_once(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 100, NCCL, stream=20)
    file.kernel(50, 150, NCCL, stream=21)
    (one,) = devices(file, tmp_path)
    assert (one.communication_ns, one.exposed_ns) == (150_000, 150_000)


def test_compute_on_another_device_hides_no_communication(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 100, NCCL, device=0)
    file.kernel(0, 100, GEMM, device=1)
    first, second = devices(file, tmp_path)
    assert first.exposed_ns == 100_000
    assert second.communication_ns == 0
    assert second.compute_ns == 100_000


def test_a_copy_hides_no_communication(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 100, NCCL)
    file.kernel(0, 100, "Memcpy HtoD (Pinned -> Device)", stream=9, cat="gpu_memcpy")
    file.kernel(10, 20, "Memset (Device)", stream=9, cat="gpu_memset")
    (one,) = devices(file, tmp_path)
    assert one.exposed_ns == 100_000
    assert one.copy_ns == 100_000
    assert one.compute_ns == 0


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_add_broadcast_0",
        "void at::native::reduce_kernel<512, 1>",
        "all_reduce_bias",
    ],
)
def test_a_kernel_with_a_word_of_collectives_in_its_name_computes(
    name: str, tmp_path: Path
) -> None:
    file = KinetoFile()
    file.kernel(0, 10, name)
    (one,) = devices(file, tmp_path)
    assert one.compute_ns == 10_000


@pytest.mark.parametrize(
    "name",
    [
        NCCL,
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "rcclGenericKernel<1>",
        "void vllm::cross_device_reduce_1stage<float, 2>",
        "oneccl_allreduce_large",
        "void deep_ep::intranode::dispatch<8>",
        "void c10d::(anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16>",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>",
    ],
)
def test_kernels_of_communication_libraries_communicate(name: str, tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 10, name)
    (one,) = devices(file, tmp_path)
    assert one.communication_ns == 10_000


def test_named_ranges_around_a_collective_count_no_second_time(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 100, NCCL)
    file.event("gpu_user_annotation", "nccl:all_reduce", 0, 300, pid=0, tid=7)
    file.event("user_annotation", "nccl:all_reduce", 0, 300)
    (one,) = devices(file, tmp_path)
    assert one.communication_ns == 100_000
    assert one.span_ns == 100_000


def test_an_event_that_is_written_twice_counts_once(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 100)
    file.events.append(dict(file.events[-1]))
    told = only(file.read(tmp_path))
    assert told.kernels[0].count == 1
    assert told.skipped == {"written twice": 1}


def test_a_thousand_kernels_of_a_microsecond_sum_to_a_millisecond(tmp_path: Path) -> None:
    file = KinetoFile()
    file.head.pop("baseTimeNanoseconds")
    for number in range(1_000):
        start = 1_790_857_026_000_000 + 2 * number
        file.events.append(
            {"ph": "X", "cat": "kernel", "name": GEMM, "ts": start, "dur": 1,
             "args": {"device": 0, "stream": 7}}
        )  # fmt: skip
    (one,) = devices(file, tmp_path)
    assert one.compute_ns == 1_000_000


def test_idle_time_is_the_hosts_until_something_is_queued(tmp_path: Path) -> None:
    """Idle 100 to 200: nothing queued up to 160, then a kernel that waits for something else."""
    file = KinetoFile()
    file.kernel(10, 100, launched=10)
    file.kernel(200, 300, launched=160)
    (one,) = devices(file, tmp_path)
    assert (one.idle_ns, one.host_bound_ns, one.waiting_ns) == (100_000, 60_000, 40_000)


def test_idle_time_while_the_host_synchronises_is_waiting(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(10, 100, launched=10)
    file.call("cudaStreamSynchronize", 50, 130)
    file.kernel(200, 300, launched=200)
    (one,) = devices(file, tmp_path)
    assert (one.idle_ns, one.host_bound_ns, one.waiting_ns) == (100_000, 70_000, 30_000)


def test_kernels_of_a_graph_are_queued_by_its_one_launch(tmp_path: Path) -> None:
    file = KinetoFile()
    file.call("cudaGraphLaunch", 0, 10, 77)
    for start in (20, 50, 80):
        file.kernel(start, start + 10, correlation=77)
    (one,) = devices(file, tmp_path)
    assert (one.compute_ns, one.idle_ns) == (30_000, 40_000)
    assert (one.host_bound_ns, one.waiting_ns) == (0, 40_000)


def test_without_launches_idle_time_is_not_split(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 10)
    file.kernel(20, 30)
    told = only(file.read(tmp_path))
    assert told.devices[0].host_bound_ns is None
    assert any("not split" in note for note in told.notes)


def test_times_are_of_the_marked_steps(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 1_000)  # before the first step
    file.steps(1_000, 1_100, 1_300, first=5, name="traintrace.step")
    file.kernel(1_000, 1_050)
    file.kernel(1_050, 1_100, NCCL)
    file.kernel(1_100, 1_120, NCCL)
    told = only(file.read(tmp_path))
    assert told.steps.numbers == (5, 6)
    assert told.steps.ours
    assert told.devices[0].span_ns == 300_000
    assert told.devices[0].exposed_by_step.tolist() == [50_000, 20_000]


def test_a_trace_without_communication_says_so(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 10)
    told = only(file.read(tmp_path))
    assert not told.communicates
    assert any("no communication" in note for note in told.notes)
    assert any("no steps" in note for note in told.notes)


def test_a_trace_of_the_host_alone_says_so_and_calls_no_start_of_a_collective_compute(
    tmp_path: Path,
) -> None:
    file = KinetoFile()
    file.event("cpu_op", "aten::mm", 0, 30)
    file.event("cpu_op", "aten::inner", 5, 10)
    file.event("cpu_op", "c10d::allreduce_", 30, 90)
    file.event("user_annotation", "gloo:all_reduce", 20, 100, tid=101)
    told = only(file.read(tmp_path))
    assert told.host_only
    one = told.devices[0]
    assert (one.compute_ns, one.communication_ns, one.exposed_ns) == (30_000, 80_000, 70_000)
    assert one.host_bound_ns is None
    assert any("host's operators" in note for note in told.notes)
    assert [use.name for use in told.kernels] == ["gloo:all_reduce", "aten::mm"]


def test_steps_in_which_no_device_did_anything_are_doubted(tmp_path: Path) -> None:
    file = KinetoFile()
    file.steps(0, 1_000)
    file.kernel(5_000_000, 5_000_100, launched=2_000)
    assert any("another clock" in note for note in only(file.read(tmp_path)).notes)
