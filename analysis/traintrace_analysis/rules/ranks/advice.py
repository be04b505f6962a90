"""What to do about a rank that the others wait for, by the account that it is slow in."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.ranks import Straggler

_ACTIONS: Final[Mapping[str, str]] = {
    "input_wait": "Look at the input of {who}: shard, disk or mount, loader workers and their CPUs.",
    "h2d": "Look at the link of {who}: the PCIe slot and its width, NUMA binding, pinned memory.",
    "forward": (
        "If the work is the same on every rank, look at {machine}: clocks, temperature, other "
        "processes; then at what happens in forward there and nowhere else."
    ),
    "backward": (
        "If the work is the same on every rank, look at {machine}: clocks, temperature, other "
        "processes; then at hooks and recomputation that the others do not have."
    ),
    "optimizer": "Look at the optimizer of {who}: larger shards, offloading, a slow machine.",
    "compute": (
        "All compute is slow there, which points at {machine}: clocks, temperature, power, other "
        "processes. Train elsewhere once to be sure."
    ),
    "callbacks": "Look for callbacks that run only on {who}, and make them rarer or asynchronous.",
    "logging": "Log less often on {who}, or from a thread: all ranks wait while one logs.",
    "gap": "Look for what happens between two steps on {who} and nowhere else.",
}
_UNFED: Final = (
    "Look at the input of {who}: shard, disk or mount. Its batches are made in the training loop "
    "(num_workers=0): give every rank loader workers."
)
_READS_FOR_ALL: Final = (
    "Rank 0 reads the batches of all ranks (accelerate's dispatch mode) and {who} waits for them: set "
    "dispatch_batches=False, so that each rank reads its own, or give the loader of rank 0 workers for all."
)
_UNKNOWN: Final = (
    "Mark the code of {who} with traintrace.region(), and compare it with another rank."
)
_UNSPLIT: Final = (
    "Trace {who} and another rank for a few steps with torch.profiler: the one whose kernels take longer, "
    "rather than its collectives, is slow."
)


def advise(context: Context, one: Straggler, who: str) -> str:
    """Give one concrete change.

    Args:
        context: The run, whose loader settings decide what can be advised about input.
        one: The slow rank or ranks, with the account that they are slow in.
        who: The same in words, as `ranks_text` writes them.
    """
    account = one.cause.account
    if account is None:
        return _UNSPLIT.format(who=who)
    if account == "input_wait" and any(
        rank.setup.loader.reads_for_all for rank in context.window.facts
    ):
        return _READS_FOR_ALL.format(who=who)
    if account == "input_wait" and context.rank.setup.loader.workers == 0:
        return _UNFED.format(who=who)
    machine = f"the machine of {who}" if len(one.rows) == 1 else f"the machines of {who}"
    if one.node is not None:
        machine = f"node {one.node}"
    return _ACTIONS.get(account, _UNKNOWN).format(who=who, machine=machine)
