"""What to change about a run that waits for its batches, said with the configuration it really had."""

from traintrace_analysis.rules.advice.feeding import Feeding, advise
from traintrace_analysis.rules.advice.supply import Supply, measure_supply

__all__ = ["Feeding", "Supply", "advise", "measure_supply"]
