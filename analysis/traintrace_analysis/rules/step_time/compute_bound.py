"""Steps that the model itself fills: what a healthy run looks like."""

from typing import Final

from traintrace.accounts import GROUPS
from traintrace_analysis.context import Context, weigh
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import needs
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent


def compute_bound(context: Context) -> list[Finding]:
    """Note that the model itself takes most of the step: what a healthy run looks like."""
    window = context.window
    compute = window.steady("compute")
    weight = None if compute is None else weigh(window, compute, "compute_share_dominates")
    if weight is None or weight.share < limit("compute_share_dominates"):
        return []
    means = {name: context.metrics[name].mean_ms for name in GROUPS["compute"]}
    largest = max(means, key=lambda name: means[name] or 0.0)
    return [
        Finding(
            id="compute-bound",
            kind="COMPUTE_BOUND",
            family="step_time",
            severity="info",
            confidence=weight.confidence * context.sync_trust,
            ranks=window.ranks,
            evidence={**weight.evidence(), **{f"{name}_ms": mean for name, mean in means.items()}},
            cost_s=0.0,
            cost_basis="run",
            gain=None,
            headline=f"Compute takes {percent(weight.share)} of step time.",
            why=(
                f"Forward, backward and optimizer take {milliseconds(weight.cause_ms)} of "
                f"{milliseconds(weight.step_ms)}{weight.range_text()}; {largest} is the largest."
            ),
            action=(
                "To go faster, make the model's own work cheaper: lower precision, torch.compile, "
                "larger batches, or a faster device."
            ),
        )
    ]


RULE: Final = Rule(
    topic="compute",
    kinds=(
        Kind(
            name="COMPUTE_BOUND",
            means="Forward, backward and optimizer fill the step: what a healthy run looks like.",
            fires="They take 70 % of step time or more. It is always an observation, never a warning.",
            never="That the device is used well: busy is not efficient.",
            action="Make the model's own work cheaper: lower precision, torch.compile, a faster device.",
            limits=("compute_share_dominates",),
        ),
    ),
    examine=compute_bound,
    missing=needs("compute"),
)
