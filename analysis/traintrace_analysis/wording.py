"""Numbers as a person reads them; used by headlines, reasons and actions."""

from collections.abc import Sequence


def percent(share: float) -> str:
    """Write a share of 1 as a whole percentage, with one decimal below 10 %."""
    return f"{share * 100:.0f} %" if share >= 0.0995 else f"{share * 100:.1f} %"


def milliseconds(value: float) -> str:
    """Write milliseconds with three digits."""
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def seconds(value: float) -> str:
    """Write seconds as seconds, minutes or hours."""
    if value < 120.0:
        return f"{value:.3g} s"
    return f"{value / 60:.0f} min" if value < 7200.0 else f"{value / 3600:.1f} h"


def listed(names: Sequence[str]) -> str:
    """Write names as "a, b and c"."""
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
