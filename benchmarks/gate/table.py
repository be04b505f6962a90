"""The table that is committed: RESULTS.md."""

from typing import Final

from benchmarks.gate.trials import SameCode, Score, Slower

_TARGETS: Final = {
    "false_fail_max": "<= 0.01",
    "power_5pct_at_1pct_noise": ">= 0.95 within 7 pairs",
    "power_10pct_at_3pct_noise": ">= 0.99",
    "pairs_median": "",
}
_INTRODUCTION: Final = """
A run is 500 steps with 5 % of noise from step to step; one number a run counts, the mean of its winsorised
ln(step time). Pairs are started A B, B A, A B, ... and looked at after 4, 6, 9 and 12. "Slower by 5 %" with
1 % of noise between runs is simulated with steps of AR 0.5 and 1 % of spikes.

What is decided by is a fit of all runs: a level, a side, a straight line in time, with 2 k - 3 degrees of freedom
for k pairs. The differences of pairs, as the gate was first laid out, have k - 1: at six pairs Student's t must then
exceed 5.2 instead of 4.0, and the same looks and error rates find 5 % within seven pairs less often than 95 in 100
(last columns). Where the machine jumps during the session the differences find more.

Naive rules, on the same runs: "means" calls one run a side different if their mean steps differ by more than 3 %;
"steps" if Welch's t on their steps has p < 1 %; "A, then B" if Welch's t on six runs of A and then six of B has p < 1 %.
"""
_CAVEATS: Final = """
## How to read this

The noise is drawn, not recorded, and by the authors of the gate. Levels of runs are independent but for drift, wandering
and a jump. A machine whose runs alternate (fast, slow, fast, slow) in step with A and B would deceive any
gate that starts them in a fixed order, and this one too. PASS spends 5 % at every look: code that is 3 % slower, just on the margin,
passes as often as the table of slower code says.
"""


def write_table(score: Score) -> str:
    """Write a score as Markdown."""
    figures = score.figures()
    lines = [
        "# How often the gates are wrong",
        "",
        f"Made by `python -m benchmarks.gate --table`; {score.trials:,} trials for each row.",
        _INTRODUCTION,
        "| | value | target |",
        "|---|---|---|",
        *(
            f"| `{name}` | {value:.4g} | {_TARGETS.get(name, '')} |"
            for name, value in figures.items()
            if name != "trials"
        ),
        "",
        "## The same code on both sides",
        "",
        "| steps | runs | noise between runs | FAIL | PASS | undecided | naive: means | steps | A, then B |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_same(one) for one in score.same),
        "",
        "## Slower code",
        "",
        "| slower by | steps | runs | noise between runs | FAIL within 7 pairs | FAIL | PASS | pairs, median "
        "| differences: within 7 | FAIL |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_slower(one) for one in score.slower),
    ]
    return "\n".join(lines) + "\n" + _CAVEATS


def _same(one: SameCode) -> str:
    return (
        f"| {one.steps} | {one.runs.name} | {100 * one.runs.sd:g} % | {one.fails:.4f} | {one.passes:.3f} "
        f"| {one.undecided:.3f} | {one.naive_means:.3f} | {one.naive_steps:.3f} | {one.naive_order:.3f} |"
    )


def _slower(one: Slower) -> str:
    return (
        f"| {100 * one.effect:g} % | {one.steps} | {one.runs.name} | {100 * one.runs.sd:g} % "
        f"| {one.within_7:.3f} | {one.found:.3f} | {one.passes:.4f} | {one.pairs_median:.0f} "
        f"| {one.differences_within_7:.3f} | {one.differences_found:.3f} |"
    )
