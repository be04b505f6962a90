"""The family `system`: what the nodes and their GPUs say."""

from typing import Final

from traintrace_analysis.rules.rule import Family
from traintrace_analysis.rules.system import power, ram, temperature, throttled, utilisation

FAMILY: Final = Family(
    "system",
    rules=(utilisation.RULE, temperature.RULE, throttled.RULE, power.RULE, ram.RULE),
)
