"""Find where a run's warm-up ends, so that it is reported apart and never mixed into the rest."""

import math

import numpy as np

from traintrace.facts import COMPILED, WARMUP
from traintrace_analysis.statistics import cautious_time, winsorise
from traintrace_analysis.step_window import Floats, Ints, Marks
from traintrace_analysis.thresholds import limit


def warmup_steps(steps: Ints, step_time_ns: Floats, flags: Ints) -> int:
    """Give the number of leading window steps that are warm-up.

    The longest of three: steps that the user declared as warm-up, graph compilations that follow
    each other from the start, and a slow start of the step time. Only a window that holds the
    start of the process can have one.

    Args:
        steps: Step ids of the window, counted from the start of training.
        step_time_ns: Ranks by steps.
        flags: Ranks by steps; a bit counts if any rank has it.
    """
    if not len(steps) or steps[0] > limit("warmup_search_start"):
        return 0
    any_flags = np.bitwise_or.reduce(flags, axis=0)
    declared = _last_true((any_flags & WARMUP) != 0)
    compiled = _compile_run((any_flags & COMPILED) != 0)
    return max(declared, compiled, _slow_start_of_any(np.median(step_time_ns, axis=0)))


def mser_cut(values: Floats, batch: int) -> int:
    """Give the number of leading values that MSER would leave out.

    MSER picks the cut d that minimises Var(values[d:]) / (m - d) over batch means, d <= m / 2: the
    squared standard error of the mean of the rest (White, Cobb and Spratt 2000). Past the true end
    that curve is flat and noisy, so the earliest cut within a few percent of the minimum is taken.
    """
    count = len(values) // batch
    if count < 2:
        return 0
    means = values[: count * batch].reshape(count, batch).mean(axis=1)
    left = np.arange(count, 0, -1, dtype=np.float64)
    total = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(((means - means.mean()) ** 2)[::-1])[::-1]
    offset = total / left - means.mean()
    error = (squares / left - offset**2) / left
    error = np.maximum(error[: count // 2 + 1], 0.0)
    good = error <= float(error.min()) * (1.0 + limit("mser_tolerance"))
    return int(np.argmax(good)) * batch


def _slow_start_of_any(step_time_ns: Floats) -> int:
    """Look for a slow start in the whole series, and then in ever shorter beginnings of one that grows.

    Where the steps grow slower, their end is no measure of the beginning, and the warm-up would hide.
    """
    times, found = step_time_ns, _slow_start(step_time_ns)
    while not found and len(times) >= 2 * limit("mser_short_series"):
        quarter = len(times) // 4
        end, middle = np.median(times[-quarter:]), np.median(times[quarter : 2 * quarter])
        if end <= middle * math.exp(limit("warmup_excess")):
            break
        times = times[: len(times) // 2]
        found = _slow_start(times)
    return found


def _slow_start(step_time_ns: Floats) -> int:
    """Give the larger of the slow steps that lead the run and of a cut that is slow as a rule.

    Outliers are pulled in before the cut is sought, and the cut is judged by its median, so that a
    single slow step in the middle never makes all before it a warm-up. Either has to be slower
    than what the rest brings forth by chance.
    """
    logs = np.log(np.maximum(step_time_ns, 1.0))
    pulled = winsorise(logs)
    excess = limit("warmup_excess")
    usual = logs <= max(float(pulled.max()), float(np.median(logs)) + excess)
    leading = int(np.argmax(usual))
    batch = 1 if len(logs) < limit("mser_short_series") else int(limit("mser_batch"))
    cut = mser_cut(pulled, batch)
    if cut and float(np.median(logs[:cut]) - np.median(logs[cut:])) > excess:
        slow = logs[:cut] > float(np.median(logs[cut:])) + excess
        cut = _last_true(slow)  # a batch may end in steps that are as fast as the rest
        leading = max(leading, cut if _stands_out(logs, cut) else 0)
    return leading if _stands_out(logs, leading) else 0


def _stands_out(logs: Floats, cut: int) -> bool:
    """Tell whether the mean before `cut` lies further from the rest than chance explains.

    The rest may be spiky, periodic or slow to forget, so its own spread and memory set the scale.
    """
    rest = logs[cut:]
    if not cut or len(rest) < 2:
        return False
    tau = cautious_time(rest)
    known = min(1.0, tau / cut) + tau / len(rest)
    error = float(rest.std(ddof=1)) * math.sqrt(known)
    return float(logs[:cut].mean() - rest.mean()) > limit("warmup_significance") * error


def _last_true(marks: Marks) -> int:
    found = np.flatnonzero(marks)
    return int(found[-1]) + 1 if len(found) else 0


def _compile_run(marks: Marks) -> int:
    end = 0
    for position in np.flatnonzero(marks):
        if position - end > limit("compile_mark_gap"):
            break
        end = int(position) + 1
    return end
