"""The gate of interleaved pairs: its laws, and its arithmetic against plain least squares."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace_analysis.comparison.gate_answers import mean_alpha, usual_alpha
from traintrace_analysis.comparison.sequential import (
    LOOKS,
    GateRule,
    Pair,
    PairsDecision,
    alpha_of,
    decide,
    interleaved,
)
from traintrace_analysis.comparison.student import critical

CALM = settings(max_examples=150, deadline=None)
noise = st.lists(st.tuples(st.floats(-0.05, 0.05), st.floats(-0.05, 0.05)), min_size=12, max_size=12)  # fmt: skip
order = {"PASS": 0, "CONTINUE": 1, "INCONCLUSIVE": 1, "FAIL": 2}


def pairs_of(runs: list[tuple[float, float]], slower: float = 0.0) -> list[Pair]:
    return [
        Pair(3.0 + a, 3.0 + b + slower, first)
        for (a, b), first in zip(runs, interleaved(len(runs)), strict=True)
    ]


def drawn(sd: float, slower: float, *, drift: float = 0.0, seed: int = 0, pairs: int = 12) -> list[Pair]:  # fmt: skip
    rng = np.random.default_rng(seed)
    made = []
    for place, a_first in enumerate(interleaved(pairs)):
        early, late = sd * rng.standard_normal(2) + drift * np.array([2 * place, 2 * place + 1])
        a, b = (early, late) if a_first else (late, early)
        made.append(Pair(float(a), float(b) + math.log1p(slower), a_first))
    return made


@CALM
@given(noise, st.floats(-0.3, 0.3), st.floats(0.0, 0.3))
def test_a_slower_b_never_fares_better(
    runs: list[tuple[float, float]], slower: float, more: float
) -> None:
    one, other = decide(pairs_of(runs, slower)), decide(pairs_of(runs, slower + more))
    assert order[one.decision] <= order[other.decision]
    if one.decision == "FAIL":
        assert other.pairs <= one.pairs


@CALM
@given(noise, st.floats(-0.3, 0.3))
def test_a_decision_once_made_stays(runs: list[tuple[float, float]], slower: float) -> None:
    pairs = pairs_of(runs, slower)
    made: PairsDecision | None = None
    for count in range(len(pairs) + 1):
        now = decide(pairs[:count])
        if made is not None:
            assert now == made
        elif now.decision in ("FAIL", "PASS"):
            assert count in LOOKS
            made = now
        else:
            assert now.decision == ("INCONCLUSIVE" if count == LOOKS[-1] else "CONTINUE")
            assert (now.next_look is None) == (count == LOOKS[-1])


@CALM
@given(noise, st.floats(-3.0, 3.0), st.integers(4, 12))
def test_the_level_of_both_sides_does_not_matter(
    runs: list[tuple[float, float]], level: float, count: int
) -> None:
    there = decide(pairs_of(runs[:count]))
    shifted = [Pair(p.a_log + level, p.b_log + level, p.a_first) for p in pairs_of(runs[:count])]
    back = decide(shifted)
    assert there.ratio == pytest.approx(back.ratio)
    assert there.smallest_detectable == pytest.approx(back.smallest_detectable, abs=1e-9)


@CALM
@given(noise, st.integers(4, 12))
def test_the_bounds_contain_the_point(runs: list[tuple[float, float]], count: int) -> None:
    now = decide(pairs_of(runs[:count]))
    assert now.low is not None
    assert now.ratio is not None
    assert now.high is not None
    assert now.low <= now.ratio * (1 + 1e-12)
    assert now.ratio <= now.high * (1 + 1e-12)
    assert now.smallest_detectable is not None
    assert now.smallest_detectable >= 0.01


def test_the_false_alarms_of_all_looks_add_up_to_one_in_a_hundred() -> None:
    assert LOOKS == (4, 6, 9, 12)
    assert sum(alpha_of(look) for look in LOOKS) == pytest.approx(0.01)
    assert decide([]).error_rate == pytest.approx(0.01)
    for look in LOOKS:  # the mean step's share is taken from it, not added
        assert usual_alpha(look) + mean_alpha(look) == pytest.approx(alpha_of(look))
        assert mean_alpha(look) > 0.0


def test_before_the_first_look_nothing_is_said() -> None:
    early = decide(drawn(0.01, 0.5)[:3])
    assert (early.decision, early.ratio, early.next_look) == ("CONTINUE", None, 4)


def test_an_even_pair_passes_and_a_slower_one_fails_early() -> None:
    assert decide(drawn(0.005, 0.0)).decision == "PASS"
    slow = decide(drawn(0.01, 0.10))
    assert (slow.decision, slow.pairs) == ("FAIL", 4)
    assert slow.ratio == pytest.approx(1.10, abs=0.02)
    assert "slower than A" in slow.headline
    assert "would fail 8 times in 10" in slow.headline


def test_a_noisy_machine_stays_undecided_and_says_what_it_could_have_seen() -> None:
    noisy = decide(drawn(0.10, 0.0, seed=3))
    assert noisy.decision == "INCONCLUSIVE"
    assert noisy.smallest_detectable is not None
    assert noisy.smallest_detectable > 0.10


def test_a_machine_that_grows_steadily_slower_is_not_held_against_b() -> None:
    drifting = decide(drawn(0.003, 0.0, drift=0.02))
    assert drifting.decision == "PASS"
    assert decide(drawn(0.003, 0.05, drift=0.02)).decision == "FAIL"


def test_too_small_a_slowdown_passes_however_certain() -> None:
    tiny = decide(drawn(0.0001, 0.005))
    assert tiny.decision == "PASS"
    assert decide(drawn(0.0001, 0.005), GateRule(0.001, 0.03)).decision == "FAIL"


def test_a_run_without_a_step_time_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        decide([Pair(math.nan, 1.0, True)] * 4)


@pytest.mark.parametrize("seed", range(6))
def test_the_error_is_that_of_least_squares(seed: int) -> None:
    pairs = drawn(0.03, 0.04, seed=seed)
    now = decide(pairs)
    runs = 2 * now.pairs
    ordered = [
        one
        for pair in pairs
        for one in (((pair.a_log, 0.0), (pair.b_log, 1.0))[:: 1 if pair.a_first else -1])
    ][:runs]
    series, is_b = np.array(ordered).T
    design = np.column_stack([np.ones(runs), is_b, np.arange(runs)])
    fitted, squares, *_ = np.linalg.lstsq(design, series, rcond=None)
    error = math.sqrt(squares[0] / (runs - 3) * np.linalg.inv(design.T @ design)[1, 1])
    assert now.ratio == pytest.approx(math.exp(fitted[1]))
    reach = critical(0.05, runs - 3) * error
    assert now.high == pytest.approx(math.exp(fitted[1] + reach))
    reach = critical(usual_alpha(now.pairs), runs - 3) * error
    assert now.low == pytest.approx(math.exp(fitted[1] - reach))
