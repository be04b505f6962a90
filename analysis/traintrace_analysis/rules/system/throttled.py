"""GPUs whose clock is held back, and what that costs where it can be measured."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from traintrace.readings import DeviceReading
from traintrace_analysis.context import NS_PER_S, Context
from traintrace_analysis.findings import Finding, Severity
from traintrace_analysis.reading_columns import column, quotients
from traintrace_analysis.replay import without
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.system.gpus import Gpu, gpus, needs_gpu
from traintrace_analysis.statistics import cautious_time
from traintrace_analysis.step_window import Floats, Marks
from traintrace_analysis.thresholds import limit
from traintrace_analysis.throttling import POWER_CAP, held_back
from traintrace_analysis.wording import listed, number, percent, seconds

_KIND: Final = "GPU_THROTTLED"
_CONFIDENCE: Final = 0.90


@dataclass(frozen=True, slots=True)
class _Throttled:
    gpu: Gpu
    held: Marks
    reasons: tuple[str, ...]

    @property
    def share(self) -> float:
        return float(self.held.mean())


@dataclass(frozen=True, slots=True)
class _Slowdown:
    """How much longer the steps were while the clock was held back.

    Attributes:
        cost_s: Their excess over the other steps, scaled from the window to the run. ratio: of the mean step times.
        excess_ns: The same by steady step, on average; 0 on the others.
    """

    cost_s: float
    ratio: float
    excess_ns: Floats


def gpu_throttled(context: Context) -> list[Finding]:
    """Find GPUs whose clock was held back by heat, power or the board in the steady steps."""
    found = _throttled(context)
    if not found:
        return []
    worst = _worst(found)
    slowdown = _slowdown(context, worst)
    cost_s = 0.0 if slowdown is None else slowdown.cost_s
    by_design = worst.reasons == (POWER_CAP,) and slowdown is None
    severity: Severity = "info" if by_design else "warning"
    clock, most = _clocks(worst.gpu.readings, worst.held)
    at = (
        ""
        if clock is None or most is None
        else f", at {number(clock)} MHz of {number(most)} on average"
    )
    why = (
        f"In {percent(worst.share)} of the readings during steady steps the driver gave {listed(worst.reasons)} as the "
        f"reason for a lower clock{at}."
    )
    if slowdown is not None:
        why += f" Steps took {percent(slowdown.ratio - 1.0)} longer meanwhile, {seconds(cost_s)} in all."
    else:
        why += " What it costs cannot be told: the run has no stretch without it to compare with, or the steps were as fast."
    return [
        Finding(
            id="gpu-throttled",
            kind=_KIND,
            family="system",
            severity=severity,
            confidence=_CONFIDENCE,
            ranks=tuple(sorted({one.gpu.rank for one in found})),
            evidence={
                "throttled_share": worst.share,
                "reasons": ",".join(worst.reasons),
                "sm_clock_throttled_mhz": clock,
                "sm_clock_max_mhz": most,
                "step_time_ratio": None if slowdown is None else slowdown.ratio,
                "worst_rank": worst.gpu.rank,
                "worst_device": worst.gpu.device,
            },
            cost_s=cost_s,
            cost_basis="window",
            gain=without(context.rank.totals, cost_s, basis="window"),
            headline=f"The clock of GPU {worst.gpu.device} on rank {worst.gpu.rank} is held back {percent(worst.share)} of the time.",
            why=why,
            action=_action(worst.reasons),
        )
    ]


def slowed_ns(context: Context) -> Floats:
    """Give what the finding about clocks names of the representative rank's steady steps, in ns; else 0.

    Where another rank's device is held back and waiting is marked, the wait says so already.
    """
    none = np.zeros(context.window.steady_steps)
    found = _throttled(context)
    if not found:
        return none
    worst = _worst(found)
    slowdown = _slowdown(context, worst)
    waits = worst.gpu.rank != context.rank.rank and "gradient_sync" in context.window.host
    return none if slowdown is None or waits else slowdown.excess_ns


def _throttled(context: Context) -> list[_Throttled]:
    found = [_look(gpu) for gpu in gpus(context, "throttle_reasons")]
    return [one for one in found if one.share >= limit("throttled_share")]


def _worst(found: list[_Throttled]) -> _Throttled:
    return max(found, key=lambda one: (one.reasons != (POWER_CAP,), one.share))


def _look(gpu: Gpu) -> _Throttled:
    """Tell in which readings the clock was held back: a reason, and a clock that is lower."""
    words = [held_back(one) or frozenset() for one in gpu.readings]
    held = np.asarray([bool(one) for one in words])
    ratio = quotients(
        column(gpu.readings, "sm_clock_mhz"), column(gpu.readings, "sm_clock_max_mhz")
    )
    held &= ~(ratio >= limit("throttled_clock"))  # an unknown clock does not acquit
    seen = {word for one, is_held in zip(words, held, strict=True) if is_held for word in one}
    return _Throttled(gpu, held, tuple(sorted(seen)))


def _clocks(readings: Iterable[DeviceReading], held: Marks) -> tuple[float | None, float | None]:
    """Give the mean clock while it was held back, and the highest there is."""
    rows = list(readings)
    clock, most = column(rows, "sm_clock_mhz")[held], column(rows, "sm_clock_max_mhz")[held]
    known = np.isfinite(clock) & np.isfinite(most)
    return (float(clock[known].mean()), float(most[known].mean())) if known.any() else (None, None)


def _slowdown(context: Context, throttled: _Throttled) -> _Slowdown | None:
    """Compare steps while the clock was held back with the others; None where nothing is certain."""
    window = context.window
    if throttled.gpu.rank not in window.ranks:
        return None
    row, first = window.ranks.index(throttled.gpu.rank), window.warmup_steps
    moments = np.asarray([one.at_ns for one in throttled.gpu.readings], dtype=np.int64)
    middle = (window.open_ns[row, first:] + window.close_ns[row, first:]) // 2
    after = np.clip(np.searchsorted(moments, middle), 1, len(moments) - 1)
    nearest = after - (middle - moments[after - 1] < moments[after] - middle)
    slow = throttled.held[nearest]
    times = window.host["step_time"][row, first:]
    least = limit("throttled_steps_minimum")
    if slow.sum() < least or (~slow).sum() < least:
        return None
    held, free = times[slow], times[~slow]
    excess = float(held.mean() - free.mean())
    # Stretches are contiguous mostly, so each side keeps the memory of its steps.
    error = np.sqrt(
        sum(float(part.var()) * cautious_time(part) / len(part) for part in (held, free))
    )
    if (
        excess < limit("throttled_slower") * free.mean()
        or excess < limit("throttled_significance") * error
    ):
        return None
    # The run may be longer than its window, and is taken to be alike.
    steps = window.facts[row].totals.steps - window.warmup_steps
    whole = max(1.0, steps / window.steady_steps)
    return _Slowdown(
        cost_s=excess * len(held) * whole / NS_PER_S,
        ratio=float(held.mean() / free.mean()),
        excess_ns=np.where(slow, excess, 0.0),
    )


def _action(reasons: tuple[str, ...]) -> str:
    if any("thermal" in word for word in reasons):
        return "Improve the device's cooling (fans, air flow, a neighbour that heats it); lowering its power limit a little also keeps the clock steady."
    if any("brake" in word or word == "hw_slowdown" for word in reasons):
        return (
            "Look at the node's power supply and cooling: the board asked the device to slow down."
        )
    return "Look at the power limit (nvidia-smi -q -d POWER): raise it if somebody lowered it."


RULE: Final = Rule(
    topic="clocks of the GPUs",
    kinds=(
        Kind(
            name=_KIND,
            means="The driver holds a GPU's clock back because of heat, power or the board.",
            fires=(
                "In a tenth of the steady readings it gives such a reason while the clock is under 95 % of the "
                "highest. The software power cap alone is an observation, unless steps are measurably slower meanwhile."
            ),
            never=(
                "Seconds, unless steps with and without it could be compared within the run. Idle clocks and "
                "clocks that a person set are not meant. Seconds that other findings name are counted there."
            ),
            action="Improve cooling or power, by the reason that is given.",
            limits=(
                "throttled_share",
                "throttled_clock",
                "throttled_steps_minimum",
                "throttled_significance",
                "throttled_slower",
                "machine_readings_minimum",
            ),
        ),
    ),
    examine=gpu_throttled,
    missing=needs_gpu("reasons for a lower clock of a GPU", "throttle_reasons"),
)
