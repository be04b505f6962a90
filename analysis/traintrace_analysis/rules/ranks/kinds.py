"""What the kinds of stragglers mean, for people."""

from typing import Final

from traintrace_analysis.rules.rule import Kind

_LIMITS: Final = (
    "rank_false_alarm",
    "straggler_share_warning",
    "straggler_share_critical",
    "straggler_loss_floor",
    "rank_persistence",
    "cause_covers",
    "cause_covers_sharded",
)
_FIRES: Final = (
    "Own work before the synchronisation exceeds the median of the other ranks by 3 % of the step or "
    "more, in both halves of the window or all the time since a step in its second half, beyond what chance brings forth in one of a hundred reports; and "
)

STRAGGLER_KINDS: Final = (
    Kind(
        name="INPUT_STRAGGLER",
        means="One rank waits longer for its batches than the others, and all wait for it.",
        fires=_FIRES + "its wait for batches makes up most of it.",
        never="That the loader is slow: the rank's data, disk, or CPUs may be.",
        action="Look at that rank's shard, disk and loader workers.",
        limits=_LIMITS,
    ),
    Kind(
        name="H2D_STRAGGLER",
        means="One rank moves its batches to the device more slowly, and all wait for it.",
        fires=_FIRES + "its transfers make up most of it.",
        never="That the link is at fault: larger batches or memory that is not pinned look alike.",
        action="Look at that rank's PCIe link, NUMA binding and pinning.",
        limits=_LIMITS,
    ),
    Kind(
        name="COMPUTE_STRAGGLER",
        means="One rank computes more slowly, in forward, in the optimizer, or throughout.",
        fires=_FIRES + "forward, the optimizer, or all compute together makes up most of it.",
        never="That the machine is at fault, where the amount of work per rank is not known.",
        action="Look at that machine's clocks, temperature and other processes.",
        limits=_LIMITS,
    ),
    Kind(
        name="BACKWARD_STRAGGLER",
        means="One rank's own backward work takes longer, and all wait for its gradients.",
        fires=_FIRES + "its backward makes up most of it, with the end of its own work marked.",
        never="Anything where that end was not marked: all ranks' backward then looks alike.",
        action="Look at that machine, and at hooks or recomputation that only this rank has.",
        limits=_LIMITS,
    ),
    Kind(
        name="STRAGGLER",
        means="One rank keeps the others waiting, by something that is no phase or cannot be split.",
        fires=_FIRES + "no phase provably makes up most of it; or few of its steps are very slow.",
        never="A cause, where forward or backward may hold waiting for other ranks.",
        action="Mark what that rank does with traintrace.region(), or profile it beside another.",
        limits=(*_LIMITS, "carrier_share", "carrier_episodes"),
    ),
)
