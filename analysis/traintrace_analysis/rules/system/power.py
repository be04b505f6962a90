"""GPUs that draw all the power they may."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import column
from traintrace_analysis.rules.observed import observed
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.system.gpus import gpus, needs_gpu
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import number, percent

_KIND: Final = "HIGH_GPU_POWER"
_CONFIDENCE: Final = 0.90


def high_gpu_power(context: Context) -> list[Finding]:
    """Observe GPUs whose mean draw is at their limit: well used, and no faster with more work."""
    found = gpus(context, "power_w", "power_limit_w")
    shares = np.asarray(
        [
            column(gpu.readings, "power_w").mean()
            / max(1e-9, column(gpu.readings, "power_limit_w").mean())
            for gpu in found
        ]
    )
    if not len(shares) or shares.max() < limit("power_near_limit"):
        return []
    worst = int(np.argmax(shares))
    gpu, share = found[worst], float(shares[worst])
    power, most = (
        float(column(gpu.readings, name).mean()) for name in ("power_w", "power_limit_w")
    )
    return [
        observed(
            _KIND,
            "system",
            "info",
            _CONFIDENCE,
            sorted(
                {
                    one.rank
                    for one, high in zip(found, shares, strict=True)
                    if high >= limit("power_near_limit")
                }
            ),
            {
                "power_mean_w": power,
                "power_limit_w": most,
                "power_share": share,
                "worst_rank": gpu.rank,
                "worst_device": gpu.device,
            },
            f"GPU {gpu.device} of rank {gpu.rank} draws {percent(share)} of the power it may.",
            f"{number(power)} W of {number(most)} W on average in the steady steps. A device at its limit lowers its clock to "
            "stay there; it is at work, and its limit decides its speed.",
            "Nothing, if the limit is the maker's. If somebody lowered it, raise it (nvidia-smi -pl).",
        )
    ]


RULE: Final = Rule(
    topic="power of the GPUs",
    kinds=(
        Kind(
            name=_KIND,
            means="A GPU draws all the power that it may: it is well used, and its limit decides its speed.",
            fires="Its mean draw in the steady steps is 95 % of the enforced limit or more. Always an observation.",
            never="That something is wrong.",
            action="Look whether the limit was lowered on purpose.",
            limits=("power_near_limit", "machine_readings_minimum"),
        ),
    ),
    examine=high_gpu_power,
    missing=needs_gpu("power of a GPU with its limit", "power_w", "power_limit_w"),
)
