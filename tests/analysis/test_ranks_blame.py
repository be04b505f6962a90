"""Who is blamed among ranks: public reports, told apart by what each rank did itself."""

from collections.abc import Mapping

import numpy as np
import pytest

from tests.labs.lockstep import Floats, Wait, noise, own_work, run_of, synchronise
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding

STEPS = 60


def work(ranks: int, steps: int = STEPS, seed: int = 1, cv: float = 0.03) -> dict[str, Floats]:
    factors = noise(np.random.default_rng(seed), (ranks, steps), cv=cv, ar=0.3)
    return own_work(ranks, steps, factors)


def blamed(analysis: Analysis) -> list[Finding]:
    return [one for one in analysis.findings if one.family == "ranks" and one.severity != "info"]


def the_one(analysis: Analysis) -> Finding:
    (finding,) = blamed(analysis)
    return finding


KINDS: Mapping[str, str] = {
    "input_wait": "INPUT_STRAGGLER", "h2d": "H2D_STRAGGLER", "forward": "COMPUTE_STRAGGLER",
    "backward": "BACKWARD_STRAGGLER", "optimizer": "COMPUTE_STRAGGLER", "other": "STRAGGLER",
}  # fmt: skip


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("account", KINDS)
def test_d01_a_rank_slow_in_any_account_is_named_with_it(account: str, ranks: int) -> None:
    """TML#252: with the end of own backward marked, even a slow backward has a name."""
    own = work(ranks)
    own["h2d"] = np.full((ranks, STEPS), 0.5)
    own[account][1] += 30.0
    finding = the_one(analyse(run_of(synchronise(own))))
    assert (finding.kind, finding.ranks) == (KINDS[account], (1,))
    assert finding.evidence["cause"] == account
    assert finding.cost_s == pytest.approx(30e-3 * STEPS, rel=0.1)
    assert finding.evidence["waiting_ms"] == pytest.approx(1.0, abs=1.0)
    assert finding.evidence["waiting_of_others_ms"] == pytest.approx(31.0, abs=3.0)


def test_d01_without_the_mark_nobody_is_blamed_for_a_slow_backward() -> None:
    """TML#252: all ranks' backward takes as long; whose work it is cannot be told."""
    own = work(3)
    own["backward"][1] += 100.0
    analysis = analyse(run_of(synchronise(own, wait="backward")))
    assert blamed(analysis) == []
    state = analysis.families["ranks"]
    assert state.state == "insufficient"
    assert "slow in backward cannot be told" in state.reason
    assert analysis.ranks is not None
    assert not analysis.ranks.backward_split


@pytest.mark.parametrize("wait", ["backward", "forward", "batch_prep", "communication"])
def test_d02_peers_that_wait_inside_another_account_are_not_blamed(wait: Wait) -> None:
    """TML#142, DeepSpeed#3579: the peers of a rank with slow input look slow where they wait."""
    own = work(3)
    own["input_wait"][1] += 100.0
    finding = the_one(analyse(run_of(synchronise(own, wait=wait))))
    assert (finding.kind, finding.ranks) == ("INPUT_STRAGGLER", (1,))
    assert finding.cost_s == pytest.approx(0.1 * STEPS, rel=0.1)


def test_d03_a_rank_without_timings_is_neither_culprit_nor_median() -> None:
    """TML#228: a rank that lacks backward is left out, and said to be."""
    own = work(3)
    own["input_wait"][1] += 30.0
    accounts = synchronise(own, wait="backward")
    analysis = analyse(run_of(accounts, without={2: ("backward",)}))
    finding = the_one(analysis)
    assert (finding.kind, finding.ranks) == ("INPUT_STRAGGLER", (1,))
    assert finding.evidence["input_wait_excess_ms"] == pytest.approx(30.0, abs=1.0)
    assert analysis.ranks is not None
    assert set(analysis.ranks.by_rank) == {0, 1}
    assert analysis.ranks.left_out == {2: "backward not measured"}
    assert analysis.coverage["section.ranks"].state == "partial"
    assert "could not be compared" in finding.why


