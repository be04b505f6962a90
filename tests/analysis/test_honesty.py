"""What a verdict leaves out is said, and never called balance."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from traintrace.facts import RankFacts, RunFacts, RunStatus
from traintrace_analysis import analyse

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]


def with_account(rank: RankFacts, name: str, ns: int) -> RankFacts:
    totals = rank.totals
    sums = {**totals.account_ns, name: totals.account_ns.get(name, 0) + ns}
    return replace(rank, totals=replace(totals, account_ns=sums, wall_ns=totals.wall_ns + ns))


@pytest.mark.parametrize("account", ["startup", "shutdown"])
@pytest.mark.parametrize(
    ("share", "kind"), [(0.15, "COMPUTE_BOUND"), (0.35, "COMPUTE_BOUND"), (0.6, "CANNOT_TELL")]
)
def test_a_run_that_is_mostly_start_up_or_shutdown_is_not_balanced(
    new_rank: NewRank, new_run: NewRun, account: str, share: float, kind: str
) -> None:
    rank = new_rank()
    rank = with_account(rank, account, round(rank.totals.wall_ns * share / (1 - share)))
    verdict = analyse(new_run(rank)).verdict
    assert verdict.kind == kind
    assert ("is judged by no rule" in verdict.why) == (share > 0.2)
    assert verdict.why.count("is judged by no rule") <= 1
    if kind == "CANNOT_TELL":
        assert {"startup": "start-up", "shutdown": "shutdown"}[account] in verdict.headline
        assert "compute takes" in verdict.why


@pytest.mark.parametrize("account", ["input_wait", "forward"])
def test_a_run_that_is_mostly_warm_up_says_so_and_what_was_slow(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float], account: str
) -> None:
    slow = [300.0] * 5 + [cpu_step[account]] * 60
    verdict = analyse(new_run(new_rank(65, ms={**cpu_step, account: slow}))).verdict
    assert verdict.outcome == "cannot_tell"
    assert verdict.headline.endswith("of the run was warm-up.")
    assert "The first 5 steps took" in verdict.why
    assert f"of the difference is {account}." in verdict.why


def test_a_finding_also_says_how_much_of_the_run_it_leaves_out(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    rank = with_account(new_rank(ms={**cpu_step, "input_wait": 9.0}), "startup", 5_000_000_000)
    verdict = analyse(new_run(rank)).verdict
    assert verdict.kind == "INPUT_BOUND"
    assert "is judged by no rule: startup 5.05 s." in verdict.why


def test_a_short_run_that_is_mostly_start_up_says_so(new_rank: NewRank, new_run: NewRun) -> None:
    verdict = analyse(new_run(with_account(new_rank(5), "startup", 3_000_000_000))).verdict
    assert verdict.kind == "TOO_FEW_STEPS"
    assert "startup 3.05 s" in verdict.why


@pytest.mark.parametrize("account", ["aborted", "prediction", "communication"])
@pytest.mark.parametrize(("each_ms", "state"), [(0.5, "clean"), (2.0, "insufficient")])
def test_between_steps_is_not_clean_when_a_tenth_of_the_run_is_unjudged(
    new_rank: NewRank, new_run: NewRun, account: str, each_ms: float, state: str
) -> None:
    rank = new_rank(before_ms={step: {account: each_ms} for step in range(1, 101)})
    family = analyse(new_run(rank)).families["between_steps"]
    told = "waits between steps" if account == "communication" else account
    assert family.state == state
    assert (told in family.reason) == (state == "insufficient")


def test_a_long_share_of_a_very_short_run_is_mentioned(new_rank: NewRank, new_run: NewRun) -> None:
    analysis = analyse(new_run(new_rank(15, before_ms={15: {"evaluation": 400.0}})))
    assert analysis.verdict.outcome == "balanced"
    assert "Evaluation takes" in analysis.verdict.why
    assert "too little to matter" in analysis.verdict.why
    assert "EVALUATION_COST" in analysis.families["between_steps"].reason


def test_the_account_and_the_section_of_one_name_are_both_covered(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]
) -> None:
    coverage = analyse(new_run(new_rank(ms={**cpu_step, "communication": 1.0}))).coverage
    assert coverage["communication"].state == "measured"
    assert coverage["section.communication"].state == "not_measured"


def test_unknown_tokens_are_not_blamed_on_unknown_sizes(new_rank: NewRank, new_run: NewRun) -> None:
    coverage = analyse(new_run(new_rank())).coverage
    assert coverage["samples"].state == "measured"
    assert "attention mask" in (coverage["tokens"].reason or "")


@pytest.mark.parametrize(
    ("status", "expected"), [("completed", 0), ("failed", 0), ("running", None)]
)
def test_steps_that_were_never_written_are_none_or_unknown(
    new_rank: NewRank, new_run: NewRun, status: RunStatus, expected: int | None
) -> None:
    analysis = analyse(new_run(replace(new_rank(), status=status)))
    coverage = analysis.coverage["steps_unpublished"]
    assert analysis.counts.steps_unpublished == expected
    assert (coverage.state == "measured") is (expected == 0)
    assert (coverage.reason is None) is (expected == 0)


def test_without_a_record_nothing_is_counted(new_run: NewRun) -> None:
    counts = analyse(new_run(world_size=2)).counts
    assert counts.steps is counts.micro_batches is counts.dropped_rows is None
