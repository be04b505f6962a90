"""How often the lens on convergence is wrong: `python -m benchmarks.convergence [--json] [--table] [--runs N]`.

With 1,000 runs of each kind it takes some hours on one core; `--processes` spreads it.
"""

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.convergence.table import figures, write_table
from benchmarks.convergence.trials import EVENT_CASES, NOISE_CASES, play_event, play_noise

RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--table", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--runs", type=int, default=1_000, help="runs of each kind of noise")
    parser.add_argument("--events", type=int, default=200, help="runs of each kind of event")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        quiet = [pool.submit(play_noise, *case, options.runs) for case in NOISE_CASES]
        loud = [pool.submit(play_event, *case, options.events) for case in EVENT_CASES]
        noises, events = [one.result() for one in quiet], [one.result() for one in loud]
    if options.table:
        RESULTS.write_text(write_table(noises, events), encoding="utf-8")
    shown = json.dumps(figures(noises, events), indent=2)
    print(shown if options.json else write_table(noises, events))


if __name__ == "__main__":
    main()
