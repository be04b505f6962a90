"""Limits of the family `system`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

LIMITS: Final[Mapping[str, Threshold]] = {}
