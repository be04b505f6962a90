"""Slow steps: when they are a finding, when not, and who else pays for them."""

import numpy as np
import pytest

from tests.labs.runs import make_rank, make_run
from tests.labs.steps import every, found, named, run, step, with_columns
from traintrace.facts import COMPILED, COMPILED_KNOWN, EPOCH_FIRST, Event
from traintrace_analysis import analyse


@pytest.mark.parametrize("account", ["other", "backward", "callbacks"])
def test_every_25th_step_slow_is_one_finding_with_its_distance(account: str) -> None:
    usual = {"other": 0.3, "backward": 10.2, "callbacks": 0.1}[account]
    analysis = run(200, **{account: every(25, usual + 150.0, usual, 200)})
    finding = found(analysis, "JITTER")
    assert finding is not None
    assert named(analysis) == {"JITTER"}
    assert analysis.verdict.kind == "JITTER"
    assert finding.evidence["spacing_steps"] == 25
    assert finding.evidence["slowest_in"] == account
    assert finding.evidence["slow_steps_count"] == 8
    assert finding.cost_s == pytest.approx(8 * 0.150, rel=0.03)
    times = analysis.metrics["step_time"]
    assert times.p99_ms is not None
    assert times.p99_ms >= 150.0
    assert times.median_ms == pytest.approx(20.0, rel=0.02)
    assert times.tail is not None
    assert (times.tail.count, times.tail.spacing_steps) == (8, 25)


def test_slow_steps_that_cost_less_than_a_tenth_are_in_the_tail_and_no_finding() -> None:
    analysis = run(200, other=every(25, 50.3, 0.3, 200))  # 2 ms of 22
    assert found(analysis, "JITTER") is None
    assert analysis.metrics["step_time"].tail is not None
    assert analysis.metrics["step_time"].tail.count == 8


def test_a_few_slow_steps_by_chance_are_no_finding() -> None:
    slow = [100.0 if k in (20, 71, 130, 166) else 8.0 for k in range(200)]
    assert found(run(200, forward=slow), "JITTER") is None


def test_slow_steps_at_no_fixed_distance_say_so() -> None:
    rng = np.random.default_rng(4)
    slow = [120.0 if hit else 8.0 for hit in rng.random(400) < 0.05]
    finding = found(run(400, forward=slow), "JITTER")
    assert finding is not None
    assert finding.severity != "info"
    assert "no fixed distance" in finding.why
    assert "Every" not in finding.headline


def test_steps_that_differ_widely_are_one_finding_and_steps_of_a_noisy_machine_none() -> None:
    rng = np.random.default_rng(5)
    wide = run(300, forward=(40.0 * rng.lognormal(0.0, 0.8, 300)).tolist())
    calm = run(300, forward=(40.0 * rng.lognormal(0.0, 0.25, 300)).tolist())
    finding = found(wide, "JITTER")
    assert finding is not None
    assert finding.evidence["spacing_steps"] is None
    assert finding.evidence["slowest_in"] == "forward"
    assert found(calm, "JITTER") is None


def test_slow_steps_of_the_garbage_collector_are_billed_to_it_alone() -> None:
    pauses = every(25, 150.0, 0.0, 200)
    ms = step(other=[0.3 + pause for pause in pauses])
    analysis = analyse(make_run(make_rank(200, ms=ms, gc_ms=pauses)))
    assert named(analysis) == {"GC_PAUSES"}


def test_steps_that_compiled_are_no_slow_steps() -> None:
    slow = every(40, 300.0, 8.0, 200)
    flags = {k: COMPILED | COMPILED_KNOWN for k in range(40, 201, 40)}
    analysis = analyse(make_run(make_rank(200, ms=step(forward=slow), flags=flags)))
    assert found(analysis, "JITTER") is None


def test_waits_that_are_a_finding_are_not_billed_as_slow_steps_too() -> None:
    analysis = run(200, input_wait=every(5, 100.0, 0.5, 200))
    assert "INPUT_BOUND" in named(analysis)
    assert found(analysis, "JITTER") is None


def test_first_fetches_of_epochs_are_not_billed_as_slow_steps_too() -> None:
    starts = range(1, 201, 20)
    waits = [150.0 if k % 20 == 0 else 0.5 for k in range(200)]
    rank = make_rank(
        200, ms=step(input_wait=waits), flags={k: EPOCH_FIRST for k in starts}, epochs=10
    )
    assert found(analyse(make_run(rank)), "JITTER") is None


def test_slow_steps_after_checkpoints_name_the_checkpoint() -> None:
    saves = range(24, 200, 25)
    events = [Event(0, "checkpoint", k, "saved") for k in saves]
    rank = make_rank(200, ms=step(backward=every(25, 150.0, 10.2, 200)), events=events)
    finding = found(analyse(make_run(rank)), "JITTER")
    assert finding is not None
    assert finding.evidence["coincides_with"] == "a checkpoint"
    assert "a checkpoint" in finding.why


def test_batches_that_are_longer_explain_steps_that_are_longer() -> None:
    slow = every(10, 120.0, 12.0, 200)
    rank = make_rank(200, ms={"forward": slow, "backward": 0.1, "input_wait": 0.1, "other": 0.1})
    tokens = [int(value * 100) for value in slow]
    rank = with_columns(rank, tokens=tokens)
    assert found(analyse(make_run(rank)), "JITTER") is None


def test_a_rank_that_waits_for_a_slow_one_has_no_slow_steps_of_its_own() -> None:
    waits = every(20, 150.0, 0.5, 200)
    first = make_rank(200, ms=step(gradient_sync=waits))
    second = make_rank(200, rank=1, ms=step(gradient_sync=waits))
    third = make_rank(200, rank=2, ms=step(gradient_sync=0.5, forward=every(20, 157.0, 8.0, 200)))
    assert found(analyse(make_run(first, second, third)), "JITTER") is None
