"""Two ranks profile the same steps, and their traces together tell who waited for whom."""

from pathlib import Path

from tests.labs.ranks import Job
from tests.ranks.profiled_runs import LATE_MS, PROFILED_STEPS
from traintrace import open_run
from traintrace_analysis import REQUIRED_COLUMNS, Analysis, analyse
from traintrace_reporting.traces.places import own_traces

STEPS = PROFILED_STEPS[1] - PROFILED_STEPS[0] + 1


def test_waiting_for_the_late_rank_is_told_apart(runs: Job) -> None:
    def check(folder: Path) -> None:
        found = analysed(folder).communication
        assert found is not None
        assert found.traces is not None
        first, second = found.traces.traces
        assert (first.rank, second.rank) == (0, 1)
        assert first.steps.numbers == second.steps.numbers == (4, 5, 6)
        assert first.host_only
        assert first.late_wait_ns is not None
        assert second.late_wait_ns is not None
        # gloo's own threads are late to a call by their scheduling, hence not the whole.
        assert first.late_wait_ns[0] >= 0.7 * STEPS * LATE_MS * 1e6
        assert first.devices[0].exposed_ns >= first.late_wait_ns[0]
        assert found.traces.late_share[1] > 0.5

    runs.check("profiled", check)


def test_where_a_rank_is_late_communication_is_not_blamed(runs: Job) -> None:
    def check(folder: Path) -> None:
        kinds = [finding.kind for finding in analysed(folder).findings]
        assert any("STRAGGLER" in kind for kind in kinds)
        assert not {"EXPOSED_COMM", "COMM_BOUND"} & set(kinds)

    runs.check("profiled", check)


def analysed(folder: Path) -> Analysis:
    traces, notes = own_traces(folder)
    assert notes == []
    return analyse(open_run(folder).facts(REQUIRED_COLUMNS), traces=traces)
