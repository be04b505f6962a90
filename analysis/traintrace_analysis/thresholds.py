"""Every limit that a finding or a verdict rests on, in one table with its unit and its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit.

    Attributes:
        value: The limit, in `unit`.
        unit: "share" (0 to 1), "steps", "ms", "s", "ratio" or "log".
        source: Where the number comes from, or why it is what it is.
    """

    value: float
    unit: str
    source: str


_FIELD = "field practice: training diagnosis tools warn at a tenth of the step"
_FIELD_CRITICAL = "field practice: a fifth of the step is called critical"

TABLE: Final[Mapping[str, Threshold]] = {
    "input_share_warning": Threshold(0.10, "share", _FIELD),
    "input_share_critical": Threshold(0.20, "share", _FIELD_CRITICAL),
    "h2d_share_warning": Threshold(0.10, "share", _FIELD),
    "h2d_share_critical": Threshold(0.20, "share", _FIELD_CRITICAL),
    "residual_share_warning": Threshold(0.10, "share", _FIELD),
    "residual_share_critical": Threshold(0.20, "share", _FIELD_CRITICAL),
    "compute_share_dominates": Threshold(
        0.70, "share", "what is left when input, transfers and the rest all stay under a tenth"
    ),
    "waiting_share_unexplained": Threshold(
        0.10, "share", "as for the phases; above it a step cannot be called balanced"
    ),
    "step_loss_floor": Threshold(
        2.0,
        "ms",
        "a DataLoader needs 0.3 to 1 ms of Python per batch whatever the data; twice that is a cause",
    ),
    "loader_floor": Threshold(
        0.3,
        "ms",
        "the least Python time per batch of a DataLoader, which no loader setting removes",
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
    "epoch_start_share_warning": Threshold(
        0.05, "share", "of wall time; half the limit of a phase, since one setting removes it"
    ),
    "epoch_start_share_critical": Threshold(0.20, "share", _FIELD_CRITICAL),
    "evaluation_share_warning": Threshold(
        0.10,
        "share",
        "of wall time; evaluation is work that was asked for, so the phase limit holds",
    ),
    "evaluation_share_critical": Threshold(
        0.30, "share", "of wall time; evaluation that takes a third of a run is rarely intended"
    ),
    "checkpoint_share_warning": Threshold(
        0.05, "share", "of wall time; writing can move to another thread, so it is avoidable"
    ),
    "checkpoint_share_critical": Threshold(0.20, "share", _FIELD_CRITICAL),
    "between_loss_floor": Threshold(
        0.5, "s", "less than half a second in a whole run is not worth a person's time"
    ),
    "unexamined_share": Threshold(
        0.20, "share", "of wall time; from a fifth on a verdict names what it does not cover"
    ),
    "unexamined_majority": Threshold(
        0.50, "share", "of wall time; no verdict of balance is given over less than half of a run"
    ),
    "unjudged_between_share": Threshold(
        0.10, "share", "of wall time; as for the phases: more than a tenth may hide a cause"
    ),
    "steady_steps_minimum": Threshold(
        10, "steps", "below ten steps a mean share has no usable interval even without correlation"
    ),
    "effective_steps_for_interval": Threshold(
        20,
        "steps",
        "an interval from fewer independent steps is refused (Student's t is 5 % wider)",
    ),
    "coverage_minimum": Threshold(
        0.95, "share", "a signal missing on more than one step in twenty may be missing for a cause"
    ),
    "confidence_to_name": Threshold(
        0.50, "share", "below it the opposite is as likely, so the cause is not named"
    ),
    "confidence_of_critical": Threshold(
        0.90, "share", "chance that the critical limit is reached; a wide interval warns at most"
    ),
    "host_clock_input_trust": Threshold(
        0.80, "ratio", "on the host clock of an accelerator a wait may hide behind queued kernels"
    ),
    "host_clock_sync_trust": Threshold(
        0.50, "ratio", "on the host clock of an accelerator any other host time may be a moved sync"
    ),
    "mser_batch": Threshold(5, "steps", "MSER-5: White, Cobb and Spratt 2000"),
    "mser_tolerance": Threshold(
        0.05,
        "ratio",
        "simulated, 500 steps: lowers false cuts from 2-17 % to 0-7 % and keeps true ones in place",
    ),
    "mser_short_series": Threshold(
        50, "steps", "under ten batches of five MSER has nothing to choose from; single steps then"
    ),
    "warmup_excess": Threshold(
        0.10, "log", "a start that is less than 10 % slower than the rest is not called a warm-up"
    ),
    "warmup_significance": Threshold(
        5.0,
        "ratio",
        "standard errors by which a start must be slower than the rest; simulated, 40 to 500 steps: "
        "no false cut for iid, periodic and AR(.5) steps, 0-2 % for AR(.9)",
    ),
    "warmup_search_start": Threshold(
        100, "steps", "a window that begins later does not hold the start of the process"
    ),
    "compile_mark_gap": Threshold(
        10, "steps", "graph compilations of one start follow each other closely; later ones are not"
    ),
}


def limit(name: str) -> float:
    """Give the value of the threshold called `name`.

    Raises:
        KeyError: The table has no such threshold.
    """
    return TABLE[name].value
