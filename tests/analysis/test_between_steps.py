"""What lies between steps: exact sums, told with their rhythm, each over its limit and not just under."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from traintrace.facts import EPOCH_FIRST, RankFacts, Region, RunFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]
Before = Mapping[int, Mapping[str, float]]
STEP_MS = 11.8  # of `cpu_step`
STEPS = 200
# What 200 steps, start-up and shutdown take.
REST_MS = STEP_MS * STEPS + 57.0


def each(account: str, ms: float, steps: Sequence[int]) -> Before:
    return {step: {account: ms} for step in steps}


def ms_for(share: float, pauses: int) -> float:
    """Give the length of so many pauses that take a share of the run."""
    return REST_MS * share / (1.0 - share) / pauses


@pytest.fixture
def found(new_rank: NewRank, new_run: NewRun) -> Callable[..., Finding | None]:
    def build(kind: str, before: Before, **more: object) -> Finding | None:
        rank = new_rank(STEPS, jitter=0.0, before_ms=before, **more)
        findings = analyse(new_run(rank)).findings
        return next((finding for finding in findings if finding.kind == kind), None)

    return build


Found = Callable[..., Finding | None]
LIMITS = {"evaluation": 0.10, "checkpoint": 0.05, "logging": 0.05, "gap": 0.10}
KIND = {name: "GAP" if name == "gap" else f"{name.upper()}_COST" for name in LIMITS}
QUARTERS = (50, 100, 150, 200)


@pytest.mark.parametrize("account", LIMITS)
def test_an_account_over_its_limit_is_found_with_its_exact_cost(found: Found, account: str) -> None:
    each_ms = ms_for(max(0.25, LIMITS[account]), 4)
    finding = found(KIND[account], each(account, each_ms, QUARTERS))
    assert finding is not None
    assert finding.severity in ("warning", "critical")
    assert finding.cost_s == pytest.approx(4 * each_ms / 1e3, rel=1e-6)
    assert finding.cost_basis == "run"
    assert finding.evidence["share_of_wall"] == pytest.approx(0.25, rel=1e-3)
    assert "in 4 pauses of" in finding.why
    assert "every 50 steps" in finding.why
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(4 / 3, rel=1e-3)


@pytest.mark.parametrize("account", LIMITS)
def test_just_under_its_limit_nothing_is_found_and_just_over_it_is(
    found: Found, account: str
) -> None:
    for share, there in ((LIMITS[account] - 0.003, False), (LIMITS[account] + 0.003, True)):
        finding = found(KIND[account], each(account, ms_for(share, 4), QUARTERS))
        assert (finding is not None) is there


@pytest.mark.parametrize("account", LIMITS)
def test_half_a_second_is_too_little_to_be_named(
    new_rank: NewRank, new_run: NewRun, account: str
) -> None:
    rank = new_rank(20, before_ms=each(account, 230.0, (10, 20)))
    findings = analyse(new_run(rank)).findings
    finding = next(f for f in findings if f.kind == KIND[account])
    assert finding.severity == "info"


@pytest.mark.parametrize("account", ["evaluation", "checkpoint"])
def test_time_inside_steps_counts_as_much(new_rank: NewRank, new_run: NewRun, account: str) -> None:
    rank = new_rank(inside_ms=each(account, 400.0, (30, 60)))
    finding = next(f for f in analyse(new_run(rank)).findings if f.kind == KIND[account])
    assert finding.cost_s == pytest.approx(0.8)
    assert finding.evidence["inside_steps_s"] == pytest.approx(0.8)
    assert "lies inside steps" in finding.why


@pytest.mark.parametrize(
    ("account", "every", "share", "told"),
    [
        ("checkpoint", 50, 0.08, "Every 200 steps instead of every 50 steps would take 2.1 %"),
        ("evaluation", 50, 0.15, "Every 200 steps instead of every 50 steps would take 4.2 %"),
        ("logging", 1, 0.25, "Every 10 steps instead of every step would take 3.2 %"),
    ],
)
def test_what_doing_it_less_often_would_cost_is_computed(
    found: Found, account: str, every: int, share: float, told: str
) -> None:
    steps = range(every, STEPS + 1, every)
    finding = found(KIND[account], each(account, ms_for(share, len(steps)), steps))
    assert finding is not None
    assert told in finding.action


@pytest.mark.parametrize(("account", "ms"), [("logging", 1.5), ("gap", 1.9)])
def test_a_short_pause_at_every_step_is_the_python_around_it(
    found: Found, account: str, ms: float
) -> None:
    finding = found(KIND[account], each(account, ms, range(1, STEPS + 1)), epochs=1)
    assert finding is None or finding.severity == "info"
    longer = found(KIND[account], each(account, 2.0 * ms, range(1, STEPS + 1)))
    assert longer is not None
    assert longer.severity != "info"
    assert "with nearly every step" in longer.why


def test_a_gap_at_the_ends_of_epochs_says_so(found: Found) -> None:
    starts = (51, 101, 151)
    flags = {step: EPOCH_FIRST for step in (1, *starts)}
    finding = found("GAP", each("gap", 400.0, starts), flags=flags, epochs=4)
    assert finding is not None
    assert "where epochs end" in finding.why
    assert "when an epoch ends: a validation" in finding.action
    elsewhere = found("GAP", each("gap", 400.0, (40, 90, 140)), flags=flags, epochs=4)
    assert elsewhere is not None
    assert "epoch" not in elsewhere.why + elsewhere.action


def test_a_gap_says_nothing_of_what_the_code_does(found: Found) -> None:
    finding = found("GAP", each("gap", 6.0, range(1, STEPS + 1)))
    assert finding is not None
    assert "code without a mark" in finding.headline
    assert "Mark it" in finding.action
    assert finding.gain is not None
    assert finding.gain.low == 1.0  # all of it can hardly go


def test_regions_and_callbacks_between_steps_are_named(new_rank: NewRank, new_run: NewRun) -> None:
    for account, told in (("callbacks", "hooks of other callbacks"), ("user", "your regions")):
        rank = new_rank(before_ms=each(account, 300.0, (30, 60, 90)))
        rank = replace(
            rank,
            regions=[Region(60, "plots", 900_000_000, 1), Region(61, "loss", 10**10, 1)],
        )
        finding = next(f for f in analyse(new_run(rank)).findings if f.kind == "GAP")
        assert told in finding.headline
        assert ("'plots'" in finding.action) is (account == "user")


@pytest.mark.parametrize("account", ["logging", "gap"])
def test_on_an_accelerator_the_host_may_have_waited_there_for_the_device(
    found: Found, gpu_setup: Setup, account: str
) -> None:
    finding = found(KIND[account], each(account, 20.0, range(1, STEPS + 1)), setup=gpu_setup)
    assert finding is not None
    assert finding.severity == "info"
    assert finding.confidence < 0.5
    assert "device" in finding.why
    certain = found(
        "EVALUATION_COST", each("evaluation", 20.0, range(1, STEPS + 1)), setup=gpu_setup
    )
    assert certain is not None
    assert certain.severity == "critical"


def test_what_is_billed_in_the_family_never_exceeds_the_run(
    new_rank: NewRank, new_run: NewRun
) -> None:
    before = {
        step: {
            "gap": 40.0, "logging": 30.0, "evaluation": 60.0, "checkpoint": 50.0, "epoch_boundary": 45.0,
        }
        for step in range(1, 101, 2)
    }  # fmt: skip
    rank = new_rank(before_ms=before, flags={s: EPOCH_FIRST for s in range(1, 101, 2)}, epochs=50)
    analysis = analyse(new_run(rank))
    own = [f for f in analysis.findings if f.family == "between_steps"]
    assert {f.kind for f in own} == {
        "GAP", "LOGGING_COST", "EVALUATION_COST", "CHECKPOINT_COST", "EPOCH_START_COST",
    }  # fmt: skip
    accounts = sum(rank.totals.account_ns[name] for name in before[1]) / 1e9
    assert sum(f.cost_s for f in own) == pytest.approx(accounts, rel=1e-3)


def test_a_clean_run_has_no_finding_and_the_family_says_what_it_looked_at(
    new_rank: NewRank, new_run: NewRun
) -> None:
    state = analyse(new_run(new_rank())).families["between_steps"]
    assert state.state == "clean"
    for topic in ("epoch starts", "evaluation", "checkpoints", "logging", "time between steps"):
        assert topic in state.reason
    assert "nobody watched" in state.reason  # these hand-made rows know of no collections
