"""The table that is committed: RESULTS.md."""

from typing import Final

from benchmarks.corpus.scoring import Score, Tally

_CAVEATS: Final = """
## How to read this

The runs are drawn from the authors' ideas of faults, by the authors of the rules; real runs will do worse.
A family whose sums are exact (`between_steps`) or whose readings are drawn around a level (`system`,
`process`) can hardly miss a fault of 1.3 times its limit: a 1.000 there says that nothing is broken.

The seeds of the two halves differ, the definitions do not. These labels were narrowed after the first rules
had been run on the tune half, to what the rules say they find; the score does not cover what was left out:

- ROTATING_STRAGGLER: late steps lose 5 % of step time where they are a quarter of all, 10 % where they are
  fewer, and there are eight at least; a step is late if a rank prolongs it by a tenth. Ranks' spikes in
  healthy runs lose less than that together.
- RESIDUAL_HEAVY: if it comes in bursts, JITTER is as good an answer. BACKWARD_HEAVY: only where backward
  holds no waiting. GAP and LOGGING_COST: only on CPUs and in pauses of 2 ms or more.
- WARMUP_COST: half a minute or more. OPTIMIZER_HEAVY, BACKWARD_HEAVY, STRAGGLER kinds and
  ROTATING_STRAGGLER: the limits were taken over from the rules.
- SILENT_RANK: two ranks or more are left. LOW_GPU_UTILIZATION: the host issues kernels all the time.
- Ranks: several findings may name the labelled ranks together.
"""


def write_table(score: Score, half: str) -> str:
    """Write a score as Markdown."""
    figures = score.figures()
    lines = [
        "# How well faults are found",
        "",
        f"Made by `python -m benchmarks.corpus --table`; the {half} half of the seeds.",
        "What is labelled and how it is scored: `truth.py` and `scoring.py` beside this file.",
        "",
        "| | value | target |",
        "|---|---|---|",
        f"| precision, all families | {_number(figures['precision'])} | 0.95 |",
        f"| recall, all families | {_number(figures['recall'])} | 0.90 |",
        f"| healthy runs without a finding, of {score.clean} | {_number(figures['clean_ok'])} | 0.99 |",
        "",
        "| family | kind | runs | recall | precision | wrong findings |",
        "|---|---|---|---|---|---|",
    ]
    for family, tally in score.families.items():
        lines.append(_row(f"**{family}**", "", tally))
        lines += [_row("", kind, one) for kind, one in score.kinds_of(family).items()]
    lines += ["", "Wrong findings, by what the run was:", ""]
    lines += [
        f"- {named} in {count} of the runs with {case}"
        for (case, named), count in score.wrong.most_common()
    ] or ["- none"]
    return "\n".join(lines) + "\n" + _CAVEATS


def _row(family: str, kind: str, tally: Tally) -> str:
    cells = (family, kind, str(tally.runs), _number(tally.recall), _number(tally.precision))
    return f"| {' | '.join(cells)} | {tally.wrong} |"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
