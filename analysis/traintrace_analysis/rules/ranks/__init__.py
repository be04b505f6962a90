"""The family `ranks`."""

from typing import Final

from traintrace_analysis.rules.rule import Family

FAMILY: Final = Family("ranks", rules=())
