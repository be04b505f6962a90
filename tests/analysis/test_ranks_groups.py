"""Several slow ranks, slow nodes, uneven data, silent ranks: one finding a cause, no cause billed twice."""

from dataclasses import replace

import numpy as np
import pytest

from tests.labs.lockstep import Floats, noise, own_work, run_of, synchronise, window_of
from traintrace.facts import RankFacts, RunFacts, RunStatus
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding
from traintrace_analysis.ranks import compare_ranks

STEPS = 60


def work(ranks: int, steps: int = STEPS, seed: int = 1, cv: float = 0.03) -> dict[str, Floats]:
    factors = noise(np.random.default_rng(seed), (ranks, steps), cv=cv, ar=0.3)
    return own_work(ranks, steps, factors)


def blamed(analysis: Analysis) -> list[Finding]:
    return [one for one in analysis.findings if one.family == "ranks" and one.severity != "info"]


def test_one_node_of_two_is_one_finding_about_all_its_ranks() -> None:
    own = work(16)
    own["forward"][8:] += 20.0
    (finding,) = blamed(analyse(run_of(synchronise(own), nodes=(0,) * 8 + (1,) * 8)))
    assert finding.ranks == tuple(range(8, 16))
    assert finding.evidence["node"] == 1
    assert "node 1 (8 to 15)" in finding.headline
    assert finding.cost_s == pytest.approx(20e-3 * STEPS, rel=0.15)


def test_one_slow_rank_does_not_make_its_node_slow() -> None:
    for size in (2, 4):
        own = work(2 * size)
        own["forward"][size] += 25.0
        nodes = (0,) * size + (1,) * size
        (finding,) = blamed(analyse(run_of(synchronise(own), nodes=nodes)))
        assert finding.ranks == (size,)
        assert finding.evidence["node"] is None


def test_two_slow_ranks_of_eight_are_both_named_in_one_finding() -> None:
    own = work(8)
    own["input_wait"][[2, 5]] += 20.0
    (finding,) = blamed(analyse(run_of(synchronise(own))))
    assert finding.ranks == (2, 5)
    assert finding.cost_s == pytest.approx(20e-3 * STEPS, rel=0.1)


def test_two_causes_are_two_findings_that_share_what_they_have_in_common() -> None:
    own = work(8)
    own["input_wait"][2] += 20.0
    own["backward"][5] += 30.0
    findings = {one.kind: one for one in blamed(analyse(run_of(synchronise(own))))}
    assert set(findings) == {"INPUT_STRAGGLER", "BACKWARD_STRAGGLER"}
    assert findings["INPUT_STRAGGLER"].cost_s == pytest.approx(10e-3 * STEPS, rel=0.1)
    assert findings["BACKWARD_STRAGGLER"].cost_s == pytest.approx(20e-3 * STEPS, rel=0.1)
    assert findings["INPUT_STRAGGLER"].gain is None
    assert "rank 5 takes longer still" in findings["INPUT_STRAGGLER"].why
    gain = findings["BACKWARD_STRAGGLER"].gain
    assert gain is not None
    assert gain.speedup == pytest.approx(81.0 / 71.0, rel=0.03)


def test_all_compute_slow_on_one_rank_is_its_machine() -> None:
    own = work(4)
    for name in ("forward", "backward", "optimizer"):
        own[name][3] *= 1.4
    (finding,) = blamed(analyse(run_of(synchronise(own))))
    assert finding.kind == "COMPUTE_STRAGGLER"
    assert finding.evidence["cause"] == "compute"
    assert "machine" in finding.action


def test_one_slow_rank_of_512_is_found() -> None:
    own = work(512, 100, cv=0.05)
    own["backward"][77] += 3.0
    comparison = compare_ranks(window_of(synchronise(own)))
    assert comparison is not None
    (one,) = comparison.stragglers
    assert comparison.ranks_of(one.rows) == (77,)
    assert one.cause.kind == "BACKWARD_STRAGGLER"


def test_a_rank_that_is_late_now_and_then_is_named_with_how_often() -> None:
    own = work(4, 200)
    late = np.random.default_rng(2).random(200) < 0.15
    own["gap"] = np.full((4, 200), 0.2)
    own["gap"][1, late] += 150.0
    (finding,) = blamed(analyse(run_of(synchronise(own))))
    assert (finding.kind, finding.ranks) == ("STRAGGLER", (1,))
    assert finding.evidence["cause"] == "gap"
    assert finding.evidence["late_share"] == pytest.approx(late.mean(), abs=0.03)
    assert finding.cost_s == pytest.approx(0.150 * late.sum(), rel=0.1)


