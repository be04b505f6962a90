"""The summary's section on how training went: loss and gradient norm, what spiked, what explains the step time."""

import math
from typing import Any, Final

from traintrace_analysis import Analysis
from traintrace_analysis.convergence import Convergence, Course
from traintrace_analysis.convergence.explained import Explained
from traintrace_analysis.convergence.together import Meeting

_SPIKES: Final = 20


def section(analysis: Analysis) -> dict[str, Any] | None:
    """Give the section of the summary; None if nothing was logged and no amount of data is known."""
    found = analysis.convergence
    return None if found is None else _section(found)


def _section(found: Convergence) -> dict[str, Any]:
    return {
        "rank": found.rank,
        "loss": _course(found.loss),
        "grad_norm": _course(found.grad_norm),
        "others": [_numbers(course) for course in found.others],
        "meetings": [_meeting(meeting) for meeting in found.meetings[:_SPIKES]],
        "meetings_count": len(found.meetings),
        "step_time_explained": _explained(found.explained),
    }


def _course(course: Course | None) -> dict[str, Any] | None:
    if course is None:
        return None
    rise, plateau, lost = course.rise, course.plateau, course.lost
    return {
        **_numbers(course),
        "trend": course.trend,
        "lost_at_step": None if lost is None else lost.step,
        "rose_at_step": None if rise is None else rise.step,
        "rose_from": None if rise is None else _number(rise.low),
        "rose_to": None if rise is None else _number(rise.high),
        "level_since_step": None if plateau is None else plateau.step,
        "spikes_count": len(course.spikes),
        "spikes": [
            {
                "first_step": spike.first_step,
                "last_step": spike.last_step,
                "peak_step": spike.peak_step,
                "peak": _number(spike.peak),
                "usual": _number(spike.level),
                "spreads_ratio": _number(spike.spreads),
            }
            for spike in course.spikes[:_SPIKES]
        ],
    }


def _numbers(course: Course) -> dict[str, Any]:
    return {
        "name": course.name,
        "role": course.role,
        "values_count": course.count,
        "not_finite_count": course.not_finite,
        "first_step": course.first_step,
        "last_step": course.last_step,
        "first": _number(course.first),
        "last": _number(course.last),
        "lowest": _number(course.lowest),
        "lowest_step": course.lowest_step,
        "highest": _number(course.highest),
        "highest_step": course.highest_step,
    }


def _meeting(meeting: Meeting) -> dict[str, Any]:
    return {
        "first_step": meeting.first_step,
        "last_step": meeting.last_step,
        "signals": list(meeting.signals),
        "spreads_ratio": [_number(size) for size in meeting.spreads],
        "by_chance_count": _number(meeting.by_chance),
        "of_batch": meeting.of_batch,
    }


def _explained(explained: Explained | None) -> dict[str, Any] | None:
    if explained is None:
        return None
    return {
        "amount": explained.amount,
        "share": explained.share,
        "share_low": explained.low,
        "share_high": explained.high,
        "amount_spread_share": explained.spread,
        "us_per_unit": explained.ns_per_unit / 1e3,
        "padding_share": explained.padding_share,
        "steps_count": explained.steps,
    }


def _number(value: float | None) -> float | None:
    """Give a number that strict JSON can hold."""
    return value if value is not None and math.isfinite(value) else None
