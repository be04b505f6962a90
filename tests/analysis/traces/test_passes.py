"""The passes of pipelines in traces: what is work in them, and whose they are."""

from pathlib import Path

import pytest

from tests.labs.kineto import KinetoFile, write_all
from traintrace_analysis.traces import analyse_traces
from traintrace_analysis.traces.bubble import Bubble, Shape


def bubble(folder: Path, *files: KinetoFile) -> Bubble:
    found = analyse_traces(write_all(folder, files))
    assert found is not None
    assert found.bubble is not None
    return found.bubble


def gpipe_on_host(rank: int, *, ahead: bool = False) -> KinetoFile:
    """Forward passes of two stages and two micro-batches, 100 us each, as a trace of gloo shows them.

    torch receives inside of a pass: that of rank 1 begins at once and waits 100 us for its first input. What it
    receives `ahead` for the second pass goes on while the first one works.
    """
    file = KinetoFile(rank)
    if rank == 0:
        passes = [(0, 0, 100), (1, 100, 200)]
    else:
        passes = [(0, 0, 200), (1, 200, 300)]
        file.event("cpu_op", "c10d::recv_", 1, 3)
        file.event("user_annotation", "gloo:recv", 3, 100)
        if ahead:
            file.event("user_annotation", "gloo:recv", 4, 202)
            file.event("user_annotation", "gloo:recv", 5, 170)  # that came while an operator ran
    for batch, start, end in passes:
        file.event("user_annotation", f"Forward {batch}", start, end)
        file.event("cpu_op", "aten::linear", end - 50, end)
    return file


@pytest.mark.parametrize("ahead", [False, True])
def test_what_a_pass_waits_for_its_input_is_no_work(ahead: bool, tmp_path: Path) -> None:
    found = bubble(tmp_path, gpipe_on_host(0), gpipe_on_host(1, ahead=ahead))
    waited = 97 + (2 if ahead else 0)
    assert found.busy_ms == pytest.approx({0: 0.2, 1: (300 - waited) / 1000})
    assert found.shape == Shape(2, 2)


def marked(rank: int, *names: str, step: int = 3) -> KinetoFile:
    file = KinetoFile(rank)
    file.steps(0, 1_000, first=step, name="traintrace.step")
    for number, name in enumerate(names):
        file.event("user_annotation", name, 100 * number, 100 * number + 100)
    return file


def test_split_backward_passes_have_another_least_bubble(tmp_path: Path) -> None:
    """What a zero-bubble schedule needs at least is less than (p - 1) / (m + p - 1)."""
    found = bubble(tmp_path, *(marked(r, f"PP:{r}F0", f"PP:{r}I0", f"PP:{r}W0") for r in range(2)))
    assert (found.minimum, found.excess) == (None, 0.0)
    assert "split" in found.unknown


def test_passes_that_run_together_are_work_of_both(tmp_path: Path) -> None:
    files = [marked(r, f"PP:{r}F0", f"PP:({r}F1;{r}B0)OVERLAP_F_B", f"PP:{r}B1") for r in range(2)]
    found = bubble(tmp_path, *files)
    assert found.shape == Shape(2, 2)
    assert found.busy_ms == pytest.approx({0: 0.3, 1: 0.3})


@pytest.mark.parametrize("name", ["PP:1SEND_F0", "PP:0RECV_B1", "PP:0UNSHARD", "Forward", "PP:0F"])
def test_sends_and_other_actions_are_no_passes(name: str, tmp_path: Path) -> None:
    found = analyse_traces([marked(0, name).read(tmp_path)])
    assert found is not None
    assert found.bubble is None


def test_traces_of_different_steps_make_no_pipeline(tmp_path: Path) -> None:
    found = bubble(tmp_path, marked(0, "PP:0F0"), marked(1, "PP:1F0", step=4))
    assert found.minimum is None
    assert "different steps" in found.unknown


@pytest.mark.parametrize("said", [0, 1])
def test_a_trace_without_a_rank_is_not_taken_for_another(said: int, tmp_path: Path) -> None:
    """One says its rank, the other says nothing: they are not the same."""
    nameless = KinetoFile()
    nameless.event("user_annotation", "PP:0F0", 0, 100)
    other = KinetoFile(said)
    other.event("user_annotation", "PP:1F0", 100, 200)
    traces = [nameless.read(tmp_path, "x.json"), other.read(tmp_path, "y.json")]
    found = analyse_traces(traces)
    assert found is not None
    assert found.bubble is not None
    assert found.bubble.busy_ms == pytest.approx({0: 0.1, 1: 0.1})
    assert found.bubble.achieved == pytest.approx(0.5)


def test_the_work_of_a_pipeline_counts_although_the_host_ended_the_step_before(
    tmp_path: Path,
) -> None:
    """Each device works for 100 us, one after the other, and the host's step is over after 10."""
    files = []
    for rank in range(2):
        file = KinetoFile(rank)
        file.steps(0, 10, name="traintrace.step")
        file.event("user_annotation", f"PP:{rank}F0", 0, 8)
        file.kernel(5.0 + 100 * rank, 105.0 + 100 * rank, launched=5)
        files.append(file)
    found = bubble(tmp_path, *files)
    assert found.busy_ms == pytest.approx({0: 0.1, 1: 0.1})
    assert found.achieved == pytest.approx(0.5)
