"""The family `memory`."""

from typing import Final

from traintrace_analysis.rules.rule import Family

FAMILY: Final = Family("memory", rules=())
