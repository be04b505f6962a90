"""Where the values that two runs logged part: the first step at which bits differ, and beyond a tolerance.

Says that values part, never why. Steps that only one run logged say nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from traintrace.facts import Scalar

State = Literal["identical", "within_tolerance", "parted", "not_comparable"]


@dataclass(frozen=True, slots=True)
class Parting:
    """A place where two runs logged different values."""

    step: int
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class Divergence:
    """One logged value in two runs.

    Attributes:
        state: "identical" to the last bit on all common steps; "within_tolerance"; "parted" beyond it;
            "not_comparable" without a common step.
        common_steps: Steps on which both runs logged it.
        bits: First common step on which the values are not the same number; None if there is none.
        beyond: First common step on which they differ by more than the tolerance; None as above.
    """

    name: str
    state: State
    common_steps: int
    bits: Parting | None
    beyond: Parting | None


def find_divergences(
    a: Sequence[Scalar], b: Sequence[Scalar], tolerance: float
) -> tuple[Divergence, ...]:
    """Compare all that was logged under one name in both runs, by name.

    Args:
        a: What one rank of the first run logged.
        b: The same of the second run.
        tolerance: Largest difference over the larger magnitude that is none.

    Raises:
        ValueError: The tolerance is negative or not finite.
    """
    if not (math.isfinite(tolerance) and tolerance >= 0.0):
        raise ValueError(f"tolerance must be a number that is not negative, not {tolerance!r}")
    one, other = _by_name(a), _by_name(b)
    names = [name for name in one if name in other]
    return tuple(_compare(name, one[name], other[name], tolerance) for name in sorted(names))


def _by_name(scalars: Sequence[Scalar]) -> dict[str, dict[int, float]]:
    """Give the last value logged under each name at each step."""
    found: dict[str, dict[int, float]] = {}
    for scalar in scalars:
        found.setdefault(scalar.name, {})[scalar.step] = scalar.value
    return found


def _compare(
    name: str, a: Mapping[int, float], b: Mapping[int, float], tolerance: float
) -> Divergence:
    steps = sorted(a.keys() & b.keys())
    bits = beyond = None
    for step in steps:
        if bits is None and not _same(a[step], b[step]):
            bits = Parting(step, a[step], b[step])
        if not _close(a[step], b[step], tolerance):
            beyond = Parting(step, a[step], b[step])
            break
    state: State = "identical"
    if not steps:
        state = "not_comparable"
    elif beyond is not None:
        state = "parted"
    elif bits is not None:
        state = "within_tolerance"
    return Divergence(name, state, len(steps), bits, beyond)


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _close(a: float, b: float, tolerance: float) -> bool:
    if _same(a, b):
        return True
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    return abs(a - b) <= tolerance * max(abs(a), abs(b))
