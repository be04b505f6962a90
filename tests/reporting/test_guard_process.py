"""The processes of `traintrace guard pairs`: ended with the guard, and what they print is told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reporting.test_run import ALONE
from traintrace_reporting import guard_runs

SLEEPER = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""
FAILING = """
print("a line that matters")
try:
    raise ValueError("the reason")
finally:
    import atexit
    atexit.register(lambda: [print("report", n) for n in range(40)])
"""


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text("utf-8").split(")")[-1].split()[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="signals as Linux has them")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_ends_the_guard_alone_ends_its_training(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER, "utf-8")
    there = tmp_path / "pid"
    command = f"{tmp_path}/sleeper.py {there}"
    words = ("guard", "pairs", "--a", command, "--b", command, "--run-dir", str(tmp_path))
    guard = subprocess.Popen(
        [sys.executable, "-m", "traintrace_reporting", *words],
        env=ALONE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 40
    while not (there.exists() and there.read_text("utf-8")) and time.monotonic() < deadline:
        time.sleep(0.05)
    guard.send_signal(number)
    _, told = guard.communicate(timeout=30)
    pid = int(there.read_text("utf-8"))
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(pid)
    if number is not signal.SIGKILL:
        assert guard.returncode == 1
        assert f"stopped by {number.name} in run guard-" in told
        assert "nothing was decided" in told


def test_of_a_failed_training_the_traceback_is_told_and_not_the_report_after_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(FAILING, "utf-8")
    side = guard_runs.side_of("A", f"{tmp_path}/train.py", None)
    with pytest.raises(guard_runs.RunFailed, match="exit code 1") as failed:
        guard_runs.train(side, str(tmp_path / "runs"), "guard-01a")
    assert "a line that matters" in str(failed.value)
    assert str(failed.value).endswith("ValueError: the reason")


TWICE = """
import torch
import traintrace_plain_torch

for _ in range(2):
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with traintrace_plain_torch.trace(model, optimizer) as tracer:
        for batch in tracer.batches([torch.randn(4, 8)] * 3):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
"""


def test_a_command_that_trains_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(TWICE, "utf-8")
    side = guard_runs.side_of("B", f"{tmp_path}/twice.py", None)
    with pytest.raises(guard_runs.RunFailed, match="more than one run"):
        guard_runs.train(side, str(tmp_path / "runs"), "guard-01b")
