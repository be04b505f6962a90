"""The family `communication`: what ranks lose while data move between them, and pipelines of stages on ranks."""

from typing import Final

from traintrace_analysis.rules.communication import exposed_comm, pipeline_bubble
from traintrace_analysis.rules.rule import Family

FAMILY: Final = Family("communication", rules=(exposed_comm.RULE, pipeline_bubble.RULE))
