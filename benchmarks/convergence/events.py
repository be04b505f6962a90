"""Runs in which something happens, and what a person who looks at the curves would call it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from benchmarks.convergence.noise import Curves, Random

Inject: TypeAlias = Callable[[Curves, int, Random], None]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is put into a run of noise.

    Attributes:
        kind: What has to be found. noises: Kinds of noise that it is put into.
        inject: Changes the curves at a step.
        told: What it is, for the table.
        sparse: It is tried with values logged each 50 steps too.
        span: It begins between these shares of the run.
        least_steps: Shorter runs are left out.
    """

    kind: str
    told: str
    noises: tuple[str, ...]
    inject: Inject
    sparse: bool = False
    span: tuple[float, float] = (0.2, 0.85)
    least_steps: int = 0


_CALM: Final = (
    "Gaussian", "AR .5", "falling as t^-.4", "falling exponentially", "heteroscedastic", "hard batches",
)  # fmt: skip
# One value, or two in a row, are no event where single values of that size are the noise.
_LIGHT: Final = (
    "Gaussian", "AR .5", "AR .9", "falling as t^-.4", "falling exponentially", "hard batches", "lognormal 0.4",
)  # fmt: skip
_ALL: Final = (*_CALM, "AR .9", "lognormal 0.4", "Student t3")


def _shape(steps: int, at: int, length: float) -> np.ndarray:
    """Rise at once and decay over `length` steps."""
    after = np.arange(steps) - at
    shape = np.where(after >= 0, np.exp(-np.maximum(after, 0) / length), 0.0)
    return np.where(shape > 0.05, shape, 0.0)


def _scatter(values: np.ndarray) -> float:
    """Give the robust standard deviation of the logarithm about its course: how wide the curve looks."""
    logs = np.log(np.abs(values))
    width = max(5, len(logs) // 8) | 1
    course = np.median(np.lib.stride_tricks.sliding_window_view(logs, width), axis=1)
    return float(1.4826 * np.median(np.abs(logs[width // 2 : len(logs) - width // 2] - course)))


def _times(values: np.ndarray, spreads: float, least: float) -> float:
    """Give the factor that lifts a value by so many standard deviations, at least `least`."""
    return max(least, float(np.exp(spreads * _scatter(values))))


def _spike(spreads: float, length: float) -> Inject:
    def inject(curves: Curves, at: int, random: Random) -> None:
        times = _times(curves.loss[:: curves.every], spreads, 1.5)
        curves.loss *= 1.0 + (times - 1.0) * _shape(len(curves.loss), at, length * curves.every)

    return inject


def _single(spreads: float) -> Inject:
    def inject(curves: Curves, at: int, random: Random) -> None:
        curves.loss[at] *= _times(curves.loss[:: curves.every], spreads, 1.5)

    return inject


def _not_a_number(curves: Curves, at: int, random: Random) -> None:
    curves.loss[at:] = np.nan
    curves.grad_norm[at:] = np.nan


def _infinite(curves: Curves, at: int, random: Random) -> None:
    curves.loss[at:] = np.inf


def _hidden_by_the_framework(curves: Curves, at: int, random: Random) -> None:
    """As the Hugging Face Trainer logs it, which filters losses that are NaN: 0, and the norm is NaN."""
    curves.loss[at:] = 0.0
    curves.grad_norm[at:] = np.nan


def _runaway(curves: Curves, at: int, random: Random) -> None:
    after = np.maximum(np.arange(len(curves.loss)) - at, 0)
    curves.loss *= np.exp(np.minimum(0.05 * after / curves.every, 60.0))


def _back_to_the_start(curves: Curves, at: int, random: Random) -> None:
    """The loss jumps to above where it began, and stays."""
    after = len(curves.loss) - at
    curves.loss[at:] = 1.5 * curves.loss[:20].mean() * np.exp(0.03 * random.normal(size=after))


def _growing(curves: Curves, at: int, random: Random) -> None:
    """The loss rises by two thirds, slowly, to the end."""
    after = np.maximum(np.arange(len(curves.loss)) - at, 0) / (len(curves.loss) - at)
    curves.loss *= 1.0 + 0.67 * after


def _stall(curves: Curves, at: int, random: Random) -> None:
    level = float(np.median(curves.loss[at - 20 : at + 20]))
    curves.loss[at:] = level * np.exp(0.05 * random.normal(size=len(curves.loss) - at))


def _explosion(curves: Curves, at: int, random: Random) -> None:
    curves.grad_norm *= 1.0 + 40.0 * _shape(len(curves.loss), at, 3.0 * curves.every)


def _lasting_explosion(curves: Curves, at: int, random: Random) -> None:
    curves.grad_norm[at:] *= 30.0


def _together(curves: Curves, at: int, length: float) -> None:
    shape = _shape(len(curves.loss), at, length * curves.every)
    curves.loss *= 1.0 + (_times(curves.loss[:: curves.every], 12.0, 1.5) - 1.0) * shape
    norms = curves.grad_norm[:: curves.every]
    curves.grad_norm *= 1.0 + (_times(norms, 12.0, 5.0) - 1.0) * shape


def _one_event(curves: Curves, at: int, random: Random) -> None:
    """An update that blows up: loss and gradients for some steps, and a slow step."""
    _together(curves, at, 2.0)
    curves.step_ms[at : at + 2] *= 4.0


def _two_signals(curves: Curves, at: int, random: Random) -> None:
    _together(curves, at, 2.0)


EVENTS: Final[Mapping[str, Event]] = {
    "nan": Event("DIVERGED", "loss and gradients NaN to the end", _ALL, _not_a_number, sparse=True),
    "inf": Event("DIVERGED", "loss infinite to the end", _ALL, _infinite, sparse=True),
    "filtered": Event("DIVERGED", "gradients NaN, loss logged as 0", _ALL, _hidden_by_the_framework),
    "runaway": Event("DIVERGED", "loss grows by 5 % a value", _ALL, _runaway, sparse=True),
    "back": Event("DIVERGED", "loss back above its start", ("falling as t^-.4", "falling exponentially", "falling in a line, AR .5"), _back_to_the_start, sparse=True),
    "growing": Event("DIVERGED or NO_PROGRESS", "loss rises by two thirds", _CALM[:2] + _CALM[4:], _growing, span=(0.2, 0.6)),
    "stall": Event("NO_PROGRESS", "loss stops falling", ("falling exponentially",), _stall, span=(0.25, 0.45), least_steps=5_000),
    "spike": Event("LOSS_SPIKE", "loss up by 12 standard deviations, decaying over 5 values", _ALL, _spike(12.0, 5.0), sparse=True),
    "small spike": Event("LOSS_SPIKE", "the same by 8", _ALL, _spike(8.0, 5.0)),
    "long spike": Event("LOSS_SPIKE", "loss up by 10, decaying over 30 values", _ALL, _spike(10.0, 30.0)),
    "single value": Event("LOSS_SPIKE", "one value up by 20", _LIGHT, _single(20.0)),
    "explosion": Event("GRAD_NORM_EXPLOSION", "gradients 41 times as large, decaying over 3 values", _CALM, _explosion),
    "lasting explosion": Event("GRAD_NORM_EXPLOSION", "gradients 30 times to the end", _CALM, _lasting_explosion),
    "three signals": Event("CORRELATED_INSTABILITY", "loss, gradients and step time", _LIGHT, _one_event),
    "two signals": Event("CORRELATED_INSTABILITY", "loss and gradients", _LIGHT, _two_signals),
}  # fmt: skip
