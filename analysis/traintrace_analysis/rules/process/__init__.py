"""The family `process`: what the run's own processes use, and what they wait for."""

from typing import Final

from traintrace_analysis.rules.process import oversubscribed, usage
from traintrace_analysis.rules.rule import Family

FAMILY: Final = Family("process", rules=(usage.RSS, usage.CPU, oversubscribed.RULE))
