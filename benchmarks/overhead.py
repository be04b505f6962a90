"""What tracing adds to a step: `python -m benchmarks.overhead [--json] [--peers]`.

Blocks of traced and untraced steps of a small real model alternate at random in this one process; the
figure is CPU time of the training thread per step, with a 95 % interval, and the same for two kinds of
untraced blocks (A/A) beside it. Method and figures: README.md in this folder.
"""

import argparse
import functools
import json
import os
import random
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.frameworks import huggingface_block, lightning_block
from benchmarks.loop import Task, automatic_block, explicit_block, plain_block, untouched_block
from traintrace.recording.pairing import Block, Cost, cost_of, paired_differences


def measure(pairs: int, chance: random.Random) -> dict[str, Cost]:
    """Measure each way of tracing against the same loop untraced, `pairs` pairs of blocks each."""
    task = Task()
    plain: Block = functools.partial(plain_block, task)
    lightning = functools.partial(lightning_block, task)
    huggingface = functools.partial(huggingface_block, task)
    compared: dict[str, tuple[Block, Block]] = {
        "aa_us": (plain, plain),
        "explicit_us": (functools.partial(explicit_block, task), plain),
        "automatic_us": (functools.partial(automatic_block, task), plain),
        "untouched_us": (lambda: untouched_block(task, True), lambda: untouched_block(task, False)),
        "lightning_us": (lambda: lightning(True), lambda: lightning(False)),
        "huggingface_us": (lambda: huggingface(True), lambda: huggingface(False)),
    }
    costs = {}
    for name, (treated, untreated) in compared.items():
        paired_differences(treated, untreated, 2, chance)  # warm up imports and caches
        costs[name] = cost_of(paired_differences(treated, untreated, pairs, chance), chance)
    return costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--peers", action="store_true", help="also measure other tracers")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of blocks per figure")
    parser.add_argument("--peer-environments", type=Path, default=Path(".venv-peers"))
    options = parser.parse_args()
    chance = random.Random(0)
    figures: dict[str, object] = {
        name: cost.as_dict() for name, cost in measure(options.pairs, chance).items()
    }
    if options.peers:
        from benchmarks.peers import measure_peers

        peers = measure_peers(options.peer_environments, chance)
        figures["peers"] = {name: cost.as_dict() for name, cost in peers.items()}
    if options.json:
        json.dump(figures, sys.stdout, indent=2)
        print()
        return
    for name, figure in figures.items():
        print(f"{name:16} {figure}")


if __name__ == "__main__":
    main()
