"""Processes that die: killed alone, together, by their launcher's death, by the kernel, on preemption."""

import random
import time

from benchmarks.faults import machine
from benchmarks.faults.lab import Lab
from benchmarks.faults.outcome import (
    PATIENCE_S,
    STEPS,
    Outcome,
    check,
    random_moment,
    rank_of_two,
    says,
)


def kill_a_process(lab: Lab, rng: random.Random) -> Outcome:
    """SIGKILL the only rank at any moment, its last second and the making of its report included."""
    process = lab.train(lab.workload(steps=STEPS))
    random_moment(lab, rng)
    end = time.perf_counter_ns()
    process.kill()
    code = process.wait()
    summary = lab.report()
    ended = code == 0 or summary["run"]["status"] == "completed"
    wrong = check(lab, code=code, expected=0 if code == 0 else -9, steps=None)
    wrong += [] if ended else says(summary, "lost", "without a word")
    return Outcome(lab.lost_s(end), wrong, lab.leftovers(killed=True), "SIGKILL")


def kill_all_ranks(lab: Lab, rng: random.Random) -> Outcome:
    """SIGKILL both ranks of a job at one moment."""
    processes = [lab.train(*rank_of_two(lab, rank)) for rank in range(2)]
    for rank in range(2):
        lab.wait_for_step(1, rank)
    random_moment(lab, rng)
    end = time.perf_counter_ns()
    for process in processes:
        process.kill()
    codes = [process.wait() for process in processes]
    wrong, summary = [], lab.report()
    for rank, code in enumerate(codes):
        # One that had ended by itself is no victim.
        wrong += check(lab, code=code, expected=0 if code == 0 else -9, steps=None, rank=rank)
        died = len(lab.told(rank).steps) < STEPS
        wrong += says(summary, f"rank {rank} ended without a word") if died else []
    return Outcome(lab.lost_s(end, ranks=(0, 1)), wrong, lab.leftovers(killed=True), "SIGKILL")


def never_starts(lab: Lab, rng: random.Random) -> Outcome:
    """Rank 1 of two never starts; rank 0 is killed, or ends."""
    workload, environment = rank_of_two(lab, 0)
    process = lab.train(workload, environment)
    random_moment(lab, rng)
    if kill := rng.random() < 0.5:
        process.kill()
    code, end = process.wait(), time.perf_counter_ns()
    summary = lab.report()
    wrong = check(lab, code=code, expected=-9 if kill else 0, steps=None if kill else STEPS)
    if (summary["run"]["ranks_seen"], summary["run"]["world_size"]) != ([0], 2):
        wrong.append("the report does not say that a rank is missing")
    return Outcome(lab.lost_s(end), wrong, lab.leftovers(killed=kill), "one rank started")


def out_of_memory(lab: Lab, rng: random.Random) -> Outcome:
    """The kernel kills the process, which at some step needs more memory than there is."""
    step = rng.randint(2, STEPS)
    process = lab.train(lab.workload(steps=STEPS, mischief="eat memory", at_step=step))
    with machine.little_memory(lab.token, process.pid) as limited:
        if not limited:  # as the kernel does it
            lab.wait_for_step(step - 1)
            process.kill()
        code = process.wait(PATIENCE_S)
    end = time.perf_counter_ns()
    wrong = check(lab, code=code, expected=-9, steps=step - 1) + says(lab.report(), "lost")
    how = "memory cgroup" if limited else "SIGKILL, as the kernel does"
    return Outcome(lab.lost_s(end), wrong, lab.leftovers(killed=True), how)


def sigterm(lab: Lab, rng: random.Random) -> Outcome:
    """SIGTERM with time to end, as on preemption: with a handler that exits, or without one."""
    handled = rng.random() < 0.5
    process = lab.train(lab.workload(steps=STEPS, mischief="grace" if handled else ""))
    random_moment(lab, rng)
    end = time.perf_counter_ns()
    process.terminate()
    code = process.wait(PATIENCE_S)
    summary = lab.report()
    over = code == 0 or summary["run"]["status"] == "completed"
    wrong = check(lab, code=code, expected=0 if code == 0 else 143 if handled else -15, steps=None)
    wrong += [] if over else says(summary, "failed" if handled else "lost")
    return Outcome(lab.lost_s(end), wrong, lab.leftovers(killed=not handled), "SIGTERM")


def kill_the_launcher(lab: Lab, rng: random.Random) -> Outcome:
    """SIGKILL `traintrace run` itself: training ends with it, and its record stays."""
    run_dir = ["--run-dir", str(lab.folder / "runs"), "--run-name", "run"]
    options = lab.workload(steps=STEPS).to_json()
    target = ["-m", "benchmarks.faults.workload", options]
    process = lab.start(["-m", "traintrace_reporting", "run", *run_dir, *target])
    random_moment(lab, rng)
    end = time.perf_counter_ns()
    process.kill()
    code = process.wait()
    left = lab.wait_for_processes(2.0)
    summary = lab.report()
    wrong = check(lab, code=code, expected=-9, steps=None)
    ended = len(lab.told().steps) == STEPS
    wrong += [] if ended or summary["run"]["status"] == "completed" else says(summary, "lost")
    return Outcome(lab.lost_s(end), wrong, left + lab.leftovers(killed=True), "SIGKILL")
