"""How often the gates are wrong: `python -m benchmarks.gate [--json] [--table] [--trials N]`.

Runs are simulated: of the same code, under every kind of noise, and of slower code. The same
functions decide as in `traintrace guard`. Two and a half minutes of one core.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.gate.table import write_table
from benchmarks.gate.trials import play

RESULTS = Path(__file__).with_name("RESULTS.md")
_TRIALS = 10_000


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--table", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--trials", type=int, default=_TRIALS, help="simulated gates per noise")
    options = parser.parse_args()
    score = play(options.trials)
    if options.table:
        RESULTS.write_text(write_table(score), encoding="utf-8")
    print(json.dumps(score.figures(), indent=2) if options.json else write_table(score))


if __name__ == "__main__":
    main()
