"""The family `stages`: pipelines of threads, processes and tasks that hand items to each other."""

from typing import Final

from traintrace_analysis.context import Context
from traintrace_analysis.rules.rule import Family
from traintrace_analysis.rules.stages import bottleneck, queue_too_small, waits
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import percent


def _doubt(context: Context) -> str:
    """Say what keeps a pipeline from being called balanced: no limiting stage, or one that is not sure."""
    stages = context.stages
    if stages is None:
        return ""
    limiting = stages.limiting
    if limiting is None:
        return f"Which stage limits the pipeline cannot be told: {stages.not_separable}."
    if stages.withheld and not limiting.is_last:
        return f"{limiting.stage} limits the pipeline; what that costs is {stages.withheld}."
    if limiting.confidence < limit("confidence_to_name"):
        return f"Which stage limits the pipeline is only {percent(limiting.confidence)} sure."
    return ""


FAMILY: Final = Family(
    "stages",
    rules=(bottleneck.RULE, waits.STARVED, waits.BLOCKED, queue_too_small.RULE),
    doubt=_doubt,
)
