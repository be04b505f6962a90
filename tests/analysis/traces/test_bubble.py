"""The bubble of pipelines: schedules played out, and what stops the answer."""

from pathlib import Path

import numpy as np
import pytest

from tests.labs.kineto import KinetoFile, write_all
from traintrace_analysis.traces import analyse_traces
from traintrace_analysis.traces.bubble import Bubble, Shape, bubble_of_intervals
from traintrace_analysis.traces.intervals import Intervals

Passes = dict[int, list[tuple[int, int]]]


def gpipe(p: int, m: int, ns: int = 100) -> Passes:
    """All forward passes, then all backward ones, which take twice as long."""
    passes: Passes = {rank: [] for rank in range(p)}
    for rank in range(p):
        passes[rank] += [((rank + k) * ns, (rank + k + 1) * ns) for k in range(m)]
    half = (p + m - 1) * ns
    for rank in range(p):
        back = p - 1 - rank
        passes[rank] += [
            (half + (back + k) * 2 * ns, half + (back + k + 1) * 2 * ns) for k in range(m)
        ]
    return passes


def interleaved(p: int, m: int, v: int, ns: int = 100) -> Passes:
    """Rank r begins r passes late and then works without a gap, as interleaving lets it."""
    return {
        rank: [((rank + k) * ns, (rank + k + 1) * ns) for k in range(v * m)] for rank in range(p)
    }


def bubble(passes: Passes, shape: Shape | None) -> Bubble:
    found = bubble_of_intervals(
        {
            rank: Intervals.union(np.array([s for s, _ in mine]), np.array([e for _, e in mine]))
            for rank, mine in passes.items()
        },
        shape,
    )
    assert found is not None
    return found


@pytest.mark.parametrize(("p", "m"), [(2, 1), (2, 4), (4, 8), (8, 3)])
def test_gpipe_has_its_least_bubble_and_no_excess(p: int, m: int) -> None:
    found = bubble(gpipe(p, m), Shape(p, m))
    assert found.achieved == pytest.approx((p - 1) / (m + p - 1))
    assert found.excess == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("p", "m", "v"), [(4, 8, 2), (2, 4, 3)])
def test_interleaving_has_a_smaller_least_bubble(p: int, m: int, v: int) -> None:
    found = bubble(interleaved(p, m, v), Shape(p, m, v))
    assert found.achieved == pytest.approx((p - 1) / (v * m + p - 1))
    assert found.minimum == pytest.approx(found.achieved)
    assert Shape(p, m, v).minimum < Shape(p, m).minimum


def test_an_interval_that_is_there_twice_hides_no_bubble() -> None:
    """Two stages that take turns are idle half of the time, however often their intervals are written."""
    twice: Passes = {0: [(0, 100), (0, 100), (20, 80)], 1: [(100, 200)]}
    assert bubble(twice, Shape(2, 1)).achieved == pytest.approx(0.5)


def test_what_lies_beyond_the_least_is_the_excess() -> None:
    passes = gpipe(2, 4)
    passes[1] = [(start + 300, end + 300) for start, end in passes[1]]
    found = bubble(passes, Shape(2, 4))
    assert found.achieved == pytest.approx(0.25)
    assert found.excess == pytest.approx(0.05)


def actions(rank: int, p: int, m: int) -> KinetoFile:
    """One rank of a GPipe schedule as torch.distributed.pipelining marks it, in one step."""
    file = KinetoFile(rank, p)
    file.steps(0, 10_000, first=3, name="traintrace.step")
    for number, (start, end) in enumerate(gpipe(p, m)[rank]):
        word, batch = ("F", number) if number < m else ("B", number - m)
        file.event("user_annotation", f"PP:{rank}{word}{batch}", start, end)
    return file


def test_the_passes_of_torchs_pipelining_are_read_from_traces(tmp_path: Path) -> None:
    found = analyse_traces(write_all(tmp_path, [actions(rank, 3, 4) for rank in range(3)]))
    assert found is not None
    assert found.bubble is not None
    assert found.bubble.shape == Shape(3, 4)
    assert found.bubble.achieved == pytest.approx(2 / 6)
    assert found.bubble.excess == pytest.approx(0.0, abs=1e-9)


def test_a_missing_rank_leaves_the_least_unknown(tmp_path: Path) -> None:
    found = analyse_traces(write_all(tmp_path, [actions(rank, 3, 4) for rank in (0, 2)]))
    assert found is not None
    assert found.bubble is not None
    assert found.bubble.minimum is None
    assert found.bubble.excess == 0.0
    assert "missing" in found.bubble.unknown


def test_on_devices_the_kernels_that_passes_launch_are_the_work(tmp_path: Path) -> None:
    files = []
    for rank in range(2):
        file = KinetoFile(rank)
        file.event("user_annotation", f"PP:{rank}F0", 0, 10)
        file.kernel(100.0 + 100 * rank, 200.0 + 100 * rank, launched=5)
        file.kernel(5_000, 9_000, launched=4_000)  # the optimizer's, after the pipeline
        files.append(file)
    found = analyse_traces(write_all(tmp_path, files))
    assert found is not None
    assert found.bubble is not None
    assert found.bubble.achieved == pytest.approx(0.5)
