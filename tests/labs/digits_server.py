"""Trains the digits example on request, each time in a process of its own: what it imports is paid for once.

A request is a line "FOLDER<tab>SHARE": the run goes to FOLDER/digits-plain, and a share above 0 makes backward
slower by so much of a step. The answer is the exit code.
"""

import functools
import os
import sys
from pathlib import Path

import traintrace_analysis  # noqa: F401 - what the end of a run imports
from traintrace_reporting import summary, text  # noqa: F401 - the same

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import digits  # noqa: E402 - lies in examples
import digits_plain  # noqa: E402
import digits_slower  # noqa: E402
from digits import Settings  # noqa: E402


def train(folder: str, share: float) -> None:
    """Train as `digits_plain.py --fast --epochs 1` does."""
    if share:
        digits_slower.slow_down(share)
    digits_plain.train(Settings(Path(folder), fast=True, epochs=1, print_report=False))


def main() -> None:
    """Serve until standard input ends."""
    vars(digits)["load_digits"] = functools.cache(vars(digits)["load_digits"])
    digits.Digits(fast=True)
    for line in sys.stdin:
        folder, share = line.rstrip("\n").split("\t")
        child = os.fork()
        if not child:
            train(folder, float(share))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
