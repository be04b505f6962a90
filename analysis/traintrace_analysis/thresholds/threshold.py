"""One limit, with where it comes from."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit.

    Attributes:
        value: The limit, in `unit`.
        unit: "share" (0 to 1), "steps", "ms", "s", "ratio" or "log".
        source: Where the number comes from, or why it is what it is.
    """

    value: float
    unit: str
    source: str


FIELD: Final = "field practice: training diagnosis tools warn at a tenth of the step"
FIELD_CRITICAL: Final = "field practice: a fifth of the step is called critical"
