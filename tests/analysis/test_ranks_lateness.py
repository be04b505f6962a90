"""Ranks that are late now and then, each time another, or only since a step: all that no mean shows."""

import numpy as np
import pytest

from tests.labs.lockstep import Floats, Wait, noise, own_work, run_of, synchronise, window_of
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding
from traintrace_analysis.ranks import Comparison, compare_ranks


def work(ranks: int, steps: int, seed: int = 1, cv: float = 0.03) -> dict[str, Floats]:
    factors = noise(np.random.default_rng(seed), (ranks, steps), cv=cv, ar=0.3)
    return own_work(ranks, steps, factors)


def blamed(analysis: Analysis) -> list[Finding]:
    return [one for one in analysis.findings if one.family == "ranks" and one.severity != "info"]


def the_one(analysis: Analysis) -> Finding:
    (finding,) = blamed(analysis)
    return finding


def compared(accounts: dict[str, Floats]) -> Comparison:
    comparison = compare_ranks(window_of(accounts))
    assert comparison is not None
    return comparison


@pytest.mark.parametrize(
    ("ranks", "share"), [(16, 0.3), (16, 0.9), (64, 0.25), (64, 0.4), (64, 0.9)]
)
def test_hiccups_that_each_of_many_ranks_has_rarely_are_named_by_what_they_cost_together(
    ranks: int, share: float
) -> None:
    """A rank of 64 is late in one step of 70 if one of them is in nine steps of ten."""
    rng, steps = np.random.default_rng(4), 150
    own = work(ranks, steps)
    late = rng.random(steps) < share
    own["forward"][rng.integers(ranks, size=steps)[late], np.flatnonzero(late)] += 50.0
    analysis = analyse(run_of(synchronise(own)))
    finding = the_one(analysis)
    assert finding.kind == "ROTATING_STRAGGLER"
    assert finding.cost_s == pytest.approx(0.050 * late.sum(), rel=0.1)
    assert finding.evidence["late_share"] == pytest.approx(late.mean(), abs=0.04)
    assert finding.evidence["cause"] == "forward"
    assert analysis.verdict.kind == "ROTATING_STRAGGLER"


@pytest.mark.parametrize(("ranks", "rotates"), [(2, False), (16, True), (64, True), (256, True)])
def test_spikes_of_a_hundredth_of_the_steps_count_by_what_all_ranks_lose_to_them(
    ranks: int, rotates: bool
) -> None:
    """Ranks that spike independently lose little at 2 ranks, and half of the time at 64."""
    factors = noise(np.random.default_rng(3), (ranks, 200), cv=0.1, ar=0.5, spikes=0.01)
    comparison = compared(synchronise(own_work(ranks, 200, factors)))
    assert comparison.rotation.rotates is rotates
    assert comparison.stragglers == ()


@pytest.mark.parametrize("ranks", [2, 8, 64, 256])
def test_even_noise_of_a_fifth_is_no_rotation_though_the_slowest_costs_much(ranks: int) -> None:
    for seed in range(5):
        own = own_work(ranks, 120, noise(np.random.default_rng(seed), (ranks, 120), cv=0.2, ar=0.5))
        comparison = compared(synchronise(own))
        assert not comparison.rotation.rotates
        assert comparison.rotation.share < 0.03


@pytest.mark.parametrize("wait", ["backward", "forward", "gradient_sync"])
@pytest.mark.parametrize("period", [2, 4])
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_rank_that_is_slow_in_every_few_steps_is_named_where_the_wait_hides_in_work_too(
    ranks: int, period: int, wait: Wait
) -> None:
    own = work(ranks, 160)
    own["input_wait"][1, ::period] += 40.0
    finding = the_one(analyse(run_of(synchronise(own, wait=wait))))
    assert (finding.kind, finding.ranks) == ("INPUT_STRAGGLER", (1,))
    assert finding.cost_s == pytest.approx(0.040 * 160 / period, rel=0.15)


def test_what_a_rank_does_after_the_synchronisation_now_and_then_is_named_as_that() -> None:
    own = work(3, 400, cv=0.01)
    own["callbacks"] = np.full((3, 400), 0.2)
    own["callbacks"][1, ::4] += 20.0
    finding = the_one(analyse(run_of(synchronise(own))))
    assert (finding.kind, finding.ranks) == ("STRAGGLER", (1,))
    assert finding.evidence["cause"] == "callbacks"
    assert finding.evidence["callbacks_excess_ms"] == pytest.approx(20.0, abs=0.5)
    assert finding.evidence["late_share"] == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("together", [True, False])
def test_two_ranks_that_are_late_now_and_then_are_both_named(together: bool) -> None:
    own = work(8, 400)
    own["forward"][1, ::6] += 40.0
    own["forward"][6, 0 if together else 3 :: 6] += 40.0
    finding = the_one(analyse(run_of(synchronise(own))))
    assert (finding.kind, finding.ranks) == ("COMPUTE_STRAGGLER", (1, 6))
    late = 1 / 6 if together else 1 / 3
    assert finding.evidence["late_share"] == pytest.approx(late, abs=0.02)
    assert finding.cost_s == pytest.approx(0.040 * 400 * late, rel=0.1)
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(1.0 + late * 40.0 / 53.0, rel=0.03)


def test_two_ranks_that_are_late_now_and_then_with_different_things_are_two_findings() -> None:
    own = work(8, 400)
    own["forward"][1, ::6] += 40.0
    own["input_wait"][6, 3::6] += 40.0
    kinds = {one.kind: one.ranks for one in blamed(analyse(run_of(synchronise(own))))}
    assert kinds == {"COMPUTE_STRAGGLER": (1,), "INPUT_STRAGGLER": (6,)}


@pytest.mark.parametrize("wait", ["gradient_sync", "backward"])
@pytest.mark.parametrize("ranks", [2, 4, 64])
@pytest.mark.parametrize(("first", "ms"), [(140, 14.0), (170, 20.0)])
def test_a_rank_that_became_slow_late_is_named_with_the_step_since_which_it_is(
    ranks: int, wait: Wait, first: int, ms: float
) -> None:
    own = work(ranks, 200)
    own["input_wait"][1, first:] += ms
    finding = the_one(analyse(run_of(synchronise(own, wait=wait))))
    assert (finding.kind, finding.ranks) == ("INPUT_STRAGGLER", (1,))
    assert finding.evidence["since_step"] == pytest.approx(first + 1, abs=1)
    # Without it the next slowest of many ranks is waited for.
    assert 0.7 <= finding.cost_s / (1e-3 * ms * (200 - first)) <= 1.1
    assert f"since step {finding.evidence['since_step']}" in finding.headline


def test_a_rank_that_became_slow_too_late_to_cost_much_is_said_to_be() -> None:
    own = work(4, 200)
    own["forward"][1, 180:] += 8.0
    analysis = analyse(run_of(synchronise(own)))
    assert blamed(analysis) == []
    state = analysis.families["ranks"]
    assert state.state == "insufficient"
    assert state.reason.startswith("Rank 1 has been slower than the others since step 181")


def test_a_rank_that_was_slow_only_early_is_said_to_have_been() -> None:
    own = work(4, 200)
    own["forward"][1, :60] += 10.0
    comparison = compared(synchronise(own))
    assert comparison.stragglers == ()
    assert [(one.row, one.since) for one in comparison.unripe] == [(1, None)]


def test_one_long_pause_of_a_rank_is_no_habit_and_no_rotation() -> None:
    own = work(4, 200)
    own["forward"][1, 150:156] += 900.0
    assert blamed(analyse(run_of(synchronise(own)))) == []
