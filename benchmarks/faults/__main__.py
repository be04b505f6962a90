"""What is lost, changed or left behind when something dies: `python -m benchmarks.faults [--json]`.

Each fault happens at random moments of a seed, to real processes. Seconds lost are counted from the
first completed step that the report lacks to the moment of the fault; the truth is what each training
process wrote down itself, step by step.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.faults.runner import FAULTS, run_all
from benchmarks.faults.table import figures_of, write_table


def main() -> None:
    """Run the faults and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--repetitions", type=int, default=20, help="of each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", choices=list(FAULTS), default=[])
    parser.add_argument("--jobs", type=int, default=4, help="repetitions at one time")
    options = parser.parse_args()
    chosen = tuple(options.fault) or tuple(FAULTS)
    outcomes = run_all(chosen, options.repetitions, options.seed, options.jobs)
    figures = figures_of(outcomes)
    print(json.dumps(figures, indent=2) if options.json else write_table(figures))
    sys.exit(0 if figures["good"] else 1)


if __name__ == "__main__":
    main()
