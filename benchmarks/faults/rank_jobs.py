"""Faults of one of two real ranks: it dies, or it hangs."""

import atexit
import os
import random
import signal
import subprocess
import sys
import threading
import time
from functools import cache

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcome import PATIENCE_S, Outcome, random_moment, says
from benchmarks.faults.ranks import EXIT, STEPS, WORLD, pid_of

_STARTING = threading.Lock()


def hung_rank(lab: Lab, rng: random.Random) -> Outcome:
    """Rank 1 of two real ranks stops for seconds; a report is made meanwhile, and then training goes on."""
    _start(lab)
    random_moment(lab, rng, 1, last_s=0.8)
    hung = pid_of(lab.folder, 1)
    running = not (lab.folder / EXIT).exists()
    if running:
        os.kill(hung, signal.SIGSTOP)
        time.sleep(rng.uniform(0.2, 1.5))
    meanwhile = lab.report()["run"]["status"]
    if running:
        os.kill(hung, signal.SIGCONT)
    code, end = _wait(lab), time.perf_counter_ns()
    wrong = [] if meanwhile in ("running", "completed") else [f"status {meanwhile} meanwhile"]
    wrong += [] if code == 0 else [f"exit code {code}: {lab.logs()}"]
    wrong += _compare(lab, all_steps=True) + says(lab.report(), "completed")
    lost_s = lab.lost_s(end, ranks=range(WORLD))
    return Outcome(lost_s, wrong, lab.leftovers(killed=False), "SIGSTOP, gloo")


def kill_one_rank(lab: Lab, rng: random.Random) -> Outcome:
    """SIGKILL rank 1 of two real ranks; rank 0 fails in its next collective."""
    _start(lab)
    random_moment(lab, rng, 1, last_s=0.6)
    end = time.perf_counter_ns()
    os.kill(pid_of(lab.folder, 1), signal.SIGKILL)
    code = _wait(lab)
    wrong = _compare(lab, all_steps=False)
    if len(lab.told(0).steps) < STEPS:
        wrong += says(lab.report(), "failed", "rank 1 ended without a word")
        wrong += [] if code in (1, 137) else [f"exit code {code}: {lab.logs()}"]
    lost_s = lab.lost_s(end, ranks=range(WORLD))
    return Outcome(lost_s, wrong, lab.leftovers(killed=True), "SIGKILL, gloo")


@cache
def _server() -> "subprocess.Popen[bytes]":
    """Start what forks the ranks of all jobs."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.faults.ranks"],
        stdin=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    atexit.register(server.communicate)  # its input ends, and so does it
    return server


def _start(lab: Lab, how: str = "traced") -> None:
    with _STARTING:
        jobs = _server().stdin
        assert jobs is not None
        jobs.write(f"{lab.folder} {how}\n".encode())
        jobs.flush()


def _wait(lab: Lab) -> int:
    until = time.monotonic() + PATIENCE_S
    while not (lab.folder / EXIT).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"the ranks did not end: {lab.logs()}")
        time.sleep(0.01)
    return int((lab.folder / EXIT).read_text("utf-8"))


@cache
def _untraced_losses() -> tuple[list[str], ...]:
    """Give the losses of each rank without a tracer."""
    lab = Lab.make()
    try:
        _start(lab, "plain")
        code = _wait(lab)
        assert code == 0, lab.logs()
        return tuple(lab.told(rank).losses for rank in range(WORLD))
    finally:
        lab.close()


def _compare(lab: Lab, *, all_steps: bool) -> list[str]:
    wrong = []
    for rank, expected in enumerate(_untraced_losses()):
        losses = lab.told(rank).losses
        if losses != expected[: len(losses)] or (all_steps and len(losses) != STEPS):
            wrong.append(f"other losses on rank {rank}")
    return wrong