@pytest.mark.parametrize("order", ["in turn", "at random"])
@pytest.mark.parametrize("ranks", [3, 4, 16])
def test_d04_a_culprit_that_rotates_is_a_class_of_its_own(ranks: int, order: str) -> None:
    """TML#374: four ranks, another one late by 80 ms at each step; no single rank is blamed."""
    own = work(ranks, 120)
    turns = np.arange(120) % ranks
    if order == "at random":
        turns = np.random.default_rng(5).permutation(turns)
    own["forward"][turns, np.arange(120)] += 80.0
    finding = the_one(analyse(run_of(synchronise(own))))
    assert finding.kind == "ROTATING_STRAGGLER"
    assert finding.evidence["late_share"] == pytest.approx(1.0, abs=0.05)
    assert finding.evidence["last_share_rank_0"] == pytest.approx(1.0 / ranks, abs=0.05)
    assert finding.cost_s == pytest.approx(0.080 * 120, rel=0.1)


def test_d11_sharded_ranks_that_wait_in_forward_are_not_blamed_for_it() -> None:
    """PT#102434: rank 0's forward holds 60 ms of waiting for rank 1; that warns at most."""
    own = work(2)
    own["input_wait"][1] += 60.0
    finding = the_one(analyse(run_of(synchronise(own, wait="forward"), strategy="fsdp")))
    assert (finding.kind, finding.ranks) == ("INPUT_STRAGGLER", (1,))
    assert finding.severity == "warning"


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp2", "deepspeed"])
def test_d11_a_sharded_rank_that_computes_slowly_has_no_name(strategy: str) -> None:
    own = work(4)
    own["forward"][1] += 30.0
    analysis = analyse(run_of(synchronise(own, wait="forward"), strategy=strategy))
    assert blamed(analysis) == []
    assert "may hold communication" in analysis.families["ranks"].reason


def test_d12_the_rank_that_comes_late_to_a_broadcast_is_the_cause_and_not_who_waits_there() -> None:
    """PL#21487: rank 1 is delayed after its step, rank 0 waits for it in the next broadcast."""
    own = work(2)
    own["gap"] = np.full((2, STEPS), 0.2)
    own["gap"][1] += 100.0
    finding = the_one(analyse(run_of(synchronise(own, wait="communication"))))
    assert (finding.kind, finding.ranks) == ("STRAGGLER", (1,))
    assert finding.evidence["cause"] == "gap"


def test_d12_where_the_broadcast_is_not_told_from_the_delay_nobody_is_blamed() -> None:
    own = work(2)
    own["gap"] = np.full((2, STEPS), 100.0)
    assert blamed(analyse(run_of(synchronise(own)))) == []


def test_d14_a_delay_in_every_micro_batch_of_one_rank_is_its_backward() -> None:
    """ACC#1153: a step of four synchronised micro-batches is one row with the sums of all four."""
    own = work(2)
    own["backward"][1] += 4 * 30.0
    finding = the_one(analyse(run_of(synchronise(own, link_ms=4.0))))
    assert (finding.kind, finding.ranks) == ("BACKWARD_STRAGGLER", (1,))


def test_when_all_wait_alike_nobody_is_blamed_and_communication_is() -> None:
    analysis = analyse(run_of(synchronise(work(4), link_ms=30.0)))
    assert blamed(analysis) == []


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_even_ranks_are_clean(ranks: int) -> None:
    analysis = analyse(run_of(synchronise(work(ranks, 200))))
    assert blamed(analysis) == []
    assert analysis.families["ranks"].state == "clean"
    assert analysis.coverage["section.ranks"].state == "measured"


def test_one_rank_has_nobody_to_be_compared_with() -> None:
    analysis = analyse(run_of(synchronise(work(1))))
    assert analysis.ranks is None
    assert analysis.families["ranks"].state == "not_measured"
    assert analysis.coverage["section.ranks"].state == "not_measured"


def test_the_section_shows_every_rank_against_the_others() -> None:
    own = work(4)
    own["forward"][2] += 25.0
    section = analyse(run_of(synchronise(own), nodes=(0, 0, 1, 1))).ranks
    assert section is not None
    assert section.by_rank[2].excess_ms == pytest.approx(25.0, abs=1.5)
    assert section.by_rank[2].last_share > 0.95
    assert section.by_rank[0].waiting_ms == pytest.approx(26.0, abs=3.0)
    assert section.by_node[1].ranks == (2, 3)
    assert [section.by_rank[rank].node for rank in range(4)] == [0, 0, 1, 1]
