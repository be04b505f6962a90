"""Limits of the family `ranks`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

LIMITS: Final[Mapping[str, Threshold]] = {}
