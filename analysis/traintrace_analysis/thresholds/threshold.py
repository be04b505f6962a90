"""One limit, with where it comes from."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit.

    Attributes:
        value: The limit, in `unit`.
        unit: Of `value`: "share" (0 to 1), "ratio", "log" (natural), "count", "steps", "readings", "ms", "s",
            "bytes", "degC", ... as doctor prints it.
        source: Where the number comes from, or why it is what it is.
    """

    value: float
    unit: str
    source: str


FIELD: Final = "field practice: training diagnosis tools warn at a tenth of the step"
FIELD_CRITICAL: Final = "field practice: a fifth of the step is called critical"
