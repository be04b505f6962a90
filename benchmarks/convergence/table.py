"""The table that is committed: RESULTS.md."""

from collections.abc import Sequence
from typing import Final

from benchmarks.convergence.events import EVENTS
from benchmarks.convergence.trials import Loud, Quiet

_INTRODUCTION: Final = """
A run logs a loss and a gradient norm at each step, or at each 50th; its steps stall now and then, its batches differ in
length, and both its step time and its memory go with that. The whole family `convergence` is asked, by the code that
makes a report. A false finding is any finding of the family, an observation too, in a run in which nothing happens.

An event is put into such a run at a random step. Sizes are in robust standard deviations of the logarithm of the value about
its course: how wide the curve looks. That of gradients is a factor.
"""
_CAVEATS: Final = """
## How to read this

The noise is drawn, not recorded, by the authors of the rules. A single value, or two or three in a row that meet others, are not
tried in noise whose single values are as large by themselves (Student t3, heteroscedastic): nothing is said there, by design. "Small spike" shows where recall
ends; it is no target. A level loss is not called "no progress": noise around a level and going on with a trained model look the same.
"""


def figures(quiet: Sequence[Quiet], loud: Sequence[Loud]) -> dict[str, float]:
    """Give the numbers that a machine reads."""
    recall = {
        f"recall_{one.event.replace(' ', '_')}_{one.steps}{'' if one.every == 1 else '_sparse'}": one.recall
        for one in loud
    }
    return {
        "runs_per_noise": min((one.runs for one in quiet), default=0),
        "false_share_max": max((one.share for one in quiet), default=0.0),
        "false_share_mean": sum(one.share for one in quiet) / max(1, len(quiet)),
        **recall,
    }


def write_table(quiet: Sequence[Quiet], loud: Sequence[Loud]) -> str:
    """Write the results as Markdown."""
    lines = [
        "# How often the lens on convergence is wrong",
        "",
        "Made by `python -m benchmarks.convergence --table`.",
        _INTRODUCTION,
        "## Nothing happens",
        "",
        "| noise | steps | logged each | runs | with a finding | share | kinds |",
        "|---|---|---|---|---|---|---|",
        *(_quiet(one) for one in quiet),
        "",
        "## Something happens",
        "",
        "| event | what it is | to be found | steps | logged each | runs | recall |",
        "|---|---|---|---|---|---|---|",
        *(_loud(one) for one in loud),
    ]
    return "\n".join(lines) + "\n" + _CAVEATS


def _quiet(one: Quiet) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(one.kinds.items())) or "-"
    return (
        f"| {one.noise} | {one.steps:,} | {one.every} | {one.runs:,} | {one.false} | {one.share:.4f} "
        f"| {kinds} |"
    )


def _loud(one: Loud) -> str:
    event = EVENTS[one.event]
    return (
        f"| {one.event} | {event.told} | {event.kind} | {one.steps:,} | {one.every} | {one.runs} "
        f"| {one.recall:.3f} |"
    )
