"""Findings about memory, from runs made by hand: each fires, stays silent just under its limit, or is not measured."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.labs.machine import GB, MB, device_readings, process_readings, system_readings
from tests.labs.runs import START_NS, make_rank, make_run
from traintrace.facts import Event, RankFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding

GPU = Setup(device_kind="cuda", cpu_count=8, omp_threads=1)
Column = int | Sequence[int | None]


def memory_findings(*ranks: RankFacts) -> dict[str, Finding]:
    return {one.kind: one for one in analyse(make_run(*ranks)).findings if one.family == "memory"}


def gpu_rank(
    allocated: Column, reserved: Column, *, rank: int = 0, steps: int = 100, total: int | None = 80 * GB,
    used: int | None = 40 * GB, events: Sequence[Event] = (),
) -> RankFacts:  # fmt: skip
    return make_rank(
        steps,
        rank=rank,
        setup=GPU,
        events=events,
        memory={"peak_allocated_bytes": allocated, "peak_reserved_bytes": reserved},
        devices=device_readings(memory_total_bytes=total, memory_used_bytes=used),
    )


def host_rank(rss: Column, steps: int = 200, rank: int = 0) -> RankFacts:
    return make_rank(steps, rank=rank, memory={"rss_bytes": rss})


def retry(step_ns: int, times: int = 1, duration_ns: int | None = None) -> Event:
    return Event(START_NS + step_ns, "allocator_retry", 50, f"{times} more", duration_ns)


class TestPressure:
    @pytest.mark.parametrize(
        ("allocated", "reserved", "severity"),
        [(60, 71, None), (60, 73, "info"), (60, 77, "warning"), (79, 79, "critical")],
    )
    def test_a_full_device_is_graded_by_what_is_taken(
        self, allocated: int, reserved: int, severity: str | None
    ) -> None:
        found = memory_findings(gpu_rank(allocated * GB, reserved * GB)).get("MEMORY_PRESSURE")
        assert (found and found.severity) == severity

    def test_it_says_which_device_and_how_full(self) -> None:
        found = memory_findings(gpu_rank(60 * GB, 70 * GB), gpu_rank(70 * GB, 78 * GB, rank=1))[
            "MEMORY_PRESSURE"
        ]
        assert found.ranks == (1,)
        assert found.evidence["place"] == "device"
        assert found.evidence["share"] == pytest.approx(78 / 80)

    def test_another_process_on_the_device_is_told_apart(self) -> None:
        found = memory_findings(gpu_rank(10 * GB, 12 * GB, used=78 * GB))["MEMORY_PRESSURE"]
        assert "another process" in found.why

    def test_a_device_of_unknown_size_is_not_judged(self) -> None:
        assert "MEMORY_PRESSURE" not in memory_findings(gpu_rank(79 * GB, 79 * GB, total=None))

    def test_the_ranks_of_a_node_are_added_up(self) -> None:
        reading = process_readings(rss_bytes=10 * GB, workers_rss_bytes=5 * GB)
        ranks = [
            make_rank(
                rank=rank,
                process=reading,
                system=system_readings(ram_used_bytes=30 * GB) if rank == 0 else (),
            )
            for rank in (0, 1)
        ]
        found = memory_findings(*ranks)["MEMORY_PRESSURE"]
        assert found.evidence["place"] == "host"
        assert found.ranks == (0, 1)

    def test_pages_that_processes_share_count_once(self) -> None:
        rank = make_rank(
            process=process_readings(rss_bytes=20 * GB, workers_rss_bytes=80 * GB),
            system=system_readings(ram_used_bytes=22 * GB),
        )
        assert memory_findings(rank) == {}

    def test_without_a_size_the_family_is_not_measured(self) -> None:
        state = analyse(make_run(make_rank())).families["memory"]
        assert state.state == "not_measured"
        assert "memory of the node (nothing was read of the node)" in state.reason


class TestImbalance:
    def test_d17_the_worst_rank_is_named(self) -> None:
        """torchtitan#4457: the memory of one rank is logged, and another is the worst."""
        base = 500 * MB
        found = memory_findings(*(host_rank(base + 300 * MB * (r == 2), 40, r) for r in range(3)))
        assert found["MEMORY_IMBALANCE"].ranks == (2,)
        assert found["MEMORY_IMBALANCE"].evidence["excess_bytes"] == 300 * MB

    @pytest.mark.parametrize(("excess", "fires"), [(1.9, False), (2.1, True)])
    def test_allocated_memory_may_differ_by_a_tenth(self, excess: float, fires: bool) -> None:
        ranks = [
            gpu_rank(20 * GB + int(excess * GB) * (rank == 1), 30 * GB, rank=rank)
            for rank in range(4)
        ]
        assert ("MEMORY_IMBALANCE" in memory_findings(*ranks)) is fires


