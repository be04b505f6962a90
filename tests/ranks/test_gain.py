"""The predicted gain is what is really won: each fault is taken out, and the job runs again."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.labs.ranks import ROOT, launch, ranks_of, summary_of

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).with_name("straggler_runs.py")
# Steps of mostly sleeps; the machine is busy, so the closest of these counts.
TRIES = 4
POINTS = 0.02
BUSY = 0.03  # as a share of the time; that of the ranks is not seen here
COMMON = "work-ms=30:delay-ms=20:steps=80"


def seconds(folder: Path, skip: int) -> float:
    """Give how long rank 0's loop took after so many steps; all ranks take as long."""
    return sum(filter(None, ranks_of(folder)[0].columns["duration_ns"][skip:])) / 1e9


def error_of(slow: Path, mended: Path, kind: str) -> float | None:
    """Give by how many parts of the time predicted and real saving differ; None if nothing was predicted."""
    summary = summary_of(slow)
    gains = [one["gain"] for one in summary["findings"] if one["kind"] == kind]
    if not gains:
        return None
    skip = max(1, summary["step_time"]["window"]["warmup_steps"])
    saved = 1 - seconds(mended, skip) / seconds(slow, skip)
    return abs(1 - 1 / gains[0]["speedup"] - saved)


def check_closest(attempt: Callable[[int], float | None]) -> None:
    errors: list[float | None] = []
    for number in range(TRIES):
        waited_ns, began_ns = waited_for_a_core_ns(), time.monotonic_ns()
        error = attempt(number)
        if error is not None and error <= POINTS:
            return
        # What a step computes takes longer in the one run than in the other if others want the cores.
        share = (waited_for_a_core_ns() - waited_ns) / (time.monotonic_ns() - began_ns)
        if share < BUSY:
            errors.append(error)
    if not errors:
        pytest.skip("other processes wanted the cores all the time")
    pytest.fail(f"predicted and real saving differ by {errors} of the time")


def waited_for_a_core_ns() -> int:
    """Give how long this thread was ready to run and did not, so far."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1])


@pytest.mark.parametrize(
    ("phase", "kind"), [("input", "INPUT_STRAGGLER"), ("backward", "BACKWARD_STRAGGLER")]
)
def test_without_the_slow_phase_of_one_rank_the_job_is_as_fast_as_predicted(
    tmp_path: Path, phase: str, kind: str
) -> None:
    def attempt(number: int) -> float | None:
        folder = tmp_path / str(number)
        runs = (f"slow:phase={phase}:{COMMON}", f"mended:phase=none:{COMMON}")
        launch(SCRIPT, folder, *runs, ranks=2)
        return error_of(folder / "slow", folder / "mended", kind)

    check_closest(attempt)


@pytest.mark.parametrize("framework", ["plain", "lightning", "huggingface"])
def test_without_the_slow_decoder_the_digits_are_as_fast_as_predicted(
    tmp_path: Path, framework: str
) -> None:
    script = ROOT / "examples" / f"digits_{framework}.py"

    def attempt(number: int) -> float | None:
        folders = []
        for options in ([], ["--fast"]):
            folder = tmp_path / f"{number}{''.join(options)}"
            subprocess.run(
                [sys.executable, str(script), "--run-dir", str(folder), *options],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                check=True,
                capture_output=True,
            )
            folders.append(folder / f"digits-{framework}")
        slow, fast = folders
        return error_of(slow, fast, "INPUT_BOUND")

    check_closest(attempt)
