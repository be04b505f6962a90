"""The family `ranks`: which ranks keep the others waiting, and why."""

from typing import Final

from traintrace_analysis.rules.ranks import (
    load_imbalance,
    rotating_straggler,
    silent_rank,
    straggler,
)
from traintrace_analysis.rules.ranks.waiting import doubt
from traintrace_analysis.rules.rule import Family

FAMILY: Final = Family(
    "ranks",
    rules=(straggler.RULE, rotating_straggler.RULE, load_imbalance.RULE, silent_rank.RULE),
    doubt=doubt,
)
