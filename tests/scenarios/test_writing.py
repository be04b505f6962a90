"""Scenarios are books that balance: what a rank recorded is what was written and what is read."""

import pytest

from tests.scenarios.builds import Build, Builds
from tests.scenarios.catalogue import CATALOGUE
from traintrace import open_run
from traintrace.facts import RankFacts
from traintrace_analysis import REQUIRED_COLUMNS

EVERY = pytest.mark.parametrize("name", [scenario.name for scenario in CATALOGUE])


@pytest.fixture
def build(builds: Builds, name: str) -> Build:
    return builds.one(name)


@EVERY
def test_accounts_sum_to_wall_and_rows_tile(build: Build) -> None:
    for rank in open_run(build.folder).facts(REQUIRED_COLUMNS).ranks:
        totals = rank.totals
        assert sum(totals.account_ns.values()) == totals.wall_ns
        starts, lengths = _column(rank, "start_ns"), _column(rank, "duration_ns")
        steps = _column(rank, "step")
        for index in range(1, len(steps)):
            if steps[index] == steps[index - 1] + 1:
                assert starts[index] == starts[index - 1] + lengths[index - 1]
        assert totals.steps == len(steps) + totals.dropped_rows
        tail = sum(span.ns for span in rank.spans if span.step > totals.steps)
        assert totals.wall_ns == starts[-1] + lengths[-1] + tail - totals.start_ns


@EVERY
def test_every_rank_and_attempt_is_read_with_its_readings(build: Build) -> None:
    written = {(r.rank, r.attempt): r for r in build.scenario.make().ranks}
    read = {(r.rank, r.attempt): r for r in open_run(build.folder).facts(REQUIRED_COLUMNS).ranks}
    assert read.keys() == written.keys()
    for place, rank in read.items():
        record = written[place]
        assert tuple(rank.system) == record.system
        assert tuple(rank.process) == record.process
        assert tuple(rank.devices) == record.devices
        assert tuple(rank.events) == record.events
        assert (rank.node, rank.status, rank.setup) == (record.node, record.status, record.setup)


def _column(rank: RankFacts, name: str) -> list[int]:
    return [value for value in rank.columns[name] if value is not None]
