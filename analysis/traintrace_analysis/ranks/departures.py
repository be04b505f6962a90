"""How far each rank departs from the others, and whether chance explains it.

Durations are compared as logarithms, step by step, each against the median of the *other* ranks:
what slows all ranks alike drops out, and with two ranks the median is the other one.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from traintrace_analysis.statistics import MAD_TO_SD, student_quantile
from traintrace_analysis.step_window import Floats, Marks
from traintrace_analysis.thresholds import limit

_UNSEEN = 100.0  # simulated: 6 % at 12 independent steps, 80 % at 5
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """How each row of a matrix of durations departs from the other rows.

    Attributes:
        log: Mean of ln(own / median of the others) per row, outliers pulled in.
        error: Standard error of `log`, with the memory from step to step counted.
        spread: Standard deviation of single steps.
        first, second: The same mean over either half of the steps.
        freedom: Degrees of freedom of `error`.
        independent: How many independent steps the series is worth.
        memories: Steps that one independent step takes, per row. memory: the same of all rows.
    """

    log: Floats
    error: Floats
    spread: Floats
    first: Floats
    second: Floats
    freedom: float
    independent: float
    memories: Floats
    memory: float

    @property
    def enough(self) -> bool:
        """True if the steps are worth enough independent ones to say anything."""
        return self.independent >= limit("rank_independent_steps")

    @property
    def lasting(self) -> Marks:
        """Mark rows whose excess shows in both halves of the steps."""
        least = np.minimum(self.first, self.second)
        marks: Marks = least >= limit("rank_persistence") * self.log
        return marks

    def certain(self, alpha: float) -> Marks:
        """Mark rows that are slower than the others, all of them at the error rate `alpha` together.

        One-sided, Sidak over the rows: of R equal ranks one is always the slowest. What lies outside
        the spread of single steps needs no memory to be known: nearly every step shows it.
        """
        each = -math.expm1(math.log1p(-alpha) / len(self.log))
        cut = student_quantile(_NORMAL.inv_cdf(1.0 - each), self.freedom)
        marks: Marks = (self.log > cut * self.error) & self.enough
        marks |= self.log > limit("rank_outside_spread") * self.spread
        return marks

    def slower(self, alpha: float) -> Marks:
        """Mark rows that are slower than the others beyond chance, in both halves of the steps."""
        marks: Marks = self.certain(alpha) & self.lasting
        return marks

    def chance_at_least(self, row: int, log: float) -> float:
        """Give the chance that a row's true excess reaches `log`, held inside 0.05 to 0.95."""
        if not self.error[row] > 0.0:
            return 0.95 if self.log[row] >= log else 0.05
        z = (float(self.log[row]) - log) / float(self.error[row])
        return min(max(_NORMAL.cdf(z), 0.05), 0.95)


def measure_departures(own: Floats, whole: Departures | None = None) -> Departures:
    """Measure how each row of `own` (ranks by steps, ns, no NaN) departs from the others.

    Spread and memory are those that most rows have, which many ranks tell precisely, unless a row's
    own is clearly larger or longer.

    Args:
        own: The durations.
        whole: Of a longer series; a stretch has no less spread and memory than that.
    """
    logs = np.log(np.maximum(own, 1.0))
    apart = winsorise_rows(logs - median_of_others(logs))
    rows, count = apart.shape
    # Where every rank is late now and then, each departs from a median that leaves that out.
    apart -= max(0.0, float(np.median(apart.mean(axis=1))))
    mean = apart.mean(axis=1)
    centred = apart - mean[:, None]
    spread = np.sqrt((centred**2).mean(axis=1) * count / max(1, count - 1))
    time, own_time = _memories(centred)
    if whole is not None:
        time, own_time = max(time, whole.memory), np.maximum(own_time, whole.memories)
        spread = np.maximum(spread, whole.spread)
    usual = float(np.median(spread))
    others = max(1, rows - 1)
    independent = count / time
    # Memory that outlasts a quarter of the steps is not seen; it matters where they are worth few.
    unseen = 1.0 + _UNSEEN / independent**3
    noisier = spread > usual * (1.0 + 2.0 * math.sqrt(0.5 / independent))
    error = unseen * np.where(noisier, spread, usual) * np.sqrt(np.minimum(own_time, count) / count)
    half = count // 2
    return Departures(
        log=mean,
        error=error,
        spread=np.maximum(spread, usual),
        first=apart[:, :half].mean(axis=1) if half else mean,
        second=apart[:, half:].mean(axis=1),
        freedom=max(2.0, others * (independent - 1.0)),
        independent=independent,
        memories=own_time,
        memory=time,
    )


