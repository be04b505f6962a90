"""Summaries that were edited by hand, torn or made elsewhere: the field is named."""

import copy
import math
from typing import Any

import pytest

from tests.labs.compared import facts, made, summary
from tests.labs.runs import make_rank, make_run
from traintrace.facts import Setup
from traintrace_analysis.comparison.reading import compared_run

WHOLE = summary(facts(between={50: {"checkpoint": 40.0}}))
MISSING = object()


def edited(place: str, value: object) -> dict[str, Any]:
    """Give the summary with one field changed, or taken out."""
    changed = copy.deepcopy(WHOLE)
    *way, last = place.split(".")
    at: Any = changed
    for name in way:
        at = at[int(name)] if isinstance(at, list) else at[name]
    if value is MISSING:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return changed


def test_everything_that_a_comparison_needs_is_read() -> None:
    run = compared_run(WHOLE)
    assert (run.name, run.status, run.clock, run.steps) == ("run", "completed", "host", 200)
    step = run.metrics["step_time"]
    assert step.mean_ms == pytest.approx(20.0, rel=0.02)
    assert step.log_mean == pytest.approx(math.log(20.0), rel=0.02)
    assert run.work_per_step == 32
    assert run.accounts_s_per_step["checkpoint"] == pytest.approx(0.040 / 200)
    assert run.throughput["steps_per_s.step"] == pytest.approx(50.0, rel=0.02)
    assert run.hardware["CPU count"] == 8
    assert len(run.fingerprint) == 16


def test_what_did_not_occur_took_nothing_and_what_was_not_seen_is_unknown() -> None:
    run = compared_run(WHOLE)
    assert (run.metrics["clip"].available, run.metrics["clip"].mean_ms) == (True, 0.0)
    assert (run.metrics["h2d"].available, run.metrics["h2d"].mean_ms) == (False, None)
    assert run.metrics["h2d"].reason


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("run", MISSING),
        ("run", []),
        ("run.name", MISSING),
        ("run.name", "a\x1b[31mb"),
        ("run.name", 7),
        ("run.status", "fine"),
        ("run.started_at", math.nan),
        ("run.world_size", 1.5),
        ("run.world_size", True),
        ("run.world_size", -1),
        ("step_time.clock", "sundial"),
        ("step_time.window.steps", None),
        ("step_time.window.warmup_steps", 201),
        ("step_time.metrics.step_time.by_rank.0", math.inf),
        ("step_time.metrics.step_time.by_rank.0", -1.0),
        ("step_time.metrics.step_time.by_rank.0", 2.0),
        ("step_time.metrics.step_time.by_rank.0", "20"),
        ("step_time.metrics.step_time.mean", 0.02),
        ("step_time.metrics.step_time.mean", None),
        ("step_time.metrics.step_time.n", 100),
        ("step_time.metrics.step_time.clock", "moon"),
        ("statistics.metrics.step_time.log_mean", math.nan),
        ("statistics.metrics.step_time.log_mean", 99.0),
        ("statistics.metrics.step_time.log_sd", 1e300),  # its square is no number
        ("statistics.metrics.step_time.log_sd", -0.1),
        ("statistics.metrics.step_time.tau", 0.5),
        ("statistics.metrics.step_time.tau", MISSING),
        ("statistics.metrics.step_time.n_effective", 0),
        ("statistics.metrics.step_time.n_effective", 5000.0),
        ("statistics.metrics.step_time.block_means", [20.0]),
        ("statistics.metrics.step_time.block_means", "many"),
        ("statistics.metrics.step_time.block_means.3", 1e9),
        ("statistics.metrics.step_time.block_means.3", None),
        ("wall.total_ns", 5),
        ("wall.accounts_ns.forward", 1),
        ("counts.steps", -4),
        ("throughput.steps_per_s.step", math.nan),
        ("findings", {}),
        ("families.step_time", 3),
        ("coverage", MISSING),
        ("environment", None),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(place: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"^[a-z_]+[a-z_.0-9]*: .+") as refused:
        compared_run(edited(place, value))
    named = str(refused.value).split(":")[0]
    # What contradicts another field may be named by either of the two.
    family = place.split(".")[0]
    related = {"step_time": ("statistics", "step_time"), "wall": ("wall",)}.get(family, (family,))
    assert named.split(".")[0] in related


@pytest.mark.parametrize("foreign", [{}, {"accuracy": 0.9}, {"run": {}, "setup": {}}])
def test_foreign_json_is_refused(foreign: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^[a-z_.]+: missing"):
        compared_run(foreign)


def test_a_run_without_a_step_is_read_and_not_comparable() -> None:
    from traintrace_analysis.comparison.compare import compare

    empty = compared_run(summary(make_run(make_rank(0))))
    assert empty.steps == 0
    found = compare([made()], [empty], max_regression=0.1)
    assert found.verdict == "INCOMPARABLE"
    assert "no step" in found.headline
    assert found.guard is not None
    assert found.guard.outcome == "INCONCLUSIVE"


def test_another_processor_is_another_machine_if_it_trains_and_is_told_if_not() -> None:
    from traintrace_analysis.comparison.compare import compare

    for kind, verdict in (("cpu", "INCOMPARABLE"), ("cuda", "INCONCLUSIVE")):
        runs = []
        for processor in ("EPYC", "Xeon"):
            content = summary(facts(name=processor, setup=Setup(device_kind=kind)))
            content["environment"]["cpu"] = processor
            runs.append(compared_run(content))
        found = compare(runs[:1], runs[1:])
        assert found.verdict == verdict
        assert "EPYC in A, Xeon in B" in " ".join((found.headline, *found.warnings))


def test_a_long_name_is_short_in_sentences() -> None:
    from traintrace_analysis.comparison.compare import compare

    failed = edited("run.name", "x" * 10_000)
    failed["run"]["status"] = "failed"
    found = compare([made()], [compared_run(failed)])
    assert max(map(len, found.warnings)) < 200


def test_ranks_with_other_representatives_are_no_contradiction() -> None:
    ranks = [
        make_rank(100, ms={"forward": 4.0 + rank, "backward": 9.0 - 2.0 * rank}, rank=rank, jitter=0.03)
        for rank in range(3)
    ]  # fmt: skip
    run = compared_run(summary(make_run(*ranks)))
    assert run.world_size == 3
    assert run.metrics["forward"].mean_ms is not None


def test_an_older_schema_without_the_newer_sections_is_read() -> None:
    older = edited("schema_version", "0.1")
    for name in ("system", "process", "ranks"):
        older.pop(name)
    older["setup"]["loader"].pop("reads_for_all")
    run = compared_run(older)
    assert (run.system, run.process) == ({}, {})
    assert compared_run(summary(facts(setup=Setup(device_kind="cpu")))).name == "run"
