"""Amounts that a command line may give as a number or as a word."""

from typing import Any

import click

from traintrace.errors import UsageError
from traintrace.flopfacts import COUNT
from traintrace.options import check_peak


class Operations(click.ParamType[float | str]):
    """Operations of one step: a number such as 1.2e12, or the word that has them counted."""

    name = "operations"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        """Give the word as it is, and anything else as a number."""
        if value == COUNT:
            return COUNT
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is no number such as 1.2e12, and not {COUNT}", param, ctx)


class Peak(click.ParamType[float]):
    """What a device can do, in 1e12 operations a second."""

    name = "peak"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Give the number; it is one that a device may have."""
        try:
            peak = float(value)
            check_peak(peak)
        except (ValueError, UsageError):
            self.fail(f"{value!r}: use a number above 0 in 1e12 operations a second", param, ctx)
        return peak
