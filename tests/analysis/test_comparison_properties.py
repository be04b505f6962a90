"""Laws of a comparison, for whatever two sides hold."""

import math
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.labs.compared import made, scaled
from traintrace_analysis.comparison.compare import compare
from traintrace_analysis.comparison.model import ComparedRun, Comparison, NoiseModel

MIRROR = {"REGRESSION": "IMPROVEMENT", "IMPROVEMENT": "REGRESSION"}
TURNED = {"regressed": "improved", "improved": "regressed"}
BASE = tuple(made(seed=seed, name=f"run{seed}") for seed in range(6))
CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

levels = st.lists(st.floats(-0.4, 0.4), min_size=1, max_size=3)
noises = st.none() | st.builds(
    NoiseModel,
    run_sd_log=st.floats(0.001, 0.1),
    runs=st.integers(6, 40),
    fingerprint=st.just(BASE[0].fingerprint),
)


def a_side(changes: list[float], first: int) -> list[ComparedRun]:
    return [scaled(BASE[first + place], math.exp(level)) for place, level in enumerate(changes)]


def judged(of: Comparison) -> dict[str, str]:
    return {
        **{f"metric {one.name}": one.judged for one in of.metrics},
        **{f"phase {one.name}": one.judged for one in of.phases},
    }


@CALM
@given(levels, levels, noises)
def test_changing_places_mirrors_the_verdict(
    a: list[float], b: list[float], noise: NoiseModel | None
) -> None:
    one, other = a_side(a, 0), a_side(b, 3)
    there, back = compare(one, other, noise=noise), compare(other, one, noise=noise)
    assert back.verdict == MIRROR.get(there.verdict, there.verdict)
    assert judged(back) == {name: TURNED.get(said, said) for name, said in judged(there).items()}
    before = next(row for row in there.metrics if row.name == "step_time")
    after = next(row for row in back.metrics if row.name == "step_time")
    assert before.ratio is not None
    assert after.ratio is not None
    assert math.isclose(before.ratio * after.ratio, 1.0, rel_tol=1e-9)


@CALM
@given(levels, levels, noises, st.floats(1.0, 100.0))
def test_scaling_both_sides_changes_no_judgement(
    a: list[float], b: list[float], noise: NoiseModel | None, factor: float
) -> None:
    # Where a step is longer than some ms, the floor in ms, which does not scale, never decides.
    one, other = ([scaled(run, 10.0) for run in a_side(side, first)] for side, first in ((a, 0), (b, 3)))  # fmt: skip
    small = compare(one, other, noise=noise)
    large = compare(
        [scaled(run, factor) for run in one], [scaled(run, factor) for run in other], noise=noise
    )
    assert large.verdict == small.verdict
    said = judged(small)
    assert {name: one_said for name, one_said in judged(large).items() if "step_time" in name} == {
        name: one_said for name, one_said in said.items() if "step_time" in name
    }


@CALM
@given(levels, levels, noises)
def test_every_interval_contains_its_point(
    a: list[float], b: list[float], noise: NoiseModel | None
) -> None:
    found = compare(a_side(a, 0), a_side(b, 3), noise=noise)
    for row in found.metrics:
        if row.difference_ms is not None and row.low_ms is not None and row.high_ms is not None:
            assert row.low_ms <= row.difference_ms <= row.high_ms
        if row.ratio is not None and row.ratio_low is not None and row.ratio_high is not None:
            assert row.ratio_low <= row.ratio <= row.ratio_high
        assert row.smallest_detectable is None or row.smallest_detectable >= 0.0
    for one in found.phases:
        if one.difference_s is not None and one.low_s is not None and one.high_s is not None:
            assert one.low_s <= one.difference_s <= one.high_s


@CALM
@given(
    st.sampled_from(["mean_ms", "log_mean", "log_sd", "tau", "n_effective", "block_means"]),
    st.sampled_from([math.nan, math.inf, -math.inf]),
    st.booleans(),
    levels,
)
def test_a_number_that_is_none_never_gives_a_verdict(
    field: str, number: float, in_a: bool, b: list[float]
) -> None:
    one, other = a_side([0.0], 0), a_side(b, 3)
    side = one if in_a else other
    wrong: dict[str, Any] = {field: (1.0, number) if field == "block_means" else number}
    step = replace(side[-1].metrics["step_time"], **wrong)
    side[-1] = replace(side[-1], metrics={**side[-1].metrics, "step_time": step})
    found = compare(one, other, max_regression=0.1)
    assert found.verdict == "INCOMPARABLE"
    assert found.error_rate is None
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


@CALM
@given(levels, levels, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_larger_threshold_never_makes_a_run_slower(
    a: list[float], b: list[float], one: float, other: float
) -> None:
    order = {"SLOWER": 2, "INCONCLUSIVE": 1, "WITHIN_THRESHOLD": 0, "FASTER": 0}
    answers = [
        compare(a_side(a, 0), a_side(b, 3), max_regression=threshold).guard
        for threshold in sorted((one, other))
    ]
    assert answers[0] is not None
    assert answers[1] is not None
    assert order[answers[0].outcome] >= order[answers[1].outcome]
