"""GPUs that are nearly as hot as the driver lets them be."""

from typing import Final

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.reading_columns import column
from traintrace_analysis.rules.observed import observed
from traintrace_analysis.rules.rule import Kind, Rule
from traintrace_analysis.rules.system.gpus import gpus, needs_gpu
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import count, percent

_KIND: Final = "GPU_TEMPERATURE"
# Sensors read whole degrees and are exact enough; the limit alone is debatable.
_CONFIDENCE: Final = 0.90


def gpu_temperature(context: Context) -> list[Finding]:
    """Find GPUs that stay within a few degrees of where the driver slows them down."""
    hot = []
    for gpu in gpus(context, "temperature_c", "slowdown_temperature_c"):
        margin = column(gpu.readings, "slowdown_temperature_c") - column(
            gpu.readings, "temperature_c"
        )
        # The margin that the hottest tenth of the readings kept.
        kept = float(np.quantile(margin, limit("temperature_share")))
        if kept <= limit("temperature_margin"):
            hot.append((kept, gpu))
    if not hot:
        return []
    kept, worst = min(hot, key=lambda one: one[0])
    temperature = column(worst.readings, "temperature_c")
    slowdown = float(column(worst.readings, "slowdown_temperature_c")[-1])
    share = float((slowdown - temperature <= limit("temperature_margin")).mean())
    return [
        observed(
            _KIND,
            "system",
            "critical" if kept <= 0.0 else "warning",
            _CONFIDENCE,
            sorted({gpu.rank for _, gpu in hot}),
            {
                "temperature_max_c": float(temperature.max()),
                "temperature_mean_c": float(temperature.mean()),
                "slowdown_temperature_c": slowdown,
                "hot_share": share,
                "worst_rank": worst.rank,
                "worst_device": worst.device,
            },
            f"GPU {worst.device} of rank {worst.rank} runs at up to {temperature.max():.0f} degrees; it slows down at "
            f"{slowdown:.0f}.",
            f"In {percent(share)} of the readings during steady steps it was within "
            f"{limit('temperature_margin'):.0f} degrees of that point ({count(len(hot), 'device')} in all). Time is "
            "lost only once its clock is held back.",
            "Improve its cooling (fans, air flow, a neighbour that heats it), or lower its power limit a little.",
        )
    ]


RULE: Final = Rule(
    topic="temperature of the GPUs",
    kinds=(
        Kind(
            name=_KIND,
            means="A GPU is nearly as hot as the driver lets it be.",
            fires="In a tenth of the steady readings it is within 5 degrees of its slowdown point; critical at that point.",
            never="That time is lost: only a clock that went down costs time.",
            action="Improve cooling, or lower the power limit.",
            limits=("temperature_margin", "temperature_share", "machine_readings_minimum"),
        ),
    ),
    examine=gpu_temperature,
    missing=needs_gpu(
        "temperature of a GPU with its slowdown point", "temperature_c", "slowdown_temperature_c"
    ),
)
