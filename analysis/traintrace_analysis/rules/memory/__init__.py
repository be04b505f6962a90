"""The family `memory`: room on devices and hosts, and what takes it."""

from typing import Final

from traintrace_analysis.rules.memory import creep, imbalance, pressure, reserve, retries
from traintrace_analysis.rules.rule import Family

FAMILY: Final = Family(
    "memory",
    rules=(
        pressure.RULE,
        imbalance.RULE,
        creep.RULE,
        reserve.FRAGMENTATION,
        reserve.OVERHANG,
        retries.RULE,
    ),
)
