"""What fills the steps: optimizer, backward, compute, who waits for whom, and the rest."""

from dataclasses import replace

import pytest

from tests.labs.runs import CPU_STEP, START_NS, Value, make_rank, make_run
from tests.labs.steps import found, named
from traintrace.facts import RankFacts, Setup
from traintrace.readings import DeviceReading
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding

CUDA = Setup(device_kind="cuda", device_name="H100", cpu_count=16)


def run(**ms: Value) -> Analysis:
    return analyse(make_run(make_rank(200, ms={**CPU_STEP, **ms})))


# --- the optimizer


@pytest.mark.parametrize(
    ("optimizer", "severity"), [(2.0, None), (4.0, "warning"), (12.0, "critical")]
)
def test_an_optimizer_is_heavy_from_a_fifth_of_the_step_on(
    optimizer: float, severity: str | None
) -> None:
    finding = found(run(optimizer=optimizer), "OPTIMIZER_HEAVY")
    assert (None if finding is None else finding.severity) == severity
    if finding is not None:
        rest = 10.8
        assert finding.cost_s == pytest.approx(0.2 * (optimizer - rest / 9), rel=0.02)
        assert "fused=True" in finding.action


def test_an_optimizer_that_costs_next_to_nothing_blames_nobody() -> None:
    tiny = {name: value * 0.05 for name, value in CPU_STEP.items() if isinstance(value, float)}
    analysis = analyse(make_run(make_rank(200, ms={**tiny, "optimizer": 0.4})))
    assert "OPTIMIZER_HEAVY" not in named(analysis)


def test_what_is_advised_for_the_optimizer_knows_of_accumulation() -> None:
    setup = Setup(device_kind="cpu", accumulation=8, batch_size=4)
    rank = make_rank(200, ms={**CPU_STEP, "optimizer": 8.0}, setup=setup)
    finding = found(analyse(make_run(rank)), "OPTIMIZER_HEAVY")
    assert finding is not None
    assert "8 micro-batches of 4" in finding.action


# --- the backward pass


@pytest.mark.parametrize(("backward", "fires"), [(15.0, False), (20.0, False), (26.0, True)])
def test_a_backward_pass_is_heavy_from_five_times_the_forward_on(
    backward: float, fires: bool
) -> None:
    analysis = run(backward=backward)  # forward and what runs beside it take 4.3
    assert ("BACKWARD_HEAVY" in named(analysis)) == fires


def test_what_a_heavy_backward_pass_costs_is_what_lies_beyond_three_times_the_forward() -> None:
    finding = found(run(backward=40.0), "BACKWARD_HEAVY")
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.2 * (40.0 - 3 * 4.3), rel=0.02)
    assert finding.evidence["backward_to_forward_ratio"] == pytest.approx(40.0 / 4.3, rel=0.02)


def test_forward_work_outside_the_model_counts_as_forward() -> None:
    assert "BACKWARD_HEAVY" not in named(run(forward=0.5, other=7.0, backward=30.0))


def test_a_backward_pass_that_may_include_waiting_is_not_blamed() -> None:
    ranks = [make_rank(200, rank=k, ms={**CPU_STEP, "backward": 60.0}) for k in range(2)]
    analysis = analyse(make_run(*ranks))
    assert found(analysis, "BACKWARD_HEAVY") is None
    assert "may include waiting" in analysis.families["step_time"].reason
    marked = [
        make_rank(200, rank=k, ms={**CPU_STEP, "backward": 60.0, "gradient_sync": 0.2})
        for k in range(2)
    ]
    assert "BACKWARD_HEAVY" in named(analyse(make_run(*marked)))


def test_the_host_of_an_accelerator_says_nothing_about_backward() -> None:
    rank = make_rank(200, ms={**CPU_STEP, "backward": 60.0}, setup=CUDA)
    assert found(analyse(make_run(rank)), "BACKWARD_HEAVY") is None


# --- compute


