"""The family `efficiency`: what training reaches of what its device could do, and what nobody else names."""

from typing import Final

from traintrace_analysis.rules.efficiency import low_mfu, recoverable
from traintrace_analysis.rules.rule import Family

# Without an MFU nobody knows how efficient a run is, whatever its lines are.
FAMILY: Final = Family(
    "efficiency", rules=(low_mfu.RULE, recoverable.RULE), essential=(low_mfu.RULE,)
)
