"""Traces of torch.profiler: where device time went, which communication is exposed, who kept whom waiting.

Pure: a trace arrives parsed, as columns. `analyse_traces` is the door, `compare_traces` the one for two runs.
"""

from traintrace_analysis.traces.comparing import TraceComparison, compare_traces
from traintrace_analysis.traces.summary import TraceAnalysis, TraceTime, analyse_traces
from traintrace_analysis.traces.trace import Trace

__all__ = [
    "Trace",
    "TraceAnalysis",
    "TraceComparison",
    "TraceTime",
    "analyse_traces",
    "compare_traces",
]
