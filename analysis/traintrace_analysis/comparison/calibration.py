"""Measure a machine's own noise: runs of the same code, and how much they differ."""

import math
import statistics
from collections.abc import Sequence

from traintrace_analysis.comparison.model import ComparedRun, NoiseModel
from traintrace_analysis.comparison.student import critical
from traintrace_analysis.thresholds import limit


def calibrate(runs: Sequence[ComparedRun]) -> NoiseModel:
    """Make the noise model of runs of the same code.

    Raises:
        ValueError: Too few runs, runs of different workloads or clocks, or one without step times.
    """
    needed = int(limit("calibration_runs_minimum"))
    if len(runs) < needed:
        raise ValueError(f"runs: {len(runs)} given, {needed} needed to know how much runs differ")
    prints = {run.fingerprint for run in runs}
    if len(prints) > 1 or "" in prints:
        raise ValueError("fingerprint: the runs differ in versions, setup or topology")
    if len({run.metrics["step_time"].clock for run in runs}) > 1:
        raise ValueError("clock: some runs were timed by the device and some by the host")
    ordered = sorted(runs, key=lambda run: run.started_at)
    levels = [_level(run) for run in ordered]
    trend, trending = _trend(levels)
    return NoiseModel(
        run_sd_log=statistics.stdev(levels),
        runs=len(runs),
        fingerprint=prints.pop(),
        metric_sd_share=_metric_noise(ordered),
        trend_log=trend,
        trending=trending,
    )


def _level(run: ComparedRun) -> float:
    level = run.metrics["step_time"].log_mean
    if level is None:
        raise ValueError(f"statistics.metrics.step_time.log_mean: run {run.label!r} has none")
    return level


def _metric_noise(runs: Sequence[ComparedRun]) -> dict[str, float]:
    step = [run.metrics["step_time"].mean_ms for run in runs]
    usual = statistics.fmean(mean for mean in step if mean is not None)
    noise: dict[str, float] = {}
    for name in runs[0].metrics:
        sides = [run.metrics.get(name) for run in runs]
        means = [side.mean_ms for side in sides if side is not None and side.mean_ms is not None]
        if len(means) == len(runs):
            noise[name] = statistics.stdev(means) / usual
    return noise


def _trend(levels: Sequence[float]) -> tuple[float, bool]:
    """Give the slope per run, and whether chance explains it (two-sided, 1 %)."""
    count = len(levels)
    times = [index - (count - 1) / 2.0 for index in range(count)]
    spread = sum(time * time for time in times)
    slope = sum(time * level for time, level in zip(times, levels, strict=True)) / spread
    middle = statistics.fmean(levels)
    residual = sum(
        (level - middle - slope * time) ** 2 for time, level in zip(times, levels, strict=True)
    )
    error = math.sqrt(residual / (count - 2) / spread)
    return slope, abs(slope) > critical(limit("comparison_error") / 2.0, count - 2) * error
