"""Limits of the family `step_time`."""

from collections.abc import Mapping
from typing import Final

from traintrace_analysis.thresholds.threshold import FIELD, FIELD_CRITICAL, Threshold

LIMITS: Final[Mapping[str, Threshold]] = {
    "input_share_warning": Threshold(0.10, "share", FIELD),
    "input_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "h2d_share_warning": Threshold(0.10, "share", FIELD),
    "h2d_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "residual_share_warning": Threshold(0.10, "share", FIELD),
    "residual_share_critical": Threshold(0.20, "share", FIELD_CRITICAL),
    "compute_share_dominates": Threshold(
        0.70, "share", "what is left when input, transfers and the rest all stay under a tenth"
    ),
    "step_loss_floor": Threshold(
        2.0,
        "ms",
        "a DataLoader needs 0.3 to 1 ms of Python per batch whatever the data; twice that is a cause",
    ),
    "loader_floor": Threshold(
        0.2,
        "ms",
        "the least Python time per batch of a DataLoader, which no loader setting removes: measured 0.15 "
        "to 0.23 ms in the examples of three frameworks",
    ),
    "loader_floor_workers": Threshold(
        1.0, "ms", "the same where batches come from worker processes: queue, pickling, hand-over"
    ),
    "bursty_wait": Threshold(
        0.50, "ratio", "median over mean; below it most steps wait little and a few wait long"
    ),
    "run_loss_floor": Threshold(
        60.0, "s", "a minute lost is worth a warning however little each step loses"
    ),
    "spike_factor": Threshold(
        2.0, "ratio", "over the local level; batch shapes that alternate differ by less than twice"
    ),
    "drift_steps_minimum": Threshold(
        60, "steps", "simulated: in 50 AR(.9) steps of 20 % one run in a hundred looks like growth"
    ),
    "drift_significance": Threshold(
        4.0,
        "ratio",
        "standard errors; simulated, 60 to 5,000 steps with 1 % of spikes: no alarm in 1,500 runs of each length for iid, 0 to 0.2 % for AR(.5)",
    ),
    "drift_short_memory": Threshold(
        25.0,
        "steps",
        "independent steps at which the demand doubles; simulated, 60 to 150 AR(.9) steps of 20 %: 0.1 to 0.3 % of runs look like growth, without it 3 %",
    ),
    "drift_plain": Threshold(
        10.0,
        "ratio",
        "of the rise to the scatter around it, which is then plain to see; simulated: the most of 1,500 AR(.9) runs is 8.5 from 60 steps on",
    ),
    "drift_report": Threshold(
        0.03,
        "share",
        "of the level at the start; 3 % is what a report can act on (FALCON 2024: 10 % to page)",
    ),
    "spike_regularity": Threshold(
        0.75,
        "share",
        "of the distances within a tenth of their median; chance gives a tenth of them",
    ),
    "spikes_minimum": Threshold(
        5, "steps", "irregular ones: at 1 % of spikes 100 steps hold five in 0.3 % of runs"
    ),
    "spikes_minimum_regular": Threshold(
        3, "steps", "two equal distances; a random second distance is equal in one run of fifty"
    ),
    "spikes_most": Threshold(
        0.34, "share", "of the steps; what holds for every third step is no exception but a spread"
    ),
    "jitter_share_warning": Threshold(
        0.10,
        "share",
        "of step time above the usual step, as for the phases; 1 % of steps five times "
        "as long cost 4 %",
    ),
    "jitter_share_critical": Threshold(0.30, "share", "a run that could be 1.4 times as fast"),
    "jitter_confidence": Threshold(
        0.75,
        "share",
        "of irregular spikes; simulated: 1 % of spikes in 200 steps reach it in 0.1 % of runs",
    ),
    "jitter_spread": Threshold(
        0.40,
        "log",
        "robust standard deviation; twice the 20 % that clean runs on shared machines show",
    ),
    "jitter_account_share": Threshold(
        0.50, "share", "of the excess; an account that holds less than half of it is not named"
    ),
    "work_correlation": Threshold(
        0.70, "ratio", "of step time with tokens or samples: half of the variance is then the work"
    ),
    "drift_growth_warning": Threshold(
        0.10, "share", "of the level at the start; 10 % is what FALCON (2024) pages for"
    ),
    "drift_growth_critical": Threshold(
        0.50, "share", "a step that takes half as long again no longer does the work it began with"
    ),
    "optimizer_share_warning": Threshold(
        0.20,
        "share",
        "of step time; measured on CPU: fused AdamW takes 1-9 % in ordinary batches, "
        "loops over tensors 20-40 % in small ones",
    ),
    "optimizer_share_critical": Threshold(
        0.40, "share", "as much as forward and backward take in a balanced step of small batches"
    ),
    "optimizer_share_usual": Threshold(
        0.10,
        "share",
        "of step time; measured on CPU: fused AdamW stays under it from ordinary batches on",
    ),
    "backward_ratio_warning": Threshold(
        5.0,
        "ratio",
        "backward over forward; measured on CPU: 0.9 to 3.8 in nine small models, 2.9 with "
        "all blocks recomputed, 3.4 in anomaly mode",
    ),
    "backward_ratio_critical": Threshold(
        10.0, "ratio", "twice the warning: no ordinary backward pass comes near"
    ),
    "backward_ratio_usual": Threshold(
        3.0, "ratio", "two for both gradients, one more if the forward is computed again"
    ),
    "backward_share_minimum": Threshold(
        0.30, "share", "of step time; a shorter backward pass is no cause whatever its ratio"
    ),
    "warmup_share_limit": Threshold(0.10, "share", "of wall time, as for what lies between steps"),
    "warmup_cost_floor": Threshold(
        30.0,
        "s",
        "paid once, so a trial run always has a large share of it; half a minute is felt at "
        "each start",
    ),
    "coincidence_share": Threshold(
        0.80, "share", "of the slow steps; marin#9180: 14 of 16 slow steps came with a checkpoint"
    ),
    "coincidence_rarity": Threshold(
        0.50, "share", "of all steps; what happens at more of them meets most slow steps by chance"
    ),
    "launch_host_ahead": Threshold(
        0.80,
        "ratio",
        "host over device time of compute; below it the host queues work and waits elsewhere",
    ),
    "launch_filled_low": Threshold(
        0.70,
        "share",
        "of the phases in which a kernel ran; a tenth may be the sampling of the driver",
    ),
    "launch_filled_high": Threshold(
        0.90, "share", "as above: from here on the device hardly ever waits for the host"
    ),
    "launch_readings": Threshold(
        5, "count", "readings of the driver; fewer say too little about a mean of short samples"
    ),
    "unmarked_wait_trust": Threshold(
        0.50,
        "ratio",
        "with several ranks and no mark at the end of own work, backward may be waiting as well as work",
    ),
    "lengths_explained": Threshold(
        0.5,
        "share",
        "more of the variance than all else together; the lower end of its interval counts",
    ),
    "lengths_spread": Threshold(
        0.1, "share", "batches that differ by less are padded to nearly the same length anyway"
    ),
    "padding_share_warning": Threshold(0.10, "share", FIELD),
}
