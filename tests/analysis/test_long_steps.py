"""A stall in some steps: the usual step hides it, the mean pays for it, and no answer may pass it."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.labs.compared import STEP, facts, summary
from tests.labs.runs import make_rank
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.history import judge_history
from traintrace_analysis.comparison.model import ComparedRun
from traintrace_analysis.comparison.reading import compared_run
from traintrace_analysis.comparison.sequential import Pair, PairsDecision, decide, interleaved

STALL = math.log(1.4)


def stalling(
    name: str,
    seed: int,
    every: int = 0,
    *,
    stall_ms: float = 40.0,
    level: float = 0.0,
    steps: int = 300,
) -> ComparedRun:
    """Make a run of which each so-manyth step waits so long for input; 0 is none."""
    rng = np.random.default_rng(seed)
    ways = {k: mean * np.exp(level + 0.02 * rng.standard_normal(steps)) for k, mean in STEP.items()}
    if every:
        ways["input_wait"][::every] += stall_ms
    rank = make_rank(
        steps, ms={name: way.tolist() for name, way in ways.items()}, jitter=0.0, samples=32
    )
    run = facts(name=name, seed=seed)
    return compared_run(summary(replace(run, ranks=[rank])))


def side(label: str, first: int, every: int = 0) -> list[ComparedRun]:
    levels = 0.01 * np.random.default_rng(first).standard_normal(5)
    return [
        stalling(f"{label}{number}", first + number, every, level=float(level))
        for number, level in enumerate(levels)
    ]


def test_a_stall_in_each_fifth_step_is_a_regression_of_the_mean() -> None:
    found = compare(side("a", 0), side("b", 50, every=5), max_regression=0.05)
    assert found.verdict == "REGRESSION"
    assert "mean step of B" in found.headline
    assert "input_wait" in found.headline
    assert "usual step" in found.headline
    assert found.guard is not None
    assert found.guard.outcome == "SLOWER"


def test_one_run_a_side_is_enough_if_its_blocks_all_stall() -> None:
    found = compare([stalling("a", 1)], [stalling("b", 2, every=5)], max_regression=0.10)
    assert found.verdict == "REGRESSION"
    assert found.guard is not None
    assert found.guard.outcome == "SLOWER"
    back = compare([stalling("b", 2, every=5)], [stalling("a", 1)], max_regression=0.10)
    assert back.verdict == "IMPROVEMENT"


def test_a_stall_in_few_steps_of_a_short_run_does_not_pass_unseen() -> None:
    short = [stalling("a", 1, steps=70)], [stalling("b", 2, every=30, steps=70)]
    found = compare(*short, max_regression=0.06)
    assert found.verdict == "INCONCLUSIVE"
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


def test_the_other_order_gives_the_other_answer() -> None:
    a, b = side("a", 0), [stalling(f"b{n}", 60 + n, every=100, stall_ms=600.0) for n in range(5)]
    there, back = compare(a, b), compare(b, a)
    assert there.verdict == back.verdict == "INCONCLUSIVE"
    assert "rule out chance" in there.headline
    assert "rule out chance" in back.headline


def test_two_long_steps_on_one_side_are_told_and_do_not_decide() -> None:
    found = compare([stalling("a", 1)], [stalling("b", 2, every=150, stall_ms=400.0)])
    assert any("long steps are not equally many" in text for text in found.warnings)
    assert found.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize("stall_ms", [250.0, 600.0])
def test_what_rare_stalls_may_cost_is_not_within_a_threshold_below_it(stall_ms: float) -> None:
    """By chance two runs of five stalled: the usual step is the same, and so much of the mean is not known."""
    rare = [
        stalling(f"b{n}", n, every=100 if n % 2 else 0, stall_ms=stall_ms) for n in range(50, 55)
    ]
    found = compare(side("a", 0), rare, max_regression=0.03)
    assert found.verdict == "INCONCLUSIVE"
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"
    assert "by long steps it may be up to" in found.guard.reason
    wide = compare(side("a", 0), rare, max_regression=0.5)
    assert wide.guard is not None
    assert wide.guard.outcome == "WITHIN_THRESHOLD"


def pairs(apart: float, seed: int = 0, scatter: float = 0.005, number: int = 12) -> PairsDecision:
    """Decide about so many pairs with equal usual steps, whose means lie `apart`."""
    rng = np.random.default_rng(seed)
    made = [
        Pair(a, b, first, a + scatter * odd, b + apart + scatter * even)
        for first, (a, b, odd, even) in zip(
            interleaved(12), 0.005 * rng.standard_normal((12, 4)), strict=True
        )
    ]
    return decide(made[:number], most=number)


def test_pairs_fail_by_the_mean_alone_and_say_so() -> None:
    assert pairs(0.0).decision == "PASS"
    found = pairs(STALL)
    assert found.decision == "FAIL"
    assert "mean step of B" in found.headline
    assert found.low is not None
    assert found.low > 1.0
    assert found.ratio == pytest.approx(1.4, abs=0.02)


def test_pairs_whose_means_lie_apart_beyond_the_margin_do_not_pass() -> None:
    found = pairs(0.08, seed=3, scatter=12.0)
    assert found.decision == "INCONCLUSIVE"
    assert "mean step" in found.headline
    assert found.smallest_detectable is not None
    assert found.smallest_detectable > 0.06  # of the mean: the usual step would show 1 %


def test_pairs_pass_only_if_the_mean_excludes_the_margin_as_well() -> None:
    """Long steps by chance: the means of the same code differ, and no few pairs exclude a stall."""
    found = [pairs(0.0, seed=seed, scatter=10.0) for seed in range(20)]
    blocked = [one for one in found if one.decision == "INCONCLUSIVE"]
    assert len(blocked) > 10
    assert all("the usual step would pass" in one.headline for one in blocked)
    assert all(one.smallest_detectable and one.smallest_detectable > 0.03 for one in blocked)
    stalled = [pairs(0.05, seed=seed, scatter=6.0) for seed in range(40)]
    assert sum(one.decision == "PASS" for one in stalled) <= 2


def test_where_no_more_pairs_are_allowed_the_reason_stands_too() -> None:
    found = pairs(0.08, seed=3, scatter=12.0, number=6)
    assert (found.decision, found.next_look) == ("INCONCLUSIVE", None)
    assert found.headline.startswith("The pairs do not decide, after 6 pairs")
    assert "the usual step would pass" in found.headline


def test_what_passes_says_what_is_excluded_of_the_mean_as_well() -> None:
    found = pairs(0.01, scatter=0.002)
    assert found.decision == "PASS"
    most = re.search(r"([\d.]+) % at most", found.headline)
    assert most is not None
    assert 1.0 < float(most.group(1)) < 3.0


def test_a_mean_that_is_hardly_slower_never_fails() -> None:
    """B is 3 % faster in the usual step, and by long steps 0.5 % slower in the mean, beyond chance."""
    rng = np.random.default_rng(4)
    noise = 0.0002 * rng.standard_normal((12, 4))
    gate = [
        Pair(a, b - 0.03, first, odd, even + 0.005)
        for first, (a, b, odd, even) in zip(interleaved(12), noise, strict=True)
    ]
    assert decide(gate).decision == "PASS"
    base, new = noise[:, 0].tolist(), noise[:2, 1].tolist()
    means = [one + 0.005 for one in new], base
    assert judge_history([one - 0.03 for one in new], base, means=means).decision == "PASS"


def levels(seed: int, count: int) -> Sequence[float]:
    drawn: list[float] = (0.005 * np.random.default_rng(seed).standard_normal(count)).tolist()
    return drawn


@pytest.mark.parametrize(("apart", "decision"), [(0.0, "PASS"), (STALL, "FAIL")])
def test_history_asks_for_the_mean_as_well(apart: float, decision: str) -> None:
    baseline, new = levels(1, 12), levels(2, 2)
    means = [level + apart for level in new], baseline
    found = judge_history(new, baseline, means=means)
    assert found.decision == decision
    assert judge_history(new, baseline).decision == "PASS"
    assert ("mean" in found.headline) == (decision == "FAIL")


def test_history_passes_only_if_the_mean_excludes_the_margin_as_well() -> None:
    baseline, new = levels(1, 12), levels(2, 2)
    spread = [one + 8.0 * other for one, other in zip(baseline, levels(3, 12), strict=True)]
    found = judge_history(new, baseline, means=(new, spread))
    assert found.decision == "INCONCLUSIVE"
    assert "would pass, but by long steps" in found.headline
    assert found.smallest_detectable > 0.05


def test_a_fail_by_history_says_how_often_it_is_wrong() -> None:
    baseline = levels(1, 12)
    found = judge_history([0.1, 0.1], baseline)
    assert found.decision == "FAIL"
    assert "7 of 100 runs of the same code" in found.headline
