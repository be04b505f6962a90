"""Put together what the logged values and the steps say about how training went."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from traintrace.facts import RankFacts
from traintrace_analysis.columns import Aligner
from traintrace_analysis.convergence.course import find_plateau, find_rise, trend_of
from traintrace_analysis.convergence.explained import Explained, explain
from traintrace_analysis.convergence.model import Convergence, Course, Lost
from traintrace_analysis.convergence.names import are_of_a_game, role_of
from traintrace_analysis.convergence.signals import Logged, Signal, logged_by
from traintrace_analysis.convergence.spikes import Size, find_spikes
from traintrace_analysis.convergence.together import AMOUNTS, Meeting, find_meetings
from traintrace_analysis.step_window import Floats, StepWindow
from traintrace_analysis.thresholds import limit

_OTHERS: Final = 12
_ORDER: Final = ("evaluation_loss", "contested_loss", "loss", "grad_norm", "other")
_MISSED: Final = 0.9  # share of the steps of the loss at which another value must have been logged


def examine_convergence(
    window: StepWindow, ranks: Sequence[RankFacts], preferred: int | None
) -> Convergence | None:
    """Say how training went; None if nothing was logged and nothing is known of the amounts of data.

    Args:
        window: Steps that are compared with what was logged at them.
        ranks: What the ranks of the attempt recorded; losses are looked at over the whole run.
        preferred: The rank to look at; another one where it logged no loss.
    """
    logged = logged_by(ranks, preferred)
    explained = _explained(window, preferred)
    if logged is None:
        return None if explained is None else Convergence(None, None, None, (), (), explained)
    lost = [
        one.step
        for signal, least in ((logged.loss, 1), (logged.grad_norm, limit("lost_norms_minimum")))
        if signal is not None and (one := _lost(signal)) is not None and one.values >= least
    ]
    end = min(lost, default=None)
    judged = {signal.name for signal in (logged.loss, logged.grad_norm) if signal is not None}
    others = [signal for name, signal in logged.signals.items() if name not in judged]
    others.sort(key=lambda signal: (_ORDER.index(role_of(signal.name)), signal.name))
    return Convergence(
        rank=logged.rank,
        loss=None if logged.loss is None else _loss_among(logged.signals, logged.loss, end),
        grad_norm=None if logged.grad_norm is None else _course_of_norm(logged.grad_norm, end),
        others=tuple(describe(signal) for signal in others[:_OTHERS]),
        meetings=_meetings(window, logged, end),
        explained=explained,
    )


def describe(signal: Signal) -> Course:
    """Give the numbers of one logged value, without judging it."""
    sound = signal.sound()
    course = {
        "name": signal.name,
        "role": role_of(signal.name),
        "count": len(signal.values),
        "not_finite": len(signal.values) - len(sound.values),
        "first_step": int(signal.steps[0]),
        "last_step": int(signal.steps[-1]),
    }
    if not len(sound.values):
        return Course(**course)  # type: ignore[arg-type]
    length = min(len(sound.values), max(5, len(sound.values) // 100))
    if len(sound.values) < 20:  # so few are no noise to smooth: an evaluation of each epoch
        length = 1
    rest = len(sound.values) % length
    medians = np.median(sound.values[rest:].reshape(-1, length), axis=1)
    ends = sound.steps[rest + length - 1 :: length]
    low, high = int(np.argmin(medians)), int(np.argmax(medians))
    return Course(
        **course,  # type: ignore[arg-type]
        first=float(np.median(sound.values[:length])),
        last=float(medians[-1]),
        lowest=float(medians[low]),
        lowest_step=int(ends[low]),
        highest=float(medians[high]),
        highest_step=int(ends[high]),
    )


def _loss_among(logged: Iterable[str], loss: Signal, end: int | None) -> Course:
    """Judge the loss; one of a game, or of rewards, only by whether its values are numbers."""
    if not are_of_a_game(logged):
        return _course_of_loss(loss, end)
    trend = trend_of(loss.until(end).sound())
    return replace(describe(loss), role="contested_loss", trend=trend, lost=_lost(loss))


def _course_of_loss(signal: Signal, end: int | None) -> Course:
    size = Size(
        limit("loss_spike_ratio"), limit("spike_spreads"), of_start=limit("loss_spike_of_start")
    )
    return _judged(signal, end, size, plateaus=True)


def _course_of_norm(signal: Signal, end: int | None) -> Course:
    size = Size(limit("grad_spike_ratio"), limit("spike_spreads"))
    return _judged(signal, end, size, plateaus=False)


def _judged(signal: Signal, end: int | None, size: Size, *, plateaus: bool) -> Course:
    """Describe a value and look for what is wrong with it, up to where values stopped being finite."""
    plain, sound = describe(signal), signal.until(end).sound()
    return Course(
        **{name: getattr(plain, name) for name in _NUMBERS},
        trend=trend_of(sound),
        lost=_lost(signal),
        rise=find_rise(sound),
        plateau=find_plateau(sound) if plateaus and end is None else None,
        spikes=find_spikes(sound, size, limit("spike_chance")),
    )


_NUMBERS: Final = (
    *("name", "role", "count", "not_finite", "first_step", "last_step", "first", "last"),
    *("lowest", "lowest_step", "highest", "highest_step"),
)


def _lost(signal: Signal) -> Lost | None:
    """Say from where on a value was never finite again."""
    finite = signal.finite
    if not len(finite) or finite[-1]:
        return None
    sound = np.flatnonzero(finite)
    first = int(sound[-1]) + 1 if len(sound) else 0
    return Lost(int(signal.steps[first]), len(finite) - first)


def _meetings(window: StepWindow, logged: Logged, end: int | None) -> tuple[Meeting, ...]:
    learning = {
        name: sound
        for name, signal in (("loss", logged.loss), ("grad_norm", logged.grad_norm))
        if signal is not None and len((sound := signal.until(end).sound()).values)
    }
    if not learning or logged.rank not in window.ranks:
        return ()
    row, first = window.ranks.index(logged.rank), window.warmup_steps
    lead = learning.get("loss", learning.get("grad_norm"))
    assert lead is not None
    steps = np.intersect1d(lead.steps, window.steps[first:], assume_unique=True)
    norm = learning.get("grad_norm")
    if "loss" in learning and norm is not None:
        both = np.intersect1d(steps, norm.steps, assume_unique=True)
        if len(both) >= _MISSED * len(steps):
            steps = both
        else:
            del learning["grad_norm"]
    places = np.searchsorted(window.steps, steps)
    signals = {
        name: signal.values[np.searchsorted(signal.steps, steps)]
        for name, signal in learning.items()
    }
    signals["step_time"] = window.host["step_time"][row, places]
    for name in ("peak_allocated_bytes", "rss_bytes"):
        if name in window.memory and "memory" not in signals:
            signals["memory"] = window.memory[name][row, places]
    for name, amount in _amounts(window).items():
        signals[name] = amount[row, places]
    known = {name: values for name, values in signals.items() if np.isfinite(values).all()}
    return find_meetings(steps, known)


def _explained(window: StepWindow, preferred: int | None) -> Explained | None:
    """Explain the step time of one rank by the most that any rank had: the others wait for that one."""
    if preferred not in window.ranks or window.steady_steps < 1:
        return None
    row, first = window.ranks.index(preferred), window.warmup_steps
    amounts = {
        name: amount[:, first:].max(axis=0)  # NaN where it is unknown on any rank
        for name, amount in _amounts(window).items()
    }
    return explain(window.host["step_time"][row, first:], amounts)


def _amounts(window: StepWindow) -> Mapping[str, Floats]:
    """Give the amounts of data that are known: ranks by steps."""
    padded = Aligner(window.facts, window.steps).floats("padded_tokens")
    known = {"padded_tokens": padded, "tokens": window.tokens, "samples": window.samples}
    return {name: known[name] for name in AMOUNTS if known[name] is not None}  # type: ignore[misc]
