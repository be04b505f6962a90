"""Launch training on this node with one process or many, and say how it ended.

Everything is loaded on first use: a worker needs none of it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "Ended": "supervise",
    "LaunchPlan": "plan",
    "NodeOutcome": "outcome",
    "Target": "plan",
    "collect_outcomes": "outcome",
    "command_of": "plan",
    "launch": "launching",
    "write_outcome": "outcome",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in __all__:
        return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'torchrun')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
