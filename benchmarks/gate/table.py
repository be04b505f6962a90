"""The table that is committed: RESULTS.md."""

from typing import Final

from benchmarks.gate.history import HistoryRow
from benchmarks.gate.stalls import Stalled
from benchmarks.gate.trials import SameCode, Score, Slower

_TARGETS: Final = {
    "false_fail_max": "<= 0.01",
    "power_5pct_at_1pct_noise": ">= 0.95 within 7 pairs",
    "power_10pct_at_3pct_noise": ">= 0.99",
    "pairs_median": "",
    "power_5pct_at_1pct_noise_worst_steps": "",
    "stalled_pass_max": "about 0.05 a look, for a stall of one step",
    "history_false_fail_max": "0.01 is not reached where single runs stray",
}
_INTRODUCTION: Final = """
Simulated is what `guard pairs` does, with its own functions: both numbers that it reads in a run's summary, all looks. A
run is 500 steps with 5 % of noise from step to step; its numbers are the mean of its winsorised ln(step time), which is that
of the usual step, and the mean step time, which holds long steps at their full length. Pairs are started A B, B A, A B, ... and looked at after 4, 6, 9 and
12. FAIL: either is slower beyond chance, for 0.8 and 0.2 of the error. PASS: of both 3 % or more can be excluded (5 % error each).
"Slower by 5 %" with 1 % of noise between runs is simulated with steps of AR 0.5 and 1 % of spikes.

What is decided by is a fit of all runs: a level, a side, a straight line in time, with 2 k - 3 degrees of freedom
for k pairs. The differences of pairs, as the gate was first laid out, have k - 1: at six pairs Student's t must then
exceed 5.4 instead of 4.2, and the same looks find 5 % within seven pairs less often than 95 in 100, though all of the
error goes to the usual step (last columns). Where the machine jumps during the session the differences find more.

Spikes are steps that take 2 to 10 times as long; "without end" follow Pareto's law with exponent 1.5 from 2 on, which has no variance.

Naive rules, on the same runs: "means" calls one run a side different if their mean steps differ by more than 3 %;
"steps" if Welch's t on their steps has p < 1 %; "A, then B" if Welch's t on six runs of A and then six of B has p < 1 %.
"""
_STALLED: Final = """
## A stall in each 20th step

B is A but for the stall, which is so many usual steps long. The usual step hardly shows it; the mean pays for it. A stall of one step is near the margin
of 3 %: that it passes now and then is the chance of one in twenty that each look has.

| gate | steps | stall | cost | noise between runs | FAIL | PASS | undecided |
|---|---|---|---|---|---|---|---|
"""
_HISTORY: Final = """
## Against history

`guard history` with ten runs of the baseline, 1 % of noise between runs. Where runs differ by a normal law it is wrong as often as it says. **Where
single runs stray it is wrong more often than 1 in 100**: ten runs may hold no stray one, and then a new one that is looks slower. Pairs do not have
this, since what strays hits both sides alike.

| steps | runs | new runs | FAIL, same code | PASS, same code | FAIL, 5 % slower |
|---|---|---|---|---|---|
"""
_CAVEATS: Final = """
## How to read this

The noise is drawn, not recorded, and by the authors of the gate. Levels of runs are independent but for drift, wandering
and a jump. A machine whose runs alternate (fast, slow, fast, slow) in step with A and B would deceive any
gate that starts them in a fixed order, and this one too. PASS spends 5 % at every look: code that is 3 % slower, just on the margin,
passes as often as the table of slower code says.

Undecided is the price of not passing a stall: where long steps come by chance, the mean of 500 steps differs by 2 % (1 % of spikes) to
4 % (5 % of spikes) from run to run, and that few runs of the same code cannot exclude 3 %. Longer runs have calmer means; more new runs help history.

Not simulated: the test apart from waits for a CPU (`comparison/own_time.py`), which a busy machine adds, for a quarter of the error more.
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
    parts = ["\n".join(lines), _STALLED + "\n".join(_stalled(one) for one in score.stalled)]
    parts.append(_HISTORY + "\n".join(_history(one) for one in score.history))
    return "\n".join(parts) + "\n" + _CAVEATS


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


def _stalled(one: Stalled) -> str:
    return (
        f"| {one.gate} | {one.steps} | {one.stall:g} | {100 * one.cost:g} % | {100 * one.sd:g} % "
        f"| {one.found:.3f} | {one.passes:.4f} | {one.undecided:.3f} |"
    )


def _history(one: HistoryRow) -> str:
    return (
        f"| {one.steps} | {one.runs.name} | {one.new} "
        f"| {one.false_fail:.4f} | {one.passes:.3f} | {one.found:.3f} |"
    )
