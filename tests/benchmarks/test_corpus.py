"""The labelled fault corpus: its runs are consistent, its labels true, its score means what it says."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.corpus.cases import CLEAN, FAULTS, Case, cases
from benchmarks.corpus.scoring import examine
from benchmarks.corpus.truth import CLEARLY, UNCLEAR, severities
from traintrace.accounts import STEP_ACCOUNT_NAMES
from traintrace.facts import RankFacts, RunFacts
from traintrace_analysis import registry
from traintrace_analysis.context import Context
from traintrace_analysis.findings import Finding
from traintrace_analysis.registry import KINDS
from traintrace_analysis.rules.rule import Family
from traintrace_analysis.step_window import Ints

EVERY_KIND = [(family, kind) for family, faults in FAULTS.items() for kind in faults]


def columns_of(rank: RankFacts) -> dict[str, Ints]:
    return {name: np.asarray(values) for name, values in rank.columns.items()}


def digest(facts: RunFacts) -> str:
    whole = hashlib.sha256()
    for rank in facts.ranks:
        for name, values in sorted(columns_of(rank).items()):
            whole.update(name.encode() + values.tobytes())
        parts = (sorted(rank.totals.account_ns.items()), rank.spans, rank.events)
        whole.update(repr((parts, rank.system, rank.process, rank.devices)).encode())
    return whole.hexdigest()


def test_every_kind_that_is_a_fault_has_its_runs_and_no_other() -> None:
    # What a family finds beside these is an observation; LENGTH_VARIANCE can be a warning, but only where
    # padding is counted, and the corpus draws no tokens (its rule has tests of its own).
    observations = {"COMPUTE_BOUND", "HIGH_GPU_POWER", "LENGTH_VARIANCE"}
    for family, faults in FAULTS.items():
        assert set(faults) == set(KINDS[family]) - observations


def test_every_kind_comes_equally_often_and_the_halves_share_no_seed() -> None:
    tune, score = (list(cases(half, clean=10, faulty=60)) for half in ("tune", "score"))
    assert not {case.name for case in tune} & {case.name for case in score}
    for faults in FAULTS.values():
        counts = [sum(case.kind == kind for case in score) for kind in faults]
        assert len(set(counts)) == 1
        assert sum(counts) >= 60


@pytest.mark.parametrize(("family", "kind"), [*EVERY_KIND, (CLEAN, CLEAN)])
def test_accounts_sum_to_wall_and_rows_tile(family: str, kind: str) -> None:
    facts, _ = Case(family, kind, 3).make()
    for rank in facts.ranks:
        totals, columns = rank.totals, columns_of(rank)
        assert sum(totals.account_ns.values()) == totals.wall_ns
        ends = columns["start_ns"] + columns["duration_ns"]
        assert columns["start_ns"][0] == totals.start_ns
        assert (columns["start_ns"][1:] == ends[:-1]).all()
        in_step = [columns[f"{n}_ns"] for n in STEP_ACCOUNT_NAMES if f"{n}_ns" in columns]
        aside = {
            place: sum(s.ns for s in rank.spans if s.inside is place) for place in (True, False)
        }
        open_ns = int((ends - columns["open_ns"]).sum())
        assert int(np.sum(in_step)) + aside[True] == open_ns == sum(totals.inside_ns.values())
        assert aside[False] == int((columns["open_ns"] - columns["start_ns"]).sum())


@pytest.mark.parametrize(("family", "kind"), EVERY_KIND)
def test_a_labelled_fault_is_clearly_above_its_limit(family: str, kind: str) -> None:
    for seed in (0, 1, 2):
        sizes = severities(Case(family, kind, seed).draft())
        name = "STRAGGLERS" if kind.endswith("STRAGGLER") and kind != "ROTATING_STRAGGLER" else kind
        if name in sizes:
            assert sizes[name] >= CLEARLY, (seed, sizes)


def test_a_healthy_run_has_nothing_near_a_limit() -> None:
    for seed in range(40):
        sizes = severities(Case(CLEAN, CLEAN, seed).draft())
        assert max(sizes.values()) < UNCLEAR, (seed, sizes)


def test_the_labelled_share_is_in_the_rows_themselves() -> None:
    facts, truth = Case("step_time", "INPUT_BOUND", 4).make()
    shares = []
    for rank in facts.ranks:
        columns = columns_of(rank)
        step = columns["start_ns"] + columns["duration_ns"] - columns["open_ns"]
        shares.append(columns["input_wait_ns"].sum() / step.sum())
    assert truth.faults[0].kind == "INPUT_BOUND"
    assert np.median(shares) > 0.10


def test_a_labelled_rank_comes_last_in_the_rows_themselves() -> None:
    facts, truth = Case("ranks", "BACKWARD_STRAGGLER", 5).make()
    waits = {rank.rank: columns_of(rank)["gradient_sync_ns"].sum() for rank in facts.ranks}
    culprits = truth.faults[0].ranks
    assert culprits is not None
    assert set(sorted(waits, key=waits.__getitem__)[: len(culprits)]) == set(culprits)


def test_the_same_case_is_the_same_run_in_another_process_with_another_hash_seed() -> None:
    made = [digest(Case(family, kind, 7).make()[0]) for family, kind in EVERY_KIND[::5]]
    script = (
        "from tests.benchmarks.test_corpus import *\n"
        "print(*[digest(Case(f, k, 7).make()[0]) for f, k in EVERY_KIND[::5]])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "99"}
    answer = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == made


def small() -> list[Case]:
    kept = [
        Case(family, kind, 1)
        for family in ("step_time", "between_steps")
        for kind in FAULTS[family]
    ]
    return [*(Case(CLEAN, CLEAN, seed) for seed in range(1, 21, 2)), *kept]


def test_a_rule_that_finds_nothing_lowers_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = examine(small()).figures()
    monkeypatch.setattr(registry, "REGISTRY", changed("step_time", lambda context: []))
    broken = examine(small()).figures()
    assert broken["families"]["step_time"]["recall"] == 0.0
    assert (broken["recall"] or 0.0) < (whole["recall"] or 0.0)
    assert broken["clean_ok"] == whole["clean_ok"]


def test_a_rule_that_blames_everything_lowers_precision_and_clean_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = examine(small()).figures()

    def blame(context: Context) -> list[Finding]:
        return [
            Finding(
                id="h2d-bound", kind="H2D_BOUND", family="step_time", severity="warning",
                confidence=0.9, ranks=context.window.ranks, evidence={}, cost_s=1.0,
                cost_basis="run", gain=None, headline="", why="", action="",
            )
        ]  # fmt: skip

    monkeypatch.setattr(registry, "REGISTRY", changed("step_time", blame))
    broken = examine(small()).figures()
    assert broken["clean_ok"] == 0.0
    assert (broken["families"]["step_time"]["precision"] or 0.0) < 0.2
    assert (broken["precision"] or 0.0) < (whole["precision"] or 0.0)


def changed(family: str, examine_instead: Callable[[Context], list[Finding]]) -> tuple[Family, ...]:
    """Give the registry with another `examine` in the first rule of a family, and no other rule."""
    return tuple(
        replace(
            one,
            rules=(replace(one.rules[0], examine=examine_instead, missing=lambda context: ""),),
        )
        if one.name == family
        else one
        for one in registry.REGISTRY
    )


@pytest.mark.long
def test_the_scored_half_reaches_its_targets() -> None:
    score = examine(cases("score"))
    figures = score.figures()
    assert (figures["clean_ok"] or 0.0) >= 0.99, score.wrong
    for name, family in figures["families"].items():
        assert (family["precision"] or 0.0) >= 0.95, (name, score.wrong)
        assert (family["recall"] or 0.0) >= 0.90, (name, score.missed)
