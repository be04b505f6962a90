"""GPUs that stand idle for half of the time."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import column
from traintrace_analysis.rules.observed import observed
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.system.gpus import gpus, needs_gpu
from traintrace_analysis.statistics import estimate_ratio
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import listed, percent

_KIND: Final = "LOW_GPU_UTILIZATION"
# Metrics that may explain an idle device, with the names of their limits.
_METRICS: Final = {"input_wait": "input", "h2d": "h2d", "residual": "residual"}


def low_gpu_utilization(context: Context) -> list[Finding]:
    """Find GPUs without work, as an observation where another family names the cause."""
    found = gpus(context, "utilisation")
    if not found:
        return []
    means = np.asarray([column(one.readings, "utilisation").mean() for one in found])
    middle = int(np.argsort(means)[(len(means) - 1) // 2])
    usual = float(means[middle])
    if usual >= limit("utilisation_low"):
        return []
    values = column(found[middle].readings, "utilisation")
    ratio = estimate_ratio(values, np.ones_like(values))
    doubt = 0.05 if ratio is None else ratio.chance_at_least(limit("utilisation_low"))
    low = [
        one.rank for one, mean in zip(found, means, strict=True) if mean < limit("utilisation_low")
    ]
    worst = int(np.argmin(means))
    causes = _causes(context)
    among = (
        f" (median of {len(found)} devices; least on rank {found[worst].rank}, "
        f"{percent(float(means[worst]))})"
        if len(found) > 1
        else ""
    )
    why = f"In the steady steps a kernel ran on a device {percent(usual)} of the time{among}."
    if causes:
        why += f" That is explained by {listed(causes)}."
        action = f"Remove that first: {listed(causes)}."
    else:
        why += " No wait for data, transfer or other work of the host explains it: kernels may be short, or launched too slowly."
        action = "Give the device more work at a time: a larger batch, torch.compile (mode='reduce-overhead'), fused optimizers."
    return [
        observed(
            _KIND,
            "system",
            "info" if causes else "warning",
            1.0 - doubt,
            sorted(set(low)),
            {
                "utilisation_share": usual,
                "worst_utilisation_share": float(means[worst]),
                "worst_rank": found[worst].rank,
                "devices_count": len(found),
                "explained_by": listed(causes) or None,
            },
            f"{'The GPU is' if len(found) == 1 else 'The GPUs are'} idle {percent(1.0 - usual)} of the time.",
            why,
            action,
        )
    ]


def _causes(context: Context) -> list[str]:
    """Name what keeps devices idle and is another family's finding.

    On the device clock the residual is a difference and no finding, so it explains nothing there.
    """
    shares = {
        name: context.metrics[name].share or 0.0
        for name in _METRICS
        if name != "residual" or context.window.clock == "host"
    }
    causes = [
        name.replace("_", " ")
        for name, share in shares.items()
        if share >= limit(f"{_METRICS[name]}_share_warning")
    ]
    waiting = sum(context.metrics[name].share or 0.0 for name in ("gradient_sync", "communication"))
    if waiting >= limit("waiting_share_unexplained"):
        causes.append("waiting for other ranks")
    if _between_share(context) >= limit("between_share_explains"):
        causes.append("work between the steps")
    return causes


def _between_share(context: Context) -> float:
    """Give the share of the steady time in which no step was open, on the representative rank."""
    window = context.window
    if window.steady_steps < 2 or context.rank.rank not in window.ranks:
        return 0.0
    row, first = context.row, window.warmup_steps + 1
    between = (window.open_ns - window.start_ns)[row, first:].sum()
    return float(between / max(1, (window.close_ns - window.start_ns)[row, first:].sum()))


RULE: Final = Rule(
    topic="use of the GPUs",
    kinds=(
        Kind(
            name=_KIND,
            means="No kernel runs on the GPUs for much of the steady time.",
            fires=(
                "Utilisation, as the driver reads it, is under a half on the median device. A warning only if no "
                "wait for data, transfer, other host work (host clock only), waiting for ranks or work between steps explains "
                "it."
            ),
            never="That a device that reads 100 % is well used: one small kernel at a time reads the same.",
            action="Remove the cause that is named; without one, give the device more work at a time.",
            limits=(
                "utilisation_low",
                "machine_readings_minimum",
                "between_share_explains",
                "waiting_share_unexplained",
                "input_share_warning",
                "h2d_share_warning",
                "residual_share_warning",
            ),
        ),
    ),
    examine=low_gpu_utilization,
    missing=needs_gpu("utilisation of a GPU", "utilisation"),
)
