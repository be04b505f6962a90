"""How well faults are found: `python -m benchmarks.corpus [--json] [--table] [--half tune|score|both]`.

Labelled runs are made from seeds, analysed, and what is named is compared with what is true of
them. Limits are tuned on the runs of even seeds and scored on those of odd ones. What is labelled:
`truth.py`; how it is scored: `scoring.py`.
"""

import argparse
import json
import os
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.corpus.cases import CLEAN_RUNS, FAULTS, FAULTY_RUNS, Half, cases
from benchmarks.corpus.scoring import Figures, Judged, add_up, examine_one
from benchmarks.corpus.table import write_table

RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--table", action="store_true", help=f"write {RESULTS.name} of the score half"
    )
    parser.add_argument("--half", choices=["tune", "score", "both"], default="score")
    parser.add_argument("--clean", type=int, default=CLEAN_RUNS, help="healthy runs per half")
    parser.add_argument("--faulty", type=int, default=FAULTY_RUNS, help="faulty runs per family")
    parser.add_argument("--family", action="append", choices=list(FAULTS), default=[])
    parser.add_argument("--errors", action="store_true", help="also list what went wrong, by run")
    options = parser.parse_args()
    halves: list[Half] = ["tune", "score"] if options.half == "both" else [options.half]
    figures: dict[str, Figures] = {}
    for half in halves:
        wanted = cases(
            half, clean=options.clean, faulty=options.faulty, families=tuple(options.family)
        )
        judged = [examine_one(case) for case in wanted]
        score = add_up(judged)
        figures[half] = score.figures()
        if not options.json:
            print(write_table(score, half))
        if options.errors:
            _print_errors(judged)
        if options.table and half == "score":
            RESULTS.write_text(write_table(score, half), encoding="utf-8")
    if options.json:
        print(json.dumps(figures if len(halves) > 1 else figures[halves[0]], indent=2))


def _print_errors(judged: Iterable[Judged]) -> None:
    for one in judged:
        for label in one.missed:
            ranks = "" if label.ranks is None else f" on ranks {label.ranks}"
            print(f"missed  {one.case.name}: {label.kind}{ranks}")
        for finding in one.wrong:
            print(f"wrong   {one.case.name}: {finding.kind} {finding.ranks[:6]} {finding.headline}")


if __name__ == "__main__":
    main()
