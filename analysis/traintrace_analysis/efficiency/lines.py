"""The lines of the budget: which accounts they hold, what people call them, who else names their seconds."""

from collections.abc import Iterable, Mapping
from typing import Final

from traintrace.accounts import GROUPS, NAMES
from traintrace.facts import RankFacts
from traintrace_analysis.findings import Finding

USEFUL, OVERHEAD, COMPUTE = "useful_compute", "compute_overhead", "compute"
ELSEWHERE, COUNTING, EXPOSED = "compute_elsewhere", "flop_counting", "exposed_communication"
PROFILING: Final = "profiling"

COMPUTE_LINES: Final = (USEFUL, OVERHEAD, COMPUTE, ELSEWHERE, COUNTING)
# What a run pays once however long it is: no change of the loop wins it.
PAID_ONCE: Final = ("startup", "tuning", "resume_skip", "shutdown", PROFILING)

# The line of each account; an account that is not here has a line of its own.
LINE_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(GROUPS["compute"], COMPUTE),
    **dict.fromkeys(GROUPS["waiting"], EXPOSED),
}
ORDER: Final = tuple(
    dict.fromkeys(
        (
            *(USEFUL, OVERHEAD, COMPUTE, ELSEWHERE, COUNTING, PROFILING),
            *("input_wait", "h2d", EXPOSED),
            *(LINE_OF.get(name, name) for name in NAMES),
        )
    )
)

_RESIDUAL: Final = tuple(LINE_OF.get(name, name) for name in GROUPS["residual"])
# The lines in which the seconds of a kind of finding lie. A kind that is not here lies in compute.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "INPUT_BOUND": ("input_wait",),
    "INPUT_STRAGGLER": ("input_wait", EXPOSED),
    "H2D_BOUND": ("h2d",),
    "H2D_STRAGGLER": ("h2d", EXPOSED),
    "RESIDUAL_HEAVY": _RESIDUAL,
    "EPOCH_START_COST": ("epoch_boundary", "input_wait"),
    "EVALUATION_COST": ("evaluation",),
    "CHECKPOINT_COST": ("checkpoint",),
    "LOGGING_COST": ("logging",),
    "GAP": ("gap",),
    "COMPUTE_STRAGGLER": (EXPOSED,),
    "BACKWARD_STRAGGLER": (EXPOSED,),
    "STRAGGLER": (EXPOSED,),
    "ROTATING_STRAGGLER": (EXPOSED,),
    "LOAD_IMBALANCE": (EXPOSED,),
    "SILENT_RANK": (EXPOSED,),
    "COMM_BOUND": (EXPOSED,),
    "EXPOSED_COMM": (EXPOSED,),
    "PIPELINE_BUBBLE": (EXPOSED,),
}
# Families whose findings lie in no line of this budget.
_ELSEWHERE: Final = ("efficiency", "convergence", "memory", "stages")


def profiling_ns(rank: RankFacts) -> int:
    """Give what starting, stopping and writing the profile of chosen steps took between steps."""
    return sum(event.duration_ns or 0 for event in rank.events if event.kind == "profile")


def lines_of(finding: Finding) -> tuple[str, ...]:
    """Give the lines in which the seconds of a finding lie; none if it names no time of the loop."""
    largest = finding.evidence.get("largest_part")
    if isinstance(largest, str) and largest in _RESIDUAL:
        return (largest,)  # what else is residual may lie between steps as well
    if finding.kind in _NAMES:
        return _NAMES[finding.kind]
    # Stragglers are about other ranks' time; what else costs seconds costs them while computing, or anywhere.
    return () if finding.family in _ELSEWHERE or not finding.cost_s > 0.0 else (COMPUTE, OVERHEAD)


def name_lines(
    lines: Iterable[str], findings: Iterable[Finding], *, with_info: bool = False
) -> dict[str, tuple[str, ...]]:
    """Give the kinds of findings that name seconds of each line.

    Args:
        lines: Those of one budget.
        findings: All findings of the run.
        with_info: Observations count too.
    """
    found = [one for one in findings if with_info or one.severity != "info"]
    named = {
        line: tuple(dict.fromkeys(one.kind for one in found if line in lines_of(one)))
        for line in lines
    }
    return {line: kinds for line, kinds in named.items() if kinds}


TOLD: Final[Mapping[str, str]] = {
    USEFUL: "the work itself, at the device's peak",
    OVERHEAD: "compute beyond what the work takes at peak",
    COMPUTE: "compute",
    EXPOSED: "waiting for other ranks",
    "input_wait": "waiting for batches",
    "h2d": "moving batches to the device",
    "gap": "time between steps that nobody marked",
    "other": "time in steps that is no phase",
    "aborted": "steps that were dropped",
}


def told(line: str) -> str:
    """Say what a line holds, to stand in a sentence."""
    return TOLD.get(line, line.replace("_", " "))
