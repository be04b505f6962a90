"""R09 for the traces of a profiler: what a change did, without looking at two timelines."""

from pathlib import Path

import pytest

from tests.cases.reports.commands import content, named, page
from tests.labs.kineto import NCCL, KinetoFile


def traced(path: Path, forward_ms: float, steps: int) -> Path:
    """Steps of a forward, 10 ms of backward and 5 ms of communication that nothing hides."""
    file, now = KinetoFile(0), 0.0
    borders = [now]
    for _ in range(steps):
        end = now + 1_000 * forward_ms
        file.event("user_annotation", "forward", now, end)
        file.kernel(now, end, "fmha_v2" if forward_ms > 20 else "softmax")
        file.event("user_annotation", "backward", end, end + 10_000)
        file.kernel(end, end + 10_000, "gemm_backward")
        file.kernel(end + 10_000, end + 15_000, NCCL, stream=20)
        now = end + 15_000
        borders.append(now)
    file.steps(*borders)
    return file.write(path)


def test_r09_two_traces_tell_old_new_difference_and_percent_the_largest_first(
    tmp_path: Path,
) -> None:
    """pytorch/kineto#655: two timelines were compared by eye. Traces of different length compare by step."""
    sides = (
        *("--trace-a", traced(tmp_path / "before.json", 20.0, steps=3)),
        *("--trace-b", traced(tmp_path / "after.json", 30.0, steps=5)),
    )
    compared = content("compare", *sides)
    assert (compared["basis"], compared["steps"]) == ("step", {"a": 3, "b": 5})
    first, second = compared["ranges"]
    assert [first["name"], second["name"]] == ["forward", "backward"]
    assert (
        first["a_ms"],
        first["b_ms"],
        first["difference_ms"],
        first["percent"],
    ) == pytest.approx((20.0, 30.0, 10.0, 50.0))
    assert second["difference_ms"] == pytest.approx(0.0)
    changes = {
        one["name"]: (one["change"], one["a_count"], one["b_count"]) for one in compared["kernels"]
    }
    assert changes["fmha_v2"] == ("new", 0, 1)
    assert changes["softmax"] == ("gone", 1, 0)
    assert changes["gemm_backward"] == ("both", 1, 1)
    assert compared["times"][0]["name"] == "span"
    assert compared["times"][0]["difference_ms"] == pytest.approx(10.0)
    assert named(compared["times"], "exposed communication")["a_ms"] == pytest.approx(5.0)
    assert "forward 20.00 30.00 +10.00 +50.0 %" in page("compare", *sides)
