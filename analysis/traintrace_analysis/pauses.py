"""Which account a pause lay in, where only its length and its step are known."""

from collections.abc import Mapping

import numpy as np

from traintrace_analysis.step_window import Floats

_CALM_STEPS = 5  # as many without a pause tell what an account usually takes
_CALM = 0.01  # of the step: a pause that short changes no median


def share_out(accounts: Mapping[str, Floats], pauses: Floats) -> dict[str, Floats]:
    """Divide each step's pause among its accounts.

    A pause lies first in what exceeds the account's usual time, which steps without a pause tell; what is
    left of it is shared in proportion. No account gives more than it took.

    Args:
        accounts: Matrices of ranks by steps, in ns; NaN counts as nothing.
        pauses: Of the same shape.

    Returns:
        The part of `pauses` in each account.
    """
    if not accounts:
        return {}
    spent = np.stack([np.nan_to_num(part) for part in accounts.values()])
    whole = spent.sum(axis=0)
    pauses = np.clip(pauses, 0.0, np.maximum(whole, 0.0))
    calm = pauses <= _CALM * whole
    calm |= calm.sum(axis=1, keepdims=True) < _CALM_STEPS
    usual = np.nanmedian(np.where(calm, spent, np.nan), axis=2, keepdims=True)
    above = np.maximum(spent - usual, 0.0)
    parts = above * _part(pauses, above.sum(axis=0))
    rest = np.maximum(spent - parts, 0.0)
    parts += rest * _part(pauses - parts.sum(axis=0), rest.sum(axis=0))
    return dict(zip(accounts, parts, strict=True))


def _part(wanted: Floats, there: Floats) -> Floats:
    """Give which part, 0 to 1, of what is there makes what is wanted."""
    part = np.zeros_like(there)
    np.divide(wanted, there, out=part, where=there > 0.0)
    return np.clip(part, 0.0, 1.0)
