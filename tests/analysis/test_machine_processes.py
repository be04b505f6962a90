"""Findings about the run's own processes, from runs made by hand."""

from dataclasses import replace

import pytest

from tests.labs.machine import GB, process_readings, system_readings
from tests.labs.runs import CPU_STEP, make_rank, make_run
from traintrace.facts import RankFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding

GPU = Setup(device_kind="cuda", cpu_count=8, omp_threads=1)
SLOW_STEP = {name: 10.0 * value for name, value in CPU_STEP.items() if isinstance(value, float)}


def found(*ranks: RankFacts) -> dict[str, Finding]:
    return {one.kind: one for one in analyse(make_run(*ranks)).findings if one.family == "process"}


class TestRss:
    @pytest.mark.parametrize(("workers_gb", "fires"), [(23, False), (24, True)])
    def test_workers_and_process_are_named_apart(self, workers_gb: int, fires: bool) -> None:
        rank = make_rank(
            process=process_readings(workers=4, workers_rss_bytes=workers_gb * GB),
            system=system_readings(ram_used_bytes=28 * GB),
        )
        one = found(rank).get("HIGH_RSS")
        assert (one is not None) is fires
        if one is not None:
            assert one.evidence["main_rss_bytes"] == 2 * GB
            assert one.evidence["workers_rss_bytes"] == 24 * GB
            assert "4 workers 24.0 GB together" in one.why


class TestCpu:
    def test_full_cores_on_a_cpu_are_an_observation(self) -> None:
        assert (
            found(make_rank(process=process_readings(cpu_cores=3.9)))["HIGH_CPU"].severity == "info"
        )

    def test_full_cores_beside_a_gpu_are_a_warning(self) -> None:
        rank = make_rank(setup=GPU, process=process_readings(cpu_cores=1.0, workers_cpu_cores=2.9))
        assert found(rank)["HIGH_CPU"].severity == "warning"

    def test_the_ranks_of_a_node_share_its_cores(self) -> None:
        node = system_readings(cpu_count=4)
        reading = process_readings(cpu_cores=1.95)
        ranks = [
            make_rank(rank=r, process=reading, system=node if r == 0 else ()) for r in range(2)
        ]
        assert found(*ranks)["HIGH_CPU"].evidence["own_cores"] == pytest.approx(3.9)

    def test_ranks_that_may_have_cores_of_their_own_are_not_accused(self) -> None:
        node = system_readings(cpu_count=64, cpu_cores=4.0)
        reading = process_readings(cpu_cores=1.95)
        ranks = [
            make_rank(rank=r, process=reading, system=node if r == 0 else ()) for r in range(2)
        ]
        assert found(*ranks) == {}

    def test_a_run_too_short_for_readings_does_not_speak_of_ranks(self) -> None:
        reading = replace(process_readings(1)[0], interval_ns=None, cpu_cores=None)
        later = replace(process_readings(2)[1], cpu_cores=1.0)
        reason = (
            analyse(make_run(make_rank(process=[reading, replace(later, at_ns=0)])))
            .families["process"]
            .reason
        )
        assert "too few readings" in reason
        assert "every rank" not in reason

    def test_less_is_nothing(self) -> None:
        assert found(make_rank(process=process_readings(cpu_cores=3.7))) == {}
