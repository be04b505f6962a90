"""What speaks against the step time's answer: then the verdict is mixed."""

from collections.abc import Sequence
from typing import Final

from traintrace_analysis.comparison.figures import DEVICE_PEAKS
from traintrace_analysis.comparison.long_steps import LongSteps
from traintrace_analysis.comparison.model import FigureComparison, Judgement, PhaseBlame
from traintrace_analysis.wording import seconds, size

_OPPOSITE: Final[dict[Judgement, tuple[Judgement, ...]]] = {
    "regressed": ("improved",),
    "improved": ("regressed",),
    "equivalent": ("regressed", "improved"),
}


def against_the_step_time(
    judged: Judgement,
    long: LongSteps | None,
    phases: Sequence[PhaseBlame],
    figures: Sequence[FigureComparison],
) -> tuple[str, ...]:
    """Name what changed beyond chance in another direction than the step time.

    Only what the usual step does not hold: long steps, time between steps, and the device's memory.
    """
    opposite = _OPPOSITE.get(judged, ())
    told = [long.told] if long is not None and long.judged in opposite else []
    told += [
        f"{one.name} between steps takes {seconds(abs(one.difference_s))} a step "
        f"{'more' if one.judged == 'regressed' else 'less'}"
        for one in phases
        if one.place == "between" and one.judged in opposite and one.difference_s is not None
    ]
    told += [
        f"{one.name.removesuffix('_bytes').replace('_', ' ')} memory is "
        f"{size(one.a)} in A and {size(one.b)} in B"
        for one in figures
        if one.name in DEVICE_PEAKS
        and one.judged in opposite
        and one.a is not None
        and one.b is not None
    ]
    return tuple(told)