@pytest.mark.parametrize("strategy", ["fsdp", "fsdp2", "deepspeed"])
def test_under_a_sharded_model_compute_is_not_called_the_bound(strategy: str) -> None:
    """PT#102434: rank 0's forward holds 60 ms of waiting for parameters."""
    setup = Setup(device_kind="cpu", strategy=strategy)
    ranks = [
        make_rank(200, rank=k, setup=setup, ms={**CPU_STEP, "forward": 64.0 - 60.0 * k})
        for k in range(2)
    ]
    analysis = analyse(make_run(*ranks))
    assert found(analysis, "COMPUTE_BOUND") is None
    assert analysis.verdict.kind != "COMPUTE_BOUND"
    assert "may include communication" in analysis.families["step_time"].reason


def test_with_waiting_that_was_not_marked_compute_says_so() -> None:
    ranks = [make_rank(200, rank=k) for k in range(2)]
    finding = found(analyse(make_run(*ranks)), "COMPUTE_BOUND")
    assert finding is not None
    assert "may include waiting" in finding.why
    assert finding.confidence < 0.5


def on_device(host: float, utilisation: float | None) -> Finding:
    """A GPU step of 10 ms in which the host issues for `host` ms, and waits at the end for the rest."""
    host_ms: dict[str, Value] = {
        "input_wait": 0.1,
        "h2d": 0.1,
        "forward": host * 0.4,
        "backward": host * 0.5,
        "optimizer": host * 0.1,
        "other": 9.6 - host,
    }
    device_ms: dict[str, Value] = {"h2d": 0.1, "forward": 3.0, "backward": 5.5, "optimizer": 1.0}
    rank: RankFacts = make_rank(400, ms=host_ms, device_ms=device_ms, setup=CUDA)
    if utilisation is not None:
        readings = [
            DeviceReading(START_NS + 200_000_000 * k, 0, utilisation=utilisation) for k in range(21)
        ]
        rank = replace(rank, devices=readings)
    finding = found(analyse(make_run(rank)), "COMPUTE_BOUND")
    assert finding is not None
    return finding


@pytest.mark.parametrize(
    ("host", "utilisation", "pace"),
    [
        (2.0, None, "device"),
        (2.0, 0.4, "device"),
        (9.4, 0.95, "device"),
        (9.4, 0.4, "host"),
        (9.4, 0.78, "unknown"),
        (9.4, None, "unknown"),
    ],
)
def test_a_host_that_waits_for_a_busy_device_is_told_from_one_that_issues_too_slowly(
    host: float, utilisation: float | None, pace: str
) -> None:
    finding = on_device(host, utilisation)
    assert finding.evidence["pace_set_by"] == pace
    assert ("launch-bound" in finding.why) == (pace == "host")
    assert ("CUDA graphs" in finding.action) == (pace != "device")


def test_on_the_host_clock_nothing_is_said_about_who_waits() -> None:
    finding = found(run(), "COMPUTE_BOUND")
    assert finding is not None
    assert "pace_set_by" not in finding.evidence


# --- the host clock of an accelerator


@pytest.mark.parametrize("account", ["h2d", "other", "input_wait", "optimizer"])
def test_a_wait_for_the_device_that_moved_is_never_named_with_certainty(account: str) -> None:
    """PL#20995, lightly-train#749: 40 ms of queued kernels drain wherever the host looks next."""
    usual = {**{n: float(v) for n, v in CPU_STEP.items() if isinstance(v, float)}, "h2d": 0.5}
    moved: dict[str, Value] = {**usual, account: usual[account] + 40.0}
    analysis = analyse(make_run(make_rank(200, ms=moved, setup=CUDA)))
    for finding in analysis.findings:
        if finding.severity != "info":
            assert finding.kind == "INPUT_BOUND"
            assert "device may have been busy" in finding.why
            assert finding.gain is not None
            assert finding.gain.low == 1.0
        assert finding.confidence <= 0.8
    if account != "input_wait":
        assert analysis.verdict.kind == "CANNOT_TELL"


def test_what_slow_steps_add_to_the_rest_is_billed_once() -> None:
    rest = [150.0 if k % 20 == 19 else 8.0 for k in range(200)]
    analysis = run(other=rest)
    slow, heavy = found(analysis, "JITTER"), found(analysis, "RESIDUAL_HEAVY")
    assert slow is not None
    assert heavy is not None
    assert slow.cost_s == pytest.approx(10 * 0.142, rel=0.03)
    assert heavy.cost_s == pytest.approx(200 * 0.008, rel=0.03)