def lengths(ranks: int, steps: int) -> Floats:
    drawn = np.random.default_rng(3).integers(400, 1600, (ranks, steps))
    return drawn.astype(np.float64)


def test_work_that_follows_the_tokens_is_uneven_data_and_no_slow_rank() -> None:
    own, tokens = work(4, 100), lengths(4, 100)
    for name in ("forward", "backward"):
        own[name] *= tokens / 1000.0
    comparison = compare_ranks(window_of(synchronise(own), tokens=tokens))
    assert comparison is not None
    assert comparison.load is not None
    assert comparison.load.amount == "tokens"
    assert comparison.load.share > 0.2
    assert comparison.stragglers == ()


def with_samples(run: RunFacts, rank: int, samples: int) -> RunFacts:
    def changed(one: RankFacts) -> RankFacts:
        if one.rank != rank:
            return one
        columns = {**one.columns, "samples": [samples] * one.totals.steps}
        return replace(one, columns=columns)

    return replace(run, ranks=[changed(one) for one in run.ranks])


def test_a_rank_with_twice_the_samples_is_not_called_slow() -> None:
    own = work(4)
    for name in ("forward", "backward"):
        own[name][2] *= 2.0
    (finding,) = blamed(analyse(with_samples(run_of(synchronise(own)), 2, 64)))
    assert (finding.kind, finding.ranks) == ("LOAD_IMBALANCE", (2,))
    assert finding.cost_s == pytest.approx(42e-3 * STEPS, rel=0.15)
    assert "samples" in finding.headline


def test_a_rank_with_a_tenth_more_samples_that_takes_twice_as_long_is_slow() -> None:
    own = work(4)
    for name in ("forward", "backward"):
        own[name][2] *= 2.0
    (finding,) = blamed(analyse(with_samples(run_of(synchronise(own)), 2, 35)))
    assert finding.kind == "COMPUTE_STRAGGLER"


def ended(run: RunFacts, rank: int, status: RunStatus, steps: int, quiet_s: float) -> RunFacts:
    """Let one rank's record end after `steps`, and the others' `quiet_s` later."""

    def changed(one: RankFacts) -> RankFacts:
        if one.rank != rank:
            late = replace(one.totals, wall_ns=one.totals.wall_ns + int(quiet_s * 1e9))
            return replace(one, totals=late, status="running" if status == "running" else "failed")
        columns = {name: values[:steps] for name, values in one.columns.items()}
        totals = replace(one.totals, steps=steps)
        return replace(one, columns=columns, totals=totals, status=status)

    return replace(run, ranks=[changed(one) for one in run.ranks])


@pytest.mark.parametrize(
    ("status", "steps", "quiet_s", "silent"),
    [
        ("lost", 40, 600.0, True),
        ("lost", STEPS, 600.0, True),
        ("running", 40, 600.0, True),
        ("running", STEPS - 1, 600.0, False),
        ("running", 40, 60.0, False),
        ("lost", 58, 30.0, False),
        ("completed", 40, 600.0, False),
    ],
)
def test_a_rank_is_silent_if_its_record_ends_long_before_the_others(
    status: RunStatus, steps: int, quiet_s: float, silent: bool
) -> None:
    run = ended(run_of(synchronise(work(3))), 1, status, steps, quiet_s)
    found = [one for one in analyse(run).findings if one.kind == "SILENT_RANK"]
    assert [one.ranks for one in found] == ([(1,)] if silent else [])


def test_an_expected_rank_without_a_record_is_silent_even_after_a_few_steps() -> None:
    run = run_of(synchronise(work(3, 4)))
    (found,) = analyse(replace(run, world_size=5)).findings
    assert (found.kind, found.ranks, found.severity) == ("SILENT_RANK", (3, 4), "warning")


def test_a_job_of_which_one_rank_is_traced_gets_no_alarm() -> None:
    run = run_of(synchronise(work(1)))
    (found,) = [
        one for one in analyse(replace(run, world_size=8)).findings if one.kind == "SILENT_RANK"
    ]
    assert found.severity == "info"


def test_ranks_that_may_still_come_are_not_silent() -> None:
    run = run_of(synchronise(work(3)))
    live = replace(run, world_size=4, ranks=[replace(one, status="running") for one in run.ranks])
    assert [one for one in analyse(live).findings if one.kind == "SILENT_RANK"] == []
