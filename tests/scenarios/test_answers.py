"""Every scenario gets the answer that its facts call for."""

import pytest

from tests.scenarios.builds import Build, Builds
from tests.scenarios.catalogue import CATALOGUE
from tests.scenarios.record import Scenario
from traintrace_analysis.registry import KINDS

EVERY = pytest.mark.parametrize("name", [scenario.name for scenario in CATALOGUE])


@pytest.fixture
def build(builds: Builds, name: str) -> Build:
    return builds.one(name)


@EVERY
def test_the_verdict_is_the_one_that_the_facts_call_for(build: Build) -> None:
    expected, verdict = build.scenario.expected, build.analysis.verdict
    assert (verdict.kind, verdict.outcome) == (expected.verdict, expected.outcome), verdict
    if expected.severity is not None:
        assert verdict.severity == expected.severity


@EVERY
def test_exactly_the_causes_that_are_there_are_named(build: Build) -> None:
    expected = build.scenario.expected
    named = {f.kind: f for f in build.analysis.findings if f.severity != "info"}
    assert set(named) == set(expected.named), [f.headline for f in named.values()]
    for kind, ranks in expected.named.items():
        if ranks is not None:
            assert named[kind].ranks == ranks, named[kind].headline
    noted = {finding.kind for finding in build.analysis.findings if finding.severity == "info"}
    assert set(expected.noted) <= noted


@EVERY
def test_every_finding_has_words_a_cost_and_an_honest_confidence(build: Build) -> None:
    for finding in build.analysis.findings:
        assert finding.headline, finding.kind
        assert finding.why, finding.kind
        assert finding.action, finding.kind
        assert finding.cost_s >= 0.0
        assert 0.0 < finding.confidence <= 1.0
        assert finding.evidence, finding.kind
    costs = sum(f.cost_s for f in build.analysis.findings if f.severity != "info")
    if build.analysis.wall is not None:
        assert costs <= build.analysis.wall.total_ns / 1e9, "the same seconds are billed twice"


@EVERY
def test_the_window_is_the_common_one_on_one_clock(build: Build) -> None:
    expected, window = build.scenario.expected, build.analysis.window
    assert window.clock == expected.clock
    ids = window.steps.tolist()
    if expected.window is not None:
        assert (ids[0] if ids else None, ids[-1] if ids else None, len(ids)) == expected.window
    assert window.expected_ranks == tuple(range(expected.ranks))
    assert window.ranks == (window.expected_ranks if expected.seen is None else expected.seen)


@EVERY
def test_what_was_not_measured_is_none_and_a_measured_zero_is_zero(build: Build) -> None:
    expected, metrics = build.scenario.expected, build.analysis.metrics
    assert {name for name, metric in metrics.items() if metric.mean_ms is None} == expected.null
    for name, ranks in expected.null_on.items():
        absent = {rank for rank, mean in metrics[name].by_rank.items() if mean is None}
        assert absent == set(ranks), name
    for name in expected.zero:
        assert metrics[name].mean_ms == 0.0
        assert set(metrics[name].by_rank.values()) == {0.0}
    below = {name for name, metric in metrics.items() if (metric.mean_ms or 0.0) < 0.0}
    assert below == set(expected.negative)
    coverage = build.analysis.coverage
    for name in expected.null:
        assert coverage[name].state == "not_measured", name
        assert coverage[name].reason, name
    if "h2d" in expected.null and build.analysis.window.ranks:
        assert (coverage["h2d"].reason or "").startswith("not_observed")


@EVERY
def test_families_say_what_was_examined(build: Build) -> None:
    families = build.analysis.families
    for name, state in build.scenario.expected.families.items():
        assert families[name].state == state, families[name]
    found = {f.family for f in build.analysis.findings if f.severity != "info"}
    assert {name for name, state in families.items() if state.state == "finding"} == found
    assert all(state.reason and ": ." not in state.reason for state in families.values())


@EVERY
def test_the_worst_value_and_rank_agree_and_the_representative_rank_is_real(build: Build) -> None:
    for metric in build.analysis.metrics.values():
        means = {rank: mean for rank, mean in metric.by_rank.items() if mean is not None}
        assert len(means) == metric.ranks_measured
        if metric.mean_ms is None:
            assert metric.worst_rank is None
            assert metric.representative_rank is None
            continue
        assert metric.worst_rank is not None
        assert metric.worst_ms == means[metric.worst_rank] == max(means.values())
        assert metric.representative_rank in means
        assert (metric.skew is None) == (len(means) < 2 or metric.worst_ms == 0.0)


def test_every_kind_of_the_registry_is_produced_by_a_scenario(builds: Builds) -> None:
    known = {kind for kinds in KINDS.values() for kind in kinds}
    found = {f.kind for build in builds.every().values() for f in build.analysis.findings}
    assert known - found == set(), "no scenario produces these"
    assert found - known == set(), "these are in no registry"


def test_names_are_unique_and_promises_are_told() -> None:
    names = [scenario.name for scenario in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(scenario.protects for scenario in CATALOGUE)


@pytest.mark.parametrize("scenario", CATALOGUE[:11], ids=lambda scenario: scenario.name)
def test_a_scenario_has_the_same_facts_each_time(scenario: Scenario) -> None:
    first, again = scenario.make(), scenario.make()
    for one, other in zip(first.ranks, again.ranks, strict=True):
        assert one.inside.keys() == other.inside.keys()
        assert all(
            (one.inside[name].tobytes() == other.inside[name].tobytes()) for name in one.inside
        )
