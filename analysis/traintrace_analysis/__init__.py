"""Turn recorded training steps into findings with evidence, cost and gain.

One door, `analyse`, from typed facts to an `Analysis`: no files, no database, no printing.
"""

from traintrace_analysis.columns import REQUIRED_COLUMNS
from traintrace_analysis.model import Analysis
from traintrace_analysis.pipeline import analyse

__all__ = ["REQUIRED_COLUMNS", "Analysis", "analyse"]
