"""The efficiency budget: where a rank's wall time went, measured against what its device could do.

The wall ledger stays what it is, and nothing is clamped to make it look better: the time that the run's own
floating-point work would take at the device's peak is laid beside the time that computing took, and all
lines together are the wall time to the nanosecond.
"""

from traintrace_analysis.efficiency.measuring import (
    measure_efficiency,
    name_findings,
    problems,
    with_peak,
)
from traintrace_analysis.efficiency.model import EfficiencyBudget, Work
from traintrace_analysis.efficiency.peak import told_of_peak

__all__ = [
    "EfficiencyBudget",
    "Work",
    "measure_efficiency",
    "name_findings",
    "problems",
    "told_of_peak",
    "with_peak",
]
