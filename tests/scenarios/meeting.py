"""How long ranks wait for each other where their gradients meet."""

from collections.abc import Iterable, Mapping

import numpy as np

from tests.scenarios.record import Floats

_AFTER_THE_MEETING = ("optimizer", "clip", "callbacks", "other")


def waits(inside: Mapping[str, Floats], between: Iterable[Floats]) -> Floats:
    """Give what each rank waits at each step for the last one [ms], all of whom leave together.

    Args:
        inside: Own work by in-step account, ranks by steps; what follows the meeting is felt a step later.
        between: Time outside the step's accounts.
    """
    late = sum(
        (
            _felt_later(np.nan_to_num(ms)) if name in _AFTER_THE_MEETING else np.nan_to_num(ms)
            for name, ms in inside.items()
        ),
        start=np.float64(0.0),
    )
    late = np.asarray(sum(between, start=late))
    wait: Floats = late.max(axis=0) - late
    return wait


def _felt_later(values: Floats) -> Floats:
    moved = np.zeros_like(values)
    moved[:, 1:] = values[:, :-1]
    return moved
