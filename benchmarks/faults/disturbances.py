"""What disturbs training without ending it: the clock jumps, the process forks."""

import random
import time

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcome import PATIENCE_S, STEPS, Outcome, check, says


def clock_jump(lab: Lab, rng: random.Random) -> Outcome:
    """The wall clock jumps by an hour, forward or back; then training ends, or is killed."""
    kind = rng.choice(["clock forward", "clock back"])
    step = rng.randint(2, STEPS // 2)
    process = lab.train(lab.workload(steps=STEPS, mischief=kind, at_step=step))
    lab.wait_for_step(step)
    kill = rng.random() < 0.5
    if kill:
        time.sleep(rng.uniform(0.0, 0.4))
        process.kill()
    code, end = process.wait(PATIENCE_S), time.perf_counter_ns()
    wrong = check(lab, code=code, expected=-9 if kill else 0, steps=None if kill else STEPS)
    summary = lab.report()
    wrong += says(summary, "lost") if kill else []
    steps = lab.told().steps
    lasted_s = (steps[-1].at_ns - steps[0].at_ns) / 1e9
    if not summary["run"]["duration_s"] < lasted_s + 5:
        wrong.append(f"the report says {summary['run']['duration_s']} s instead of {lasted_s}")
    return Outcome(lab.lost_s(end), wrong, lab.leftovers(killed=kill), "as this process sees it")


def fork_after_start(lab: Lab, rng: random.Random) -> Outcome:
    """Training forks; the child is killed, exits, or ends at once. The run stays the parent's."""
    kind = rng.choice(["fork and kill", "fork and exit", "fork and leave"])
    step = rng.randint(2, STEPS)
    process = lab.train(lab.workload(steps=STEPS, mischief=kind, at_step=step))
    code, end = process.wait(PATIENCE_S), time.perf_counter_ns()
    wrong = check(lab, code=code, expected=0, steps=STEPS)
    wrong += says(lab.report(), "completed")
    return Outcome(lab.lost_s(end), wrong, lab.leftovers(killed=False), kind)
