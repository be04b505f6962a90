"""Limits of the family `convergence`. Where a source says "simulated", `benchmarks/convergence` does it again."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import Threshold

_NOISE: Final = "Gaussian, lognormal, Student t3, AR to .9, falling, heteroscedastic"

LIMITS: Final[Mapping[str, Threshold]] = {
    "course_values_minimum": Threshold(
        30,
        "count",
        "stretches of eight values, three of them and a rest, are the least that has a course",
    ),
    "spike_chance": Threshold(
        0.005,
        "share",
        f"of runs of noise, at most, with a spike in one signal, shared among values and medians of three lengths; a quarter of it for sizes, whose tails are learnt, and half where values remember each other; simulated ({_NOISE}): of 1,000 runs of each of 12 kinds, of 1,000 and of 10,000 steps, 3 at most had a finding of any kind",
    ),
    "spike_spreads": Threshold(
        6.0, "ratio", "Gaussian noise passes it once in 10^9 values, so any run may be that long"
    ),
    "loss_spike_ratio": Threshold(
        1.1,
        "ratio",
        "a tenth above the usual loss: what people mark as a spike in published loss curves",
    ),
    "loss_spike_of_start": Threshold(
        0.02, "share", "less than a fiftieth of the first loss cannot be seen in a plot of the run"
    ),
    "grad_spike_ratio": Threshold(
        5.0,
        "ratio",
        "gradient norms double and halve with the batch (lognormal 0.4 passes 5 in one of 30,000)",
    ),
    "grad_rise_ratio": Threshold(
        10.0, "ratio", "a level; norms grow a few times over as training sharpens"
    ),
    "trend_clearness": Threshold(
        4.0,
        "ratio",
        "standard errors of the difference of two quarters; describes and does not judge",
    ),
    "trend_flat": Threshold(
        0.05, "share", "of the level: a change that is less, its error included, is none"
    ),
    "rise_clearness": Threshold(
        10.0,
        "ratio",
        f"of the differences of neighbouring stretches; simulated ({_NOISE}): no rise in 1,000 runs of each kind, of 1,000 and of 10,000 steps",
    ),
    "rise_over_earlier": Threshold(
        2.5,
        "ratio",
        "over the highest climb before: a loss that rises and falls with its schedule is none",
    ),
    "diverged_ratio": Threshold(
        1.5,
        "ratio",
        "of loss: a language model's 2.5 nats become 3.75, more than it had after its first thousandth",
    ),
    "diverged_lost_share": Threshold(
        0.5, "share", "the larger part of what had been gained is gone"
    ),
    "worse_ratio": Threshold(1.1, "ratio", "a tenth, as for a spike"),
    "lost_values_certain": Threshold(
        2,
        "count",
        "one value may be a batch that overflowed and was skipped; two in a row to the end are none",
    ),
    "lost_norms_minimum": Threshold(
        10,
        "count",
        "a gradient scaler halves its scale at each overflow; ten in a row divide it by 1,024",
    ),
    "plateau_values_minimum": Threshold(
        400, "count", "twenty blocks of ten in the half that may be level"
    ),
    "plateau_fall_share": Threshold(
        0.1, "share", "a loss that had not fallen by a tenth had nothing to stop"
    ),
    "plateau_margin": Threshold(
        0.01,
        "share",
        "of the fall; simulated: of 1,000 runs of each of 12 kinds that fall or are level none passes it",
    ),
    "mark_chance": Threshold(
        0.1,
        "share",
        "of runs of noise with a mark in one signal; how many marks there are is counted in the bound",
    ),
    "meeting_spreads": Threshold(
        5.0, "ratio", "as a fence of the step time: nothing smaller is looked at"
    ),
    "meeting_chance": Threshold(
        0.02,
        "count",
        f"meetings that chance brings about in one run, as a bound; simulated ({_NOISE}): 2 meetings at most in 1,000 runs of each kind, of 1,000 and of 10,000 steps",
    ),
    "meeting_values_minimum": Threshold(64, "count", "32 values on either side say what is usual"),
}
