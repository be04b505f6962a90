"""How often the limiting stage is right, and how often a healthy pipeline is accused: few in CI, many in the long tests."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.stages.lines import draw_line
from benchmarks.stages.scoring import Score, judge_limiting, judge_what_ifs, simulated
from tests.labs.runs import make_rank, make_run
from tests.labs.stages import line
from traintrace_analysis import analyse


def accused(seed: int) -> bool:
    """Draw a pipeline whose last stage leads by a tenth, with room between the stages; tell whether one is named."""
    rng = np.random.default_rng(seed)
    before = rng.uniform(30.0, 90.0, rng.integers(1, 4))
    workers = (*(int(one) for one in rng.integers(1, 4, len(before))), 1)
    pipeline = line(
        *before, 100.0, count=400, capacity=int(rng.integers(6, 12)), workers=workers,
        variation=float(rng.uniform(0.05, 0.4)), seed=seed,
    )  # fmt: skip
    analysis = analyse(make_run(replace(make_rank(20), pipeline=pipeline)))
    return any(one.family == "stages" and one.severity != "info" for one in analysis.findings)


def test_a_stage_that_leads_by_five_per_cent_is_named() -> None:
    score = Score()
    for number in range(4):
        judge_limiting(score, draw_line(number, items=2_000, lead=0.05), simulated)
    assert (score.right, score.asked) == (4, 4)


def test_pipelines_that_keep_up_are_not_accused() -> None:
    assert sum(accused(seed) for seed in range(10)) == 0


def named(seed: int, equal: bool) -> bool:
    """Draw a pipeline whose middle stage leads by a quarter, or by nothing; tell whether a stage is named."""
    pipeline = line(
        80.0, 80.0 if equal else 100.0, 80.0, count=150, capacity=4, variation=0.4, seed=seed
    )
    analysis = analyse(make_run(replace(make_rank(20), pipeline=pipeline)))
    found = [one for one in analysis.findings if one.kind == "STAGE_BOTTLENECK"]
    return any(one.severity != "info" for one in found)


def test_a_stage_that_leads_by_a_quarter_is_found() -> None:
    assert sum(named(seed, equal=False) for seed in range(12)) >= 11


def test_equal_stages_are_not_blamed() -> None:
    assert sum(named(seed, equal=True) for seed in range(12)) == 0


@pytest.mark.long
def test_recall_and_false_alarms_over_many_runs() -> None:
    assert sum(named(seed, equal=False) for seed in range(200)) >= 180
    assert sum(named(seed, equal=True) for seed in range(200)) <= 2


@pytest.mark.long
def test_a_stage_that_leads_by_five_per_cent_is_named_in_98_of_100() -> None:
    score = Score()
    for number in range(300):
        judge_limiting(score, draw_line(number, items=2_000, lead=0.05), simulated)
    assert score.accuracy >= 0.98


@pytest.mark.long
def test_pipelines_that_keep_up_are_accused_in_less_than_one_of_100() -> None:
    assert sum(accused(seed) for seed in range(300)) <= 3


@pytest.mark.long
def test_what_ifs_hold_for_other_runs_within_three_points() -> None:
    score = Score()
    for number in range(15):
        lead = (0.0, 0.01, 0.03, 0.05, 0.2)[number % 5]
        lines = [draw_line(number, items=3_000, lead=lead, draws=draws) for draws in range(3)]
        judge_what_ifs(score, lines, simulated)
    assert score.withheld == 0
    assert max(score.errors) <= 3.0