class TestCreep:
    def test_t22_a_leak_is_found_with_its_slope(self) -> None:
        """MIPCandy#231: a profiler was asked to find a leak; 1 MB is kept in each of 200 steps."""
        sparse = [500 * MB + step * MB if step % 4 == 0 else None for step in range(200)]
        found = memory_findings(host_rank(sparse))["MEMORY_CREEP"]
        assert found.evidence["growth_mb_per_step"] == pytest.approx(1.0, rel=0.02)
        assert found.evidence["where"] == "process"

    def test_t22_the_control_is_flat(self) -> None:
        noise = np.random.default_rng(7).normal(size=200)
        assert memory_findings(host_rank([int(500 * MB + 3 * MB * one) for one in noise])) == {}

    @pytest.mark.parametrize(
        "shape",
        [
            lambda x: 1.0 - np.exp(-4.0 * x),
            lambda x: 1.0 - np.exp(-3.0 * x),
            lambda x: np.minimum(x, 0.8),
            lambda x: x + 0.45 * (np.floor(7.99 * x) % 2),
            lambda x: np.minimum(x, 0.75),
            lambda x: (x > 0.5) * 1.0,
            lambda x: (x > 0.98) * 1.0,
            lambda x: (9.0 * x) % 1.0,
            lambda x: (1.7 * x) % 1.0,
            lambda x: 1.0 - x,
        ],
        ids=[
            "saturates",
            "saturates slowly",
            "stops late",
            "teeth above growth",
            "stops",
            "jump",
            "late jump",
            "sawtooth",
            "slow sawtooth",
            "shrinks",
        ],
    )
    def test_what_is_no_leak(self, shape: object) -> None:
        assert callable(shape)
        growth = 400 * MB * np.asarray(shape(np.linspace(0.0, 1.0, 200)))
        assert memory_findings(host_rank([int(2 * GB + one) for one in growth])) == {}

    def test_it_says_when_memory_ends(self) -> None:
        allocated = [10 * GB + 100 * MB * step for step in range(100)]
        found = memory_findings(gpu_rank(allocated, 30 * GB))["MEMORY_CREEP"]
        left = found.evidence["steps_until_full"]
        assert left == pytest.approx(600, rel=0.05)
        assert found.severity == "warning"

    def test_a_leak_that_ends_the_run_soon_is_critical(self) -> None:
        allocated = [60 * GB + 150 * MB * step for step in range(100)]
        assert memory_findings(gpu_rank(allocated, 75 * GB))["MEMORY_CREEP"].severity == "critical"

    def test_workers_that_grow_are_told_apart(self) -> None:
        rss = [GB + 20 * MB * step for step in range(40)]
        rank = make_rank(200, process=process_readings(40, workers=4, workers_rss_bytes=rss))
        found = memory_findings(rank)["MEMORY_CREEP"]
        assert found.evidence["where"] == "workers"
        # 20 MB in 50 ms, and a step takes 11.8 ms.
        assert found.evidence["growth_mb_per_step"] == pytest.approx(20 * 11.8 / 50, rel=0.05)

    def test_noise_on_many_ranks_is_no_leak(self) -> None:
        chance = np.random.default_rng(11)
        columns = (1_270 * MB + 23 * MB * chance.normal(size=(256, 50))).astype(int)
        ranks = [host_rank(one.tolist(), 50, rank) for rank, one in enumerate(columns)]
        assert "MEMORY_CREEP" not in memory_findings(*ranks)

    def test_few_readings_are_not_judged(self) -> None:
        analysis = analyse(
            make_run(
                host_rank([100 * MB * step if step % 10 == 0 else None for step in range(200)])
            )
        )
        assert {one.family for one in analysis.findings} == {"step_time"}
        assert "fewer than 24 readings" in analysis.families["memory"].reason


class TestReserve:
    def test_fragments_while_the_allocator_retries(self) -> None:
        rank = gpu_rank(20 * GB, 28 * GB, events=[retry(600_000_000, 2)])
        assert set(memory_findings(rank)) == {"FRAGMENTATION"}

    def test_an_overhang_without_need_is_no_fragmentation(self) -> None:
        found = memory_findings(gpu_rank(20 * GB, 32 * GB))
        assert {kind: one.severity for kind, one in found.items()} == {"RESERVED_OVERHANG": "info"}

    def test_a_large_overhang_is_a_warning(self) -> None:
        found = memory_findings(gpu_rank(20 * GB, 45 * GB))
        assert found["RESERVED_OVERHANG"].severity == "warning"

    @pytest.mark.parametrize("reserved", [20, 29])
    def test_a_reserve_under_the_limit_is_nothing(self, reserved: int) -> None:
        assert memory_findings(gpu_rank(20 * GB, reserved * GB)) == {}


class TestRetries:
    def test_retries_are_counted_and_cost_what_was_measured(self) -> None:
        events = [retry(300_000_000 + k * 100_000_000, 1, 20_000_000) for k in range(5)]
        found = memory_findings(gpu_rank(20 * GB, 21 * GB, events=events))["ALLOCATOR_RETRIES"]
        assert found.evidence["retries_count"] == 5
        assert found.cost_s == pytest.approx(0.1)

    def test_unmeasured_lengths_cost_nothing_and_say_so(self) -> None:
        found = memory_findings(gpu_rank(20 * GB, 21 * GB, events=[retry(600_000_000, 7)]))
        assert found["ALLOCATOR_RETRIES"].cost_s == 0.0
        assert "was not measured" in found["ALLOCATOR_RETRIES"].why

    def test_retries_before_the_steady_steps_do_not_count(self) -> None:
        assert memory_findings(gpu_rank(20 * GB, 21 * GB, events=[retry(-1, 9)])) == {}

    def test_two_are_not_many(self) -> None:
        assert memory_findings(gpu_rank(20 * GB, 21 * GB, events=[retry(600_000_000, 2)])) == {}


def test_an_innocent_run_has_no_finding_and_a_clean_family() -> None:
    ranks = [
        make_rank(
            rank=rank,
            setup=GPU,
            memory={
                "peak_allocated_bytes": 50 * GB,
                "peak_reserved_bytes": 55 * GB,
                "rss_bytes": 4 * GB,
            },
            process=process_readings(),
            system=system_readings() if rank == 0 else (),
            devices=device_readings(memory_used_bytes=56 * GB),
        )
        for rank in range(2)
    ]
    analysis = analyse(make_run(*ranks))
    assert analysis.families["memory"].state == "clean"
    assert [one.kind for one in analysis.findings if one.family == "memory"] == []
