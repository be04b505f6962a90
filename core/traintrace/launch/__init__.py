"""Launch training traced, with one process or many, and say how it ended."""

from traintrace.launch.launching import launch
from traintrace.launch.outcome import NodeOutcome, collect_outcomes, write_outcome
from traintrace.launch.plan import LaunchPlan, Target, command_of
from traintrace.launch.supervise import Ended
from traintrace.launch.torchrun import node_count, node_rank, processes_per_node

__all__ = [
    "Ended",
    "LaunchPlan",
    "NodeOutcome",
    "Target",
    "collect_outcomes",
    "command_of",
    "launch",
    "node_count",
    "node_rank",
    "processes_per_node",
    "write_outcome",
]
