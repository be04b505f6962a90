"""Garbage collections and recompilations: parts of other accounts that are named, and billed once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.labs.runs import make_rank, make_run
from traintrace.facts import COMPILED, COMPILED_KNOWN, Event, RankFacts
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding

NewRank = Callable[..., RankFacts]
STEPS = 100
KNOWN = {step: COMPILED_KNOWN for step in range(1, STEPS + 1)}


def at_step(
    rank: RankFacts, kind: str, step: int, ms: float, *, inside: bool, detail: str = ""
) -> Event:
    """Make an event that begins a little after a row's start, or after its step's opening."""
    row = step - 1
    start, opened = rank.columns["start_ns"][row], rank.columns["open_ns"][row]
    moment = (opened if inside else start) or 0
    return Event(moment + 1000, kind, step, detail, round(ms * 1e6))


def finding_of(analysis: Analysis, kind: str) -> Finding | None:
    return next((f for f in analysis.findings if f.kind == kind), None)


def collected(rank: RankFacts, before: Sequence[int] = (), ms: float = 0.0) -> RankFacts:
    """Add collections before steps, and the sum over the run."""
    events = [at_step(rank, "gc", step, ms, inside=False) for step in before]
    rows = sum(ns or 0 for ns in rank.columns["gc_ns"])
    total = rows + round(len(before) * ms * 1e6)
    return replace(rank, events=events, totals=replace(rank.totals, gc_ns=total))


@pytest.mark.parametrize(("gc_ms", "severity"), [(0.5, None), (5.2, "warning"), (20.0, "critical")])
def test_collections_in_steps_are_billed_by_their_exact_length(
    new_rank: NewRank, gc_ms: float, severity: str | None
) -> None:
    ms = {"input_wait": 0.5, "forward": 24.0, "backward": 36.0, "optimizer": 1.0}
    analysis = analyse(make_run(collected(new_rank(STEPS, ms=ms, gc_ms=gc_ms))))
    finding = finding_of(analysis, "GC_PAUSES")
    assert (None if finding is None else finding.severity) == severity
    if finding is not None:
        assert finding.cost_s == pytest.approx(STEPS * gc_ms / 1e3)
        assert finding.cost_basis == "run"
        assert "gc.freeze()" in finding.action
        assert finding.evidence["between_steps_s"] == 0.0


@pytest.mark.parametrize(("gc_ms", "there"), [(2.9, False), (3.2, True)])
def test_collections_around_their_limit(new_rank: NewRank, gc_ms: float, there: bool) -> None:
    ms = {"input_wait": 0.5, "forward": 24.0, "backward": 35.0, "optimizer": 0.5}
    rank = collected(new_rank(200, ms=ms, jitter=0.0, gc_ms=gc_ms))
    assert (finding_of(analyse(make_run(rank)), "GC_PAUSES") is not None) is there


def test_start_up_and_warm_up_collections_are_not_the_loop_s(new_rank: NewRank) -> None:
    slow = [300.0] * 4 + [4.0] * 96
    rank = new_rank(
        STEPS,
        ms={"input_wait": 0.5, "forward": slow, "backward": 6.0},
        gc_ms=[250.0] * 4 + [0.0] * 96,
    )
    rank = collected(rank, before=(1,), ms=40.0)
    analysis = analyse(make_run(rank))
    assert analysis.window.warmup_steps == 4
    assert finding_of(analysis, "GC_PAUSES") is None


def test_a_pause_before_a_step_is_taken_out_of_the_account_that_was_open(new_rank: NewRank) -> None:
    before = {step: {"evaluation": 400.0} for step in (20, 40, 60, 80)}
    rank = collected(new_rank(STEPS, before_ms=before, gc_ms=0.0), (20, 40, 60, 80), 300.0)
    analysis = analyse(make_run(rank))
    pauses, evaluation = finding_of(analysis, "GC_PAUSES"), finding_of(analysis, "EVALUATION_COST")
    assert pauses is not None
    assert pauses.cost_s == pytest.approx(1.2)
    assert pauses.evidence["between_steps_s"] == pytest.approx(1.2)
    assert evaluation is not None
    assert evaluation.cost_s == pytest.approx(0.4)
    assert "have a finding of their own" in evaluation.why


def test_ranks_that_collect_at_different_steps_lose_the_sum(new_rank: NewRank) -> None:
    ranks = []
    for rank in range(4):
        own = [40.0 if step % 8 == 2 * rank else 0.0 for step in range(STEPS)]
        ms = {"input_wait": 0.5, "forward": [4.0 + ms for ms in own], "backward": 6.0}
        ranks.append(collected(new_rank(STEPS, rank=rank, ms=ms, gc_ms=own)))
    finding = finding_of(analyse(make_run(*ranks)), "GC_PAUSES")
    assert finding is not None
    assert finding.cost_s == pytest.approx(50 * 0.040)
    assert finding.evidence["own_inside_steps_s"] == pytest.approx(0.5, rel=0.1)
    assert "at the same step on every rank" in finding.action


def test_unwatched_collections_and_compilations_are_not_measured(new_rank: NewRank) -> None:
    state = analyse(make_run(new_rank())).families["between_steps"]
    assert "garbage collections and compilations (nobody watched them)" in state.reason
    rank = replace(new_rank(), unmeasured={"compilation": "this version of torch does not tell"})
    reason = analyse(make_run(rank)).families["between_steps"].reason
    assert "compilations (this version of torch does not tell)" in reason
    watched = analyse(make_run(collected(new_rank(STEPS, flags=KNOWN, gc_ms=0.0))))
    assert "not measured" not in watched.families["between_steps"].reason


STORM = "0/{} recompilation: tensor 'x' size mismatch at index 0. expected 32, actual 17"


def recompiling(
    steps: Sequence[int], ms: float, detail: str = STORM, first: bool = True
) -> RankFacts:
    """Make a rank that compiles in step 1 and again in `steps`."""
    there = {1, *steps} if first else set(steps)
    forward = [4.0 + (ms if step in there else 0.0) for step in range(1, STEPS + 1)]
    flags = {s: COMPILED_KNOWN | (COMPILED if s in there else 0) for s in range(1, STEPS + 1)}
    rank = make_rank(
        STEPS, ms={"input_wait": 0.5, "forward": forward, "backward": 6.0}, flags=flags
    )
    events = [at_step(rank, "compilation", 1, ms, inside=True, detail="0/0")] if first else []
    events += [
        at_step(rank, "compilation", step, ms, inside=True, detail=detail.format(k + 1))
        for k, step in enumerate(steps)
    ]
    return replace(rank, events=events)


def test_a_storm_after_the_warm_up_is_counted_with_steps_and_reason() -> None:
    analysis = analyse(make_run(recompiling((30, 45, 60, 75), 400.0)))
    assert analysis.window.warmup_steps == 1
    finding = finding_of(analysis, "RECOMPILES")
    assert finding is not None
    assert finding.severity == "critical"
    assert finding.cost_s == pytest.approx(1.6)
    assert "4 compilations after the warm-up, at steps 30 to 75, took 1.60 s" in finding.why
    assert "size mismatch at index 0" in finding.why
    assert "mark_dynamic" in finding.action
    assert "first of their code" not in finding.why


def test_compiling_in_the_warm_up_is_warm_up() -> None:
    analysis = analyse(make_run(recompiling((2, 3, 4), 400.0)))
    assert analysis.window.warmup_steps == 4
    assert finding_of(analysis, "RECOMPILES") is None


@pytest.mark.parametrize(("ms", "severity"), [(10.0, None), (110.0, "info"), (140.0, "warning")])
def test_few_or_short_recompilations_are_none(ms: float, severity: str | None) -> None:
    finding = finding_of(analyse(make_run(recompiling((30, 45, 60, 75), ms))), "RECOMPILES")
    assert (None if finding is None else finding.severity) in (
        {severity, "critical"} if severity == "warning" else {severity}
    )


def test_a_run_that_never_stops_compiling_is_told_without_a_steady_step() -> None:
    """All of it is warm-up then, so only code that was compiled before counts."""
    analysis = analyse(make_run(recompiling(range(5, STEPS + 1, 5), 100.0)))
    assert analysis.window.steady_steps < 10
    finding = finding_of(analysis, "RECOMPILES")
    assert finding is not None
    assert finding.evidence["compilations_count"] == 20
    assert analysis.verdict.kind == "RECOMPILES"


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("1/0", "Different code is compiled late"),
        ("0/{} recompilation: len(self.history) == 3", "Keep what the reason names constant"),
        ("0/{} recompilation", "TORCH_LOGS=recompiles tells which input changes"),
    ],
)
def test_the_advice_follows_the_reason(detail: str, told: str) -> None:
    finding = finding_of(
        analyse(make_run(recompiling((30, 45, 60, 75), 400.0, detail))), "RECOMPILES"
    )
    assert finding is not None
    assert told in finding.action


def test_collections_of_a_compiling_step_are_part_of_compiling() -> None:
    rank = recompiling((30, 45, 60, 75), 400.0)
    gc_ns = [300_000_000 if step in (30, 45, 60, 75) else 0 for step in range(1, STEPS + 1)]
    rank = replace(rank, columns={**rank.columns, "gc_ns": gc_ns})
    rank = replace(rank, totals=replace(rank.totals, gc_ns=sum(gc_ns)))
    analysis = analyse(make_run(rank))
    assert finding_of(analysis, "GC_PAUSES") is None
    assert finding_of(analysis, "RECOMPILES") is not None


def test_compiling_for_an_evaluation_is_not_billed_as_evaluation_too() -> None:
    before = {step: {"evaluation": 500.0} for step in (30, 60)}
    rank = make_rank(STEPS, before_ms=before, flags=KNOWN)
    events = [
        at_step(rank, "compilation", step, 450.0, inside=False, detail=f"{k}/0")
        for k, step in enumerate((30, 60))
    ]
    analysis = analyse(make_run(replace(rank, events=events)))
    finding = finding_of(analysis, "RECOMPILES")
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.9)
    assert "between steps, as in evaluation" in finding.why
    assert "2 of them the first of their code" in finding.why
    assert finding_of(analysis, "EVALUATION_COST") is None  # a tenth of a second is left


ACCOUNTS = ("gap", "logging", "evaluation", "checkpoint", "epoch_boundary", "callbacks")


@st.composite
def crowded_runs(draw: st.DrawFn) -> RankFacts:
    """Give a run with long accounts beside its steps and pauses in them."""
    length, steps = st.floats(100.0, 500.0), st.sampled_from(range(2, 41))
    spans = st.dictionaries(st.sampled_from(ACCOUNTS), length, min_size=1, max_size=4)
    before: Any = draw(st.dictionaries(steps, spans, min_size=1, max_size=8))
    within = st.dictionaries(st.sampled_from(ACCOUNTS[1:4]), length, max_size=2)
    inside: Any = draw(st.dictionaries(steps, within, max_size=4))
    gc_ms = draw(st.floats(0.0, 9.0))
    rank = make_rank(40, before_ms=before, inside_ms=inside, gc_ms=gc_ms, flags=KNOWN)
    events = []
    for kind, detail in (("gc", ""), ("compilation", "0/1 recompilation")):
        for step in draw(st.sets(st.sampled_from(sorted(before)))):
            # Both kinds together are less than what lies before the step.
            ms = draw(st.floats(0.1, 0.45)) * sum(before[step].values())
            event = at_step(rank, kind, step, ms, inside=False, detail=detail)
            late = round(0.5e6 * sum(before[step].values())) if kind == "compilation" else 0
            events.append(replace(event, at_ns=event.at_ns + late))
    gc_ns = sum(e.duration_ns or 0 for e in events if e.kind == "gc")
    gc_ns += sum(ns or 0 for ns in rank.columns["gc_ns"])
    return replace(
        rank, events=sorted(events, key=lambda e: e.at_ns), totals=replace(rank.totals, gc_ns=gc_ns)
    )


@settings(max_examples=60, deadline=None)
@given(crowded_runs())
def test_no_second_is_billed_twice(rank: RankFacts) -> None:
    analysis = analyse(make_run(rank))
    own = [f for f in analysis.findings if f.family == "between_steps" and f.severity != "info"]
    in_steps = sum(ns or 0 for ns in rank.columns["gc_ns"])
    beside = sum(rank.totals.account_ns.get(name, 0) for name in ACCOUNTS)
    assert sum(f.cost_s for f in own) <= (in_steps + beside) / 1e9 * (1 + 1e-9)
    assert all(f.cost_s >= 0.0 for f in own)
