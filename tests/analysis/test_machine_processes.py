"""Findings about the run's own processes, from runs made by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.labs.machine import EVERY_NS, GB, process_readings, system_readings
from tests.labs.runs import CPU_STEP, make_rank, make_run
from traintrace.facts import LoaderSetup, RankFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding

GPU = Setup(device_kind="cuda", cpu_count=8, omp_threads=1)
SLOW_STEP = {name: 10.0 * value for name, value in CPU_STEP.items() if isinstance(value, float)}


def found(*ranks: RankFacts) -> dict[str, Finding]:
    return {one.kind: one for one in analyse(make_run(*ranks)).findings if one.family == "process"}


def waiting(
    share: float | Sequence[float], *, threads: int = 2, workers: int = 0, cores: float = 2.0, own: float = 1.3,
    node_cores: float | None = 2.0, throttled: float = 0.0, rank: int = 0, cpus: int = 2,
) -> RankFacts:  # fmt: skip
    """Make a rank on a CPU whose training thread waits for a core that share of the time."""
    waits = [share] * 24 if isinstance(share, float) else list(share)
    return make_rank(
        20,
        rank=rank,
        ms=SLOW_STEP,
        setup=Setup(
            device_kind="cpu", cpu_count=2, omp_threads=threads, loader=LoaderSetup(workers=workers)
        ),
        process=process_readings(
            allowed_cores=cores,
            cpu_cores=own,
            workers=workers,
            workers_cpu_cores=0.3 * workers,
            run_queue_ns=[round(one * EVERY_NS) for one in waits],
            throttled_ns=round(throttled * EVERY_NS),
        ),
        system=system_readings(cpu_cores=node_cores, cpu_count=cpus) if rank == 0 else (),
    )


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

    def test_less_is_nothing(self) -> None:
        assert found(make_rank(process=process_readings(cpu_cores=3.7))) == {}


class TestOversubscribed:
    """The figures are those of real runs on two cores, named in the limits of the family."""

    def test_a_neighbour_is_told_apart_from_own_threads(self) -> None:
        one = found(waiting(0.32))["CPU_OVERSUBSCRIBED"]
        assert one.evidence["caused_by"] == "others"
        assert one.evidence["other_cores"] == pytest.approx(0.7)
        assert one.action.startswith("End the other processes")
        assert "OMP_NUM_THREADS=1 (now 2)" in one.action

    def test_too_many_own_threads(self) -> None:
        one = found(waiting(0.33, threads=8, own=1.7, node_cores=1.75))["CPU_OVERSUBSCRIBED"]
        assert one.evidence["caused_by"] == "own"
        assert one.action == "Set OMP_NUM_THREADS=2 (now 8)."

    def test_workers_and_threads_that_do_not_fit(self) -> None:
        one = found(waiting(0.24, workers=4, own=0.8))["CPU_OVERSUBSCRIBED"]
        assert one.evidence["caused_by"] == "own"
        assert one.action == "Set OMP_NUM_THREADS=1 (now 2) and num_workers=1 (now 4)."

    def test_several_ranks_share_the_cores(self) -> None:
        ranks = [waiting(0.66, own=0.98, rank=rank) for rank in range(2)]
        one = found(*ranks)["CPU_OVERSUBSCRIBED"]
        assert (one.severity, one.ranks) == ("critical", (0, 1))
        assert one.evidence["caused_by"] == "own"
        assert "2 ranks on the node use 4 threads on 2 cores" in one.why
        assert one.action == "Set OMP_NUM_THREADS=1 (now 2) for each rank."

    def test_a_quota_is_named(self) -> None:
        one = found(waiting(0.4, cores=1.5, own=1.45, node_cores=3.0, cpus=16, throttled=0.5))
        assert one["CPU_OVERSUBSCRIBED"].evidence["caused_by"] == "quota,own"
        assert one["CPU_OVERSUBSCRIBED"].action.startswith("Raise the CPU limit")

    def test_cores_elsewhere_on_a_large_node_are_no_cause(self) -> None:
        one = found(waiting(0.3, cores=2.0, own=1.5, node_cores=30.0, cpus=64))[
            "CPU_OVERSUBSCRIBED"
        ]
        assert one.evidence["caused_by"] == "unknown"
        assert "cannot be told" in one.why

    def test_its_cost_is_the_time_without_a_core(self) -> None:
        rank = waiting(0.32)
        one = found(rank)["CPU_OVERSUBSCRIBED"]
        # The readings cover a part of the span, so their share is scaled to all of it.
        assert one.cost_s == pytest.approx(0.32 * rank.totals.wall_ns / 1e9)
        assert one.cost_basis == "window"
        assert one.gain is not None
        assert one.gain.low == 1.0

    @pytest.mark.parametrize("share", [0.0, 0.03, 0.095])
    def test_what_every_machine_does_is_nothing(self, share: float) -> None:
        assert "CPU_OVERSUBSCRIBED" not in found(waiting(share))

    def test_a_single_bad_moment_is_no_warning(self) -> None:
        one = found(waiting([0.0] * 21 + [1.0] * 3)).get("CPU_OVERSUBSCRIBED")
        assert one is None or one.confidence < 0.75

    def test_short_steps_that_lose_little_are_an_observation(self) -> None:
        rank = waiting(0.15)
        fast = make_rank(100, process=rank.process, system=rank.system, setup=rank.setup)
        assert found(fast)["CPU_OVERSUBSCRIBED"].severity == "info"

    def test_a_kernel_that_does_not_count_is_not_measured(self) -> None:
        rank = waiting(0.3)
        blind = replace(rank, process=[replace(one, run_queue_ns=None) for one in rank.process])
        analysis = analyse(make_run(blind))
        assert "CPU_OVERSUBSCRIBED" not in {one.kind for one in analysis.findings}
        reason = "the training thread's wait for a core (the machine does not tell)"
        assert reason in analysis.families["process"].reason

    def test_a_reading_that_sums_up_time_before_the_steps_does_not_count(self) -> None:
        rank = waiting(0.0)
        before = replace(rank.process[0], interval_ns=60 * EVERY_NS, run_queue_ns=50 * EVERY_NS)
        assert "CPU_OVERSUBSCRIBED" not in found(replace(rank, process=[before, *rank.process[1:]]))
        inside = replace(rank.process[0], run_queue_ns=50 * EVERY_NS)
        assert "CPU_OVERSUBSCRIBED" in found(replace(rank, process=[inside, *rank.process[1:]]))

    def test_readings_of_the_warm_up_do_not_count(self) -> None:
        first = make_rank(
            60,
            ms={**SLOW_STEP, "forward": [400.0] * 5 + [40.0] * 55},
            process=process_readings(
                60, run_queue_ns=[EVERY_NS // 2] * 40 + [0] * 20, allowed_cores=2.0
            ),
        )
        assert "CPU_OVERSUBSCRIBED" not in found(first)
