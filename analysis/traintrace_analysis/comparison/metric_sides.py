"""The metrics of one summary, checked against each other: files are edited by hand, or torn."""

import math

from traintrace_analysis.comparison.fields import Fields
from traintrace_analysis.comparison.model import MetricSide
from traintrace_analysis.reasons import DID_NOT_OCCUR
from traintrace_analysis.step_window import MetricClock

_ROUNDING = 1e-6


def metric_sides(top: Fields) -> dict[str, MetricSide]:
    """Give every metric of a summary, measured or not.

    Raises:
        ValueError: A number is missing, not finite, or cannot be true beside the others.
    """
    described = top.fields("statistics").fields("metrics")
    return {
        name: _side(name, metric, described, _reason(top, name))
        for name, metric in top.fields("step_time").fields("metrics").each()
    }


def _side(name: str, metric: Fields, described: Fields, reason: str) -> MetricSide:
    clock = _clock(metric)
    if not metric.has("mean") or not described.has(name):
        if described.has(name):
            raise metric.wrong("mean", "null, but statistics describe it")
        if reason == DID_NOT_OCCUR:
            return MetricSide(name, available=True, reason=reason, clock=clock, mean_ms=0.0)
        return MetricSide(name, available=False, reason=reason, clock=clock)
    of = described.fields(name)
    rank = of.count("rank")
    # What is derived from two clocks is below zero where waits overlap the device's work.
    least = None if clock == "derived" else 0.0
    mean = metric.fields("by_rank").number(str(rank), least=least)
    low, high = metric.number("min", least=least), metric.number("max", least=least)
    tau, effective = of.number("tau", least=1.0), of.positive("n_effective")
    log_mean, log_sd = of.maybe_number("log_mean"), of.maybe_number("log_sd", least=0.0)
    means = of.numbers("block_means", least=least)
    length = of.count("block_steps", least=1)
    # A metric's distribution is that of its own representative rank, which may be another one.
    if metric.count("representative_rank") == rank:
        count = metric.count("n", least=1)
        if abs(effective * tau - count) > 1e-3 * count:
            raise of.wrong("n_effective", f"{effective:g} is not n / tau = {count / tau:g}")
        if len(means) != count // length:
            raise of.wrong("block_means", f"{len(means)} blocks of {length} of {count} steps")
        _between(metric, "mean", metric.number("mean"), low, high)
        _between(metric, f"by_rank.{rank}", mean, low, high)
        for index, block in enumerate(means):
            _between(of, f"block_means.{index}", block, low, high)
        if log_mean is not None:
            _between(of, "log_mean", math.exp(min(log_mean, 700.0)), low, high)
    return MetricSide(
        name=name,
        available=True,
        reason=None,
        clock=clock,
        mean_ms=mean,
        log_mean=log_mean,
        log_sd=log_sd,
        tau=tau,
        n_effective=effective,
        block_steps=length,
        block_means=means,
    )


def _between(fields: Fields, name: str, value: float, low: float, high: float) -> None:
    """Refuse what lies outside the shortest and the longest step, but for rounding."""
    slack = _ROUNDING * max(abs(low), abs(high), 1e-12)
    if not low - slack <= value <= high + slack:
        raise fields.wrong(name, f"{value:g} ms lies outside min {low:g} and max {high:g}")


def _clock(metric: Fields) -> MetricClock:
    match metric.scalar("clock"):
        case "device":
            return "device"
        case "derived":
            return "derived"
        case "host" | None:
            return "host"
        case other:
            raise metric.wrong("clock", f"{other!r} is no clock")


def _reason(top: Fields, name: str) -> str:
    coverage = top.fields("coverage")
    if not coverage.has(name):
        return "the summary does not say why"
    said = coverage.fields(name).scalar("reason")
    return str(said) if said else "no value on the chosen rank"
