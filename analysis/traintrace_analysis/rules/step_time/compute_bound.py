"""Steps that the model itself fills: what a healthy run looks like."""

from typing import Final

from traintrace.accounts import GROUPS
from traintrace_analysis.context import Context, weigh
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.shares import backward_may_wait, needs, shares_a_model
from traintrace_analysis.rules.step_time.launching import measure_launching
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
    launching = measure_launching(context)
    trust = limit("unmarked_wait_trust") if backward_may_wait(context) else 1.0
    waits = (
        " The backward pass may include waiting for other ranks."
        if backward_may_wait(context)
        else ""
    )
    return [
        Finding(
            id="compute-bound",
            kind="COMPUTE_BOUND",
            family="step_time",
            severity="info",
            confidence=weight.confidence * context.sync_trust * trust,
            ranks=window.ranks,
            evidence={
                **weight.evidence(),
                **{f"{name}_ms": mean for name, mean in means.items()},
                **({} if launching is None else launching.evidence()),
            },
            cost_s=0.0,
            cost_basis="run",
            gain=None,
            headline=f"Compute takes {percent(weight.share)} of step time.",
            why=(
                f"Forward, backward and optimizer take {milliseconds(weight.cause_ms)} of "
                f"{milliseconds(weight.step_ms)}{weight.range_text()}; {largest} is the largest."
                f"{waits}{'' if launching is None else launching.text()}"
            ),
            action=(
                "To go faster, make the model's own work cheaper: lower precision, torch.compile, "
                f"larger batches, or a faster device.{'' if launching is None else launching.action()}"
            ),
        )
    ]


def _missing(context: Context) -> str:
    if shares_a_model(context):
        return (
            "compute (under a sharded model forward and backward may include communication, so they say "
            "nothing about compute)"
        )
    return needs("compute")(context)


RULE: Final = Rule(
    topic="compute",
    kinds=(
        Kind(
            name="COMPUTE_BOUND",
            means="Forward, backward and optimizer fill the step: what a healthy run looks like.",
            fires=(
                "They take 70 % of step time or more. It is always an observation, never a warning. Where "
                "host and device were timed it says which of them waits for the other, if that can be told."
            ),
            never=(
                "That the device is used well: busy is not efficient. Nothing under a sharded model, whose "
                "forward and backward may include communication."
            ),
            action="Make the model's own work cheaper: lower precision, torch.compile, a faster device.",
            limits=(
                "compute_share_dominates",
                "launch_host_ahead",
                "launch_filled_low",
                "launch_filled_high",
                "launch_readings",
                "unmarked_wait_trust",
            ),
        ),
    ),
    examine=compute_bound,
    missing=_missing,
)
