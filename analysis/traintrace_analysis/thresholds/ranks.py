"""Limits of the family `ranks`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD_CRITICAL, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "rank_false_alarm": Threshold(
        0.01,
        "share",
        "reports of an even job that blame a rank, over all ranks (Sidak) and looks; simulated, CV 5 and "
        "20 %, AR(.5) and AR(.9), 1 % spikes, 100 and 400 steps: 0.3 % of 8,400 jobs of 2 to 8 ranks (most, "
        "1.2 % of 400, at 2 ranks, CV 20 %, AR(.9)), 0.6 % of 1,340 of 64 and 512 ranks",
    ),
    "straggler_share_warning": Threshold(
        0.03,
        "share",
        "of step time, less what ranks wait because they differ by chance; machines of one kind differ by 1 "
        "to 2 %. Simulated: a rank 5 % slower is found within 100 steps at CV 5 % and AR(.5) in 93 % of 300 "
        "jobs of 8 ranks, 96 % of 100 of 64 and 14 of 16 of 512; in 82 % with 4 ranks and 45 % with 2",
    ),
    "straggler_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "straggler_loss_floor": Threshold(
        0.2, "ms", "the scheduler and interrupts alone make ranks of tiny steps differ by so much"
    ),
    "rank_independent_steps": Threshold(
        4.0, "steps", "fewer tell neither the spread nor the memory of the steps; simulated"
    ),
    "rank_outside_spread": Threshold(
        8.0,
        "ratio",
        "standard deviations of single steps; a mean as far out is no chance however long the memory",
    ),
    "rank_persistence": Threshold(
        0.33, "ratio", "either half of the window shows at least a third of the excess"
    ),
    "onset_steps": Threshold(
        10.0,
        "steps",
        "since a rank became slow; fewer are a pause and no pace, whatever their excess",
    ),
    "rank_outlier": Threshold(
        3.0,
        "ratio",
        "standard deviations at which a slow step is pulled in; at 3 spikes on 1 % of the steps "
        "cost 4 % of the precision, at 5 they cost 12 %",
    ),
    "waits_less": Threshold(
        0.5,
        "ratio",
        "of its excess; a rank that the others wait for waits that much less itself, but for noise",
    ),
    "node_members": Threshold(
        0.75, "share", "of its ranks; fewer slow ranks are named one by one, and the node is not"
    ),
    "cause_covers": Threshold(
        0.5, "share", "of the excess; less than half leaves another cause the larger one"
    ),
    "cause_covers_sharded": Threshold(
        0.8, "share", "of the excess, where forward and backward may hold communication"
    ),
    "load_spread": Threshold(
        0.01, "ratio", "batches that differ by less than 1 % cannot explain 3 % of a step"
    ),
    "load_explained": Threshold(
        0.5, "share", "of the variance of own work between ranks; the amount is then its main cause"
    ),
    "rotating_outlier": Threshold(
        0.01,
        "share",
        "rounds in which the slowest of as many equal ranks lies so far out, by their ordinary spread: 2.6 "
        "standard deviations at 2 ranks, 3.6 at 64",
    ),
    "rotating_excess": Threshold(
        0.10, "ratio", "a round that a rank prolongs by less than a tenth is not called late"
    ),
    "rotating_late_share": Threshold(
        0.25,
        "share",
        "of the rounds; rarer ones are spikes, and count from `rotating_seldom_share`",
    ),
    "rotating_share_warning": Threshold(0.05, "share", "of step time that late rounds cost"),
    "rotating_seldom_share": Threshold(
        0.10,
        "share",
        "of step time that rare late rounds cost; the line of JITTER. All wait for the slowest, so rare "
        "spikes of each rank add up: simulated at CV 20 %, 1 % of steps of 2 to 6 times the usual time cost "
        "3 % with two ranks and 8 % with 4, which is ordinary, 12 % with 8, 42 % with 64 and 66 % with 512, "
        "which is lost time whoever has it",
    ),
    "rotating_seldom_confidence": Threshold(
        0.75, "share", "chance that rare late rounds cost so much, as for JITTER"
    ),
    "carrier_share": Threshold(
        0.6,
        "share",
        "of the time that late rounds cost; below it no single rank is blamed for them",
    ),
    "carrier_episodes": Threshold(
        8.0, "steps", "separate occasions; fewer are an accident and not a rank's habit"
    ),
    "carrier_confidence": Threshold(
        0.9, "share", "the count is beyond chance, but other ranks may have the same habit, rarer"
    ),
    "silent_seconds": Threshold(
        120.0, "s", "twice the interval at which nodes publish their rows; less may be on its way"
    ),
    "silent_steps": Threshold(
        10.0, "steps", "no rank that takes part can fall behind by more than a step or two"
    ),
}
