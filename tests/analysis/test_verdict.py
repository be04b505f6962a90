"""What `analyse` concludes about whole runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from traintrace.facts import (
    EPOCH_FIRST,
    LOOKAHEAD,
    LoaderSetup,
    RankFacts,
    Region,
    RunFacts,
    Setup,
)
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import ANSWERS, FAMILIES, Finding
from traintrace_analysis.registry import KINDS

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]
Scenarios = Mapping[str, RunFacts]


def found(analysis: Analysis, kind: str) -> Finding | None:
    return next((finding for finding in analysis.findings if finding.kind == kind), None)


@pytest.mark.parametrize(
    ("name", "kind", "outcome"),
    [
        ("no_ranks", "INCOMPLETE_DATA", "insufficient_data"),
        ("no_steps", "TOO_FEW_STEPS", "insufficient_data"),
        ("one_step", "TOO_FEW_STEPS", "insufficient_data"),
        ("nine_steps", "TOO_FEW_STEPS", "insufficient_data"),
        ("plain_cpu", "COMPUTE_BOUND", "balanced"),
        ("slow_input", "INPUT_BOUND", "finding"),
        ("fast_tiny_model", "BALANCED", "balanced"),
        ("forward_missing_everywhere", "INCOMPLETE_DATA", "insufficient_data"),
        ("forward_missing_on_one_rank", "COMPUTE_BOUND", "balanced"),
        ("rank_without_rows", "SILENT_RANK", "finding"),
        ("rank_missing_steps", "COMPUTE_BOUND", "balanced"),
        ("evaluation", "EVALUATION_COST", "finding"),
        ("checkpoint_inside_steps", "CHECKPOINT_COST", "finding"),
        ("epoch_starts", "EPOCH_START_COST", "finding"),
        ("gpu_device_clock", "COMPUTE_BOUND", "balanced"),
        ("gpu_host_clock", "CANNOT_TELL", "cannot_tell"),
        ("h2d_bound_gpu", "H2D_BOUND", "finding"),
        ("odd_scalars", "COMPUTE_BOUND", "balanced"),
        ("restarted", "COMPUTE_BOUND", "balanced"),
    ],
)
def test_each_scenario_gets_the_right_verdict(
    scenarios: Scenarios, name: str, kind: str, outcome: str
) -> None:
    verdict = analyse(scenarios[name]).verdict
    assert (verdict.kind, verdict.outcome) == (kind, outcome)


def test_every_family_states_what_is_known_in_one_sentence(scenarios: Scenarios) -> None:
    for name, run in scenarios.items():
        analysis = analyse(run)
        assert tuple(analysis.families) == FAMILIES, name
        for family, state in analysis.families.items():
            assert state.reason, (name, family)
            assert (state.state == "finding") == (state.primary is not None)
        if len(analysis.window.expected_ranks) == 1:
            assert analysis.families["ranks"].state != "clean", name


def test_every_finding_has_evidence_a_cost_and_an_action(scenarios: Scenarios) -> None:
    kinds = {kind for kinds in KINDS.values() for kind in kinds}
    for name, run in scenarios.items():
        analysis = analyse(run)
        assert analysis.verdict.kind in kinds | set(ANSWERS)
        for finding in analysis.findings:
            assert finding.kind in KINDS[finding.family], name
            assert finding.evidence
            assert finding.headline
            assert finding.why
            assert finding.action
            assert finding.cost_s >= 0.0
            assert 0.0 <= finding.confidence <= 1.0


def test_the_same_facts_always_give_the_same_answer(scenarios: Scenarios) -> None:
    first, second = analyse(scenarios["slow_input"]), analyse(scenarios["slow_input"])
    assert first.findings == second.findings
    assert first.statistics == second.statistics


def test_a_slow_loader_is_billed_to_the_run_and_told_how_many_workers_hide_it(
    scenarios: Scenarios,
) -> None:
    finding = found(analyse(scenarios["slow_input"]), "INPUT_BOUND")
    assert finding is not None
    assert finding.severity == "critical"
    assert finding.cost_s == pytest.approx(1.0, rel=0.02)
    assert finding.cost_basis == "run"
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(12.0 / 2.2, rel=0.01)  # a fetch still takes 0.2 ms
    assert finding.gain.low is not None  # with workers, as advised, it takes a millisecond
    assert 0.95 * 12.0 / 3.0 < finding.gain.low <= 12.0 / 3.0
    assert "num_workers=6" in finding.action


def test_a_loader_that_needs_more_workers_than_cores_is_told_to_make_samples_cheaper(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    setup = Setup(device_kind="cpu", cpu_count=4, loader=LoaderSetup(workers=4))
    rank = new_rank(setup=setup, ms={**cpu_step, "input_wait": 30.0})
    finding = found(analyse(new_run(rank)), "INPUT_BOUND")
    assert finding is not None
    assert "each sample cheaper" in finding.action


def test_a_wait_that_costs_next_to_nothing_is_mentioned_and_blames_nobody(
    scenarios: Scenarios,
) -> None:
    analysis = analyse(scenarios["fast_tiny_model"])
    finding = found(analysis, "INPUT_BOUND")
    assert finding is not None
    assert finding.severity == "info"
    assert analysis.families["step_time"].state == "clean"


def test_nothing_is_built_on_the_residual_when_forward_was_not_seen(scenarios: Scenarios) -> None:
    analysis = analyse(scenarios["forward_missing_everywhere"])
    assert analysis.metrics["residual"].mean_ms is None
    assert analysis.metrics["compute"].mean_ms is None
    assert "compiled function" in (analysis.coverage["residual"].reason or "")
    assert found(analysis, "RESIDUAL_HEAVY") is None


def test_a_wait_is_still_named_when_another_phase_is_missing(
    new_rank: NewRank, new_run: NewRun
) -> None:
    rank = new_rank(ms={"input_wait": 10.0, "backward": 2.0, "other": 2.0})
    assert analyse(new_run(rank)).verdict.kind == "INPUT_BOUND"


def test_the_first_fetch_of_an_epoch_is_billed_once(scenarios: Scenarios) -> None:
    analysis = analyse(scenarios["epoch_starts"])
    finding = found(analysis, "EPOCH_START_COST")
    assert finding is not None
    assert finding.cost_s == pytest.approx(10 * (0.050 + 0.0295), rel=0.02)
    assert "persistent_workers=True" in finding.action
    assert found(analysis, "INPUT_BOUND") is None


def test_steady_wait_and_first_fetches_add_up_to_the_whole_wait(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    waits = [60.0 if k % 10 == 0 else 12.0 for k in range(100)]
    rank = new_rank(
        flags={step: EPOCH_FIRST for step in range(1, 101, 10)},
        ms={**cpu_step, "input_wait": waits},
        epochs=10,
    )
    analysis = analyse(new_run(rank))
    wait, epoch = found(analysis, "INPUT_BOUND"), found(analysis, "EPOCH_START_COST")
    assert wait is not None
    assert epoch is not None
    assert wait.cost_s + epoch.cost_s == pytest.approx(rank.totals.inside_ns["input_wait"] / 1e9)


def test_a_batch_read_ahead_in_the_first_step_is_no_cost_of_the_epoch(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    waits = [60.0 if k % 10 == 0 else 0.0 if k % 10 == 9 else 30.0 for k in range(100)]
    for ahead, billed in ((LOOKAHEAD, False), (0, True)):
        flags = {k + 1: ahead | (0 if k % 10 else EPOCH_FIRST) for k in range(100)}
        rank = new_rank(flags=flags, ms={**cpu_step, "input_wait": waits}, epochs=10, jitter=0.0)
        analysis = analyse(new_run(rank))
        assert (found(analysis, "EPOCH_START_COST") is not None) is billed
        wait = found(analysis, "INPUT_BOUND")
        assert wait is not None
        assert (wait.cost_s == pytest.approx(3.0, rel=0.01)) is not billed


def test_a_heavy_residual_names_its_largest_part_and_region(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    rank = new_rank(ms={**cpu_step, "user": 8.0})
    rank = replace(rank, regions=[Region(3, "augment", 5, 1), Region(3, "log", 1, 1)])
    finding = found(analyse(new_run(rank)), "RESIDUAL_HEAVY")
    assert finding is not None
    assert finding.evidence["largest_part"] == "user"
    assert "augment" in finding.action


def test_on_the_device_clock_a_wait_behind_queued_work_delays_nobody(
    new_rank: NewRank, new_run: NewRun, gpu_setup: Setup
) -> None:
    ms = {
        "input_wait": 8.0,
        "h2d": 0.1,
        "forward": 1.0,
        "backward": 1.0,
        "optimizer": 0.5,
        "other": 0.1,
    }
    idle = new_rank(
        setup=gpu_setup,
        ms=ms,
        device_ms={"h2d": 0.1, "forward": 1, "backward": 1, "optimizer": 0.5},
    )
    busy = new_rank(
        setup=gpu_setup,
        ms=ms,
        device_ms={"h2d": 0.1, "forward": 3, "backward": 6, "optimizer": 1.4},
    )
    assert analyse(new_run(idle)).verdict.kind == "INPUT_BOUND"
    assert found(analyse(new_run(busy)), "INPUT_BOUND") is None


def test_on_the_host_clock_of_an_accelerator_the_gain_of_faster_input_is_an_upper_bound(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float], gpu_setup: Setup
) -> None:
    rank = new_rank(setup=gpu_setup, ms={**cpu_step, "input_wait": 20.0})
    finding = found(analyse(new_run(rank)), "INPUT_BOUND")
    assert finding is not None
    assert finding.gain is not None
    assert finding.gain.low == 1.0
    assert "upper bound" in finding.why


def test_a_share_that_noise_may_explain_has_less_confidence(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    rare = [60.0 if k in (30, 60) else 0.2 for k in range(100)]
    often = [1.4] * 100
    unsure = found(analyse(new_run(new_rank(ms={**cpu_step, "other": rare}))), "RESIDUAL_HEAVY")
    sure = found(analyse(new_run(new_rank(ms={**cpu_step, "other": often}))), "RESIDUAL_HEAVY")
    assert sure is not None
    assert unsure is None or unsure.confidence < sure.confidence


def test_waiting_that_all_ranks_share_is_communication(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    ranks = [new_rank(rank=number, ms={**cpu_step, "gradient_sync": 5.0}) for number in range(2)]
    verdict = analyse(new_run(*ranks)).verdict
    assert verdict.kind == "EXPOSED_COMM"
    assert "for each other" in verdict.why


def test_much_time_in_accounts_that_no_rule_examines_forbids_a_verdict_of_balance(
    new_rank: NewRank, new_run: NewRun
) -> None:
    rank = new_rank(before_ms={step: {"prediction": 8.0} for step in range(1, 101)})
    verdict = analyse(new_run(rank)).verdict
    assert verdict.kind == "CANNOT_TELL"
    assert "prediction" in verdict.why


def test_the_verdict_is_the_costliest_cause(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    rank = new_rank(
        ms={**cpu_step, "input_wait": 4.0},
        before_ms={step: {"evaluation": 500.0} for step in (30, 60, 90)},
    )
    analysis = analyse(new_run(rank))
    assert found(analysis, "INPUT_BOUND") is not None
    assert analysis.verdict.kind == "EVALUATION_COST"
