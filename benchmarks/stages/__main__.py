"""How right the lens on pipelines is: `python -m benchmarks.stages [--json] [--quick]`.

Pipelines on paper and of real threads, and what following a queue costs (`benchmarks.stages.cost`); about ten minutes,
with `--quick` one.
"""

import argparse
import json
import os
import random
import statistics

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.stages.cost import measure
from benchmarks.stages.scoring import RESTLESS_POINTS, Score, score_simulated
from benchmarks.stages.threads import score_threads


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="fewer pipelines")
    options = parser.parse_args()
    if options.quick:
        parts = {
            "simulated": score_simulated(20, 2_000, 5, 2_000),
            "threads": score_threads(4, 1, 150, 1),
        }
    else:
        parts = {
            "simulated": score_simulated(200, 2_000, 20, 3_000),
            "threads": score_threads(20, 6, 200, 2),
        }
    figures = figures_of(parts) | costs(pairs=10 if options.quick else 40)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:40} {value:.4g}")


def figures_of(parts: dict[str, Score]) -> dict[str, float]:
    """Give the figures: first those that have a target, over all parts, then each part's."""
    asked = sum(score.asked for score in parts.values())
    figures: dict[str, float] = {
        "limiting_stage_accuracy": sum(score.right for score in parts.values()) / max(1, asked),
        "whatif_error_points_max": max(max(score.errors, default=0.0) for score in parts.values()),
    }
    for name, score in parts.items():
        figures |= {
            f"{name}_pipelines": score.asked,
            f"{name}_accuracy": score.accuracy,
            f"{name}_hedged_share": score.hedged / max(1, score.asked),
            f"{name}_whatifs": len(score.errors),
            f"{name}_whatif_error_points_median": statistics.median(score.errors or [0.0]),
            f"{name}_whatif_error_points_max": max(score.errors, default=0.0),
            f"{name}_whatifs_withheld": score.withheld,
            f"{name}_runs_again": sum(one > RESTLESS_POINTS for one in score.restless),
            f"{name}_replay_deviation_max": max(score.deviations, default=0.0),
        }
    return figures


def costs(pairs: int) -> dict[str, float]:
    """Give what an operation on a followed queue costs more than on a plain one, with its upper bound [us]."""
    figures: dict[str, float] = {}
    for name, cost in measure(pairs, random.Random(0)).items():
        figures |= {name: cost.estimate, f"{name}_high": cost.high}
    return figures


if __name__ == "__main__":
    main()