def median_of_others(values: Floats) -> Floats:
    """Give, for every row and column, the median over the other rows; itself if there are none."""
    rows = len(values)
    if rows < 2:
        alone: Floats = values.copy()
        return alone
    low, high = (rows - 2) // 2, (rows - 1) // 2
    order = np.partition(values, sorted({low, high, high + 1}), axis=0)

    def without_own(place: int) -> Floats:
        """Give the value at `place` among the others in ascending order."""
        kept: Floats = np.where(values <= order[place], order[place + 1], order[place])
        return kept

    if low == high:
        return without_own(low)
    middle: Floats = 0.5 * (without_own(low) + without_own(high))
    return middle


def winsorise_rows(values: Floats) -> Floats:
    """Pull outliers of each row to its median +- 3 s, s = 1.4826 median absolute deviations."""
    middle = np.median(values, axis=1, keepdims=True)
    spread = MAD_TO_SD * np.median(np.abs(values - middle), axis=1, keepdims=True)
    reach = np.where(spread > 0.0, limit("rank_outlier") * spread, np.inf)
    pulled: Floats = np.clip(values, middle - reach, middle + reach)
    return pulled


def _memories(centred: Floats) -> tuple[float, Floats]:
    """Give the memory in steps of all rows together, and of each row; cautious, at least 1.

    tau = sum of the autocorrelations over the initial positive pair sequence (Geyer 1992). Taking
    the mean out lowers every one of them by tau / n, which a window of K lags makes good again.
    """
    rows, count = centred.shape
    if count < 4:
        return 1.0, np.ones(rows)
    size = 1 << (2 * count - 1).bit_length()
    lags = max(2, count // 4 // 2 * 2)
    rho = np.empty((rows, lags))
    for start in range(0, rows, 64):  # in parts, so that a thousand ranks take no memory
        spectrum = np.fft.rfft(centred[start : start + 64], size)
        rho[start : start + 64] = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)[:, :lags]
    level = rho[:, :1].copy()
    varied = level[:, 0] > 0.0
    if not varied.any():
        return 1.0, np.ones(rows)
    rho[varied] /= level[varied]
    together = float(_geyer(rho[varied].mean(axis=0, keepdims=True), count)[0])
    others = max(1, rows - 1)
    # One standard error more (Madras and Sokal 1988), which shrinks as ranks add what they know.
    shared = together * (1.0 + math.sqrt(2.0 * (6.0 * together + 1.0) / (count * others)))
    own = np.ones(rows)
    own[varied] = _geyer(rho[varied], count)
    clearly = own > together * (1.0 + 2.0 * np.sqrt(2.0 * (6.0 * own + 1.0) / count))
    return shared, np.where(clearly, np.maximum(own, shared), shared)


def _geyer(rho: Floats, count: int) -> Floats:
    pairs = rho.reshape(len(rho), -1, 2).sum(axis=2)
    ended = np.cumsum(pairs <= 0.0, axis=1) > 0
    kept = (~ended).sum(axis=1)
    total = 2.0 * np.where(ended, 0.0, pairs).sum(axis=1) - 1.0
    window = np.minimum(0.75, np.maximum(0, 4 * kept - 1) / count)
    times: Floats = np.clip(total / (1.0 - window), 1.0, count)
    return times
