"""The numbers of nodes, devices, processes and memory, as reports and trackers see them."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.labs.machine import (
    EVERY_NS,
    GB,
    device_readings,
    process_readings,
    system_readings,
)
from tests.labs.runs import START_NS, make_rank, make_run
from traintrace.facts import Event, LoaderSetup, Setup
from traintrace.readings import DeviceReading, ProcessReading, SystemReading
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.registry import KINDS

GPU = Setup(device_kind="cuda", cpu_count=8, omp_threads=1)


def two_nodes() -> Analysis:
    """Analyse four ranks on two nodes, of which rank 3 stands out in everything."""
    return analyse(
        make_run(
            *(
                make_rank(
                    rank=rank,
                    node=rank // 2,
                    setup=GPU,
                    memory={"rss_bytes": (3 + rank) * GB, "peak_allocated_bytes": 10 * GB},
                    system=system_readings(ram_used_bytes=(8 + rank) * GB) if rank % 2 == 0 else (),
                    process=process_readings(
                        rss_bytes=(1 + rank) * GB,
                        workers=2,
                        workers_rss_bytes=GB,
                        cpu_cores=1.0 + rank / 10,
                        run_queue_ns=EVERY_NS * (1 + rank) // 100,
                    ),
                    devices=device_readings(
                        utilisation=0.9 - rank / 10,
                        temperature_c=60.0 + rank,
                        throttle_reasons="sw_power_cap,gpu_idle",
                    ),
                )
                for rank in range(4)
            )
        )
    )


def test_a_node_stands_once_and_is_named_by_the_rank_that_read_it() -> None:
    system = two_nodes().system
    assert system is not None
    assert [(one.node, one.rank) for one in system.nodes] == [(0, 0), (1, 2)]
    assert system.nodes[0].disk_read_bytes_per_s == pytest.approx(5e6 / 0.05)
    assert system.ram_used_worst is not None
    assert (system.ram_used_worst.rank, system.ram_used_worst.value) == (2, 10 / 32)


def test_the_worst_value_and_its_rank_are_of_the_same_rank() -> None:
    analysis = two_nodes()
    system, process, memory = analysis.system, analysis.process, analysis.memory
    assert system is not None
    assert process is not None
    assert memory is not None
    assert system.utilisation_worst is not None
    assert system.temperature_worst_c is not None
    assert (system.utilisation_worst.rank, system.temperature_worst_c.rank) == (3, 3)
    assert system.temperature_worst_c.value == 63.0
    assert process.tree_rss_worst_bytes is not None
    assert (process.tree_rss_worst_bytes.rank, process.tree_rss_worst_bytes.value) == (3, 5 * GB)
    assert process.run_queue_worst is not None
    assert process.run_queue_worst.value == pytest.approx(0.04)
    assert (memory.rss_max_rank, memory.rss_max_bytes) == (3, 6 * GB)
    assert memory.rss_by_rank == {0: 3 * GB, 1: 4 * GB, 2: 5 * GB, 3: 6 * GB}
    # Of equal values the lowest rank is named.
    assert memory.peak_allocated_max_rank == 0


def test_reasons_for_a_lower_clock_are_shares_and_leave_out_what_is_harmless() -> None:
    system = two_nodes().system
    assert system is not None
    assert system.devices[0].throttle_reason_shares == {"sw_power_cap": 1.0}


def test_t12_process_and_workers_are_told_apart() -> None:
    """wandb#10464: the chart shows the main process only, and each worker holds as much."""
    process = two_nodes().process
    assert process is not None
    one = process.by_rank[0]
    assert (one.rss_max_bytes, one.workers_rss_max_bytes) == (GB, GB)
    assert one.tree_rss_max_bytes == 2 * GB


def test_nothing_read_is_null_with_a_reason() -> None:
    analysis = analyse(make_run(make_rank()))
    assert (analysis.system, analysis.process, analysis.memory) == (None, None, None)
    assert analysis.coverage["section.process"].reason == "nothing was read of the process"
    assert analysis.coverage["section.system"].state == "not_measured"


def test_coverage_says_which_ranks_were_read() -> None:
    ranks = [make_rank(rank=rank, process=process_readings() if rank else ()) for rank in range(2)]
    coverage = analyse(make_run(*ranks)).coverage["section.process"]
    assert (coverage.state, coverage.ranks_measured) == ("partial", 1)


def test_a_run_that_ended_before_its_first_step_keeps_its_readings(
    without_steps: Callable[..., Any],
) -> None:
    rank = without_steps(
        make_rank(
            system=system_readings(ram_used_bytes=31 * GB),
            process=process_readings(rss_bytes=30 * GB),
        )
    )
    analysis = analyse(make_run(rank))
    assert analysis.process is not None
    kinds = {one.kind for one in analysis.findings}
    assert kinds == {"HIGH_RAM", "HIGH_RSS", "MEMORY_PRESSURE"}


AMOUNT = st.none() | st.just(0) | st.integers(0, 2**44)
SHARE = st.none() | st.floats(0.0, 1.5)
SIZE = st.none() | st.floats(0.0, 5_000.0)
WORDS = st.none() | st.sampled_from(["", "gpu_idle", "sw_power_cap", "hw_slowdown,reason_0x400"])


def _readings(kind: type, **values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Make lists of readings in time order, each attribute there or not."""
    default = {one.name: AMOUNT for one in fields(kind) if one.name != "at_ns"} | values

    def place(made: list[dict[str, Any]]) -> list[Any]:
        return [kind(at_ns=START_NS + index * EVERY_NS, **one) for index, one in enumerate(made)]

    return st.lists(st.fixed_dictionaries(default), max_size=30).map(place)


SYSTEM = _readings(
    SystemReading, cpu_cores=SIZE, load_1min=SIZE, cpu_count=st.none() | st.integers(1, 256)
)
PROCESS = _readings(
    ProcessReading, cpu_cores=SIZE, workers_cpu_cores=SIZE, allowed_cores=SIZE, workers=st.none() | st.integers(0, 64)
)  # fmt: skip
DEVICES = _readings(
    DeviceReading, device=st.integers(0, 1), utilisation=SHARE, power_w=SIZE, power_limit_w=SIZE,
    temperature_c=SIZE, slowdown_temperature_c=SIZE, sm_clock_mhz=SIZE, sm_clock_max_mhz=SIZE, throttle_reasons=WORDS,
)  # fmt: skip
COLUMN = st.none() | st.lists(AMOUNT, min_size=60, max_size=60)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_read_and_whatever_is_missing_no_rule_fails(data: st.DataObject) -> None:
    ranks = []
    for rank in range(data.draw(st.integers(1, 3))):
        columns = {
            name: values
            for name in ("rss_bytes", "peak_allocated_bytes", "peak_reserved_bytes")
            if (values := data.draw(COLUMN)) is not None
        }
        setup = Setup(
            device_kind=data.draw(st.sampled_from([None, "cpu", "cuda"])),
            cpu_count=data.draw(st.none() | st.integers(1, 64)),
            omp_threads=data.draw(st.none() | st.integers(1, 64)),
            loader=LoaderSetup(workers=data.draw(st.none() | st.integers(0, 16))),
        )
        ranks.append(
            make_rank(
                60,
                rank=rank,
                node=data.draw(st.integers(0, 1)),
                setup=setup,
                memory=columns,
                system=data.draw(SYSTEM),
                process=data.draw(PROCESS),
                devices=data.draw(DEVICES),
                events=[Event(START_NS + 400_000_000, "allocator_retry", 30, "many more")] * 4,
            )
        )
    analysis = analyse(make_run(*ranks))
    for finding in analysis.findings:
        assert finding.cost_s >= 0.0
        assert 0.0 <= finding.confidence <= 1.0
        assert finding.kind in KINDS[finding.family]
        assert set(finding.ranks) <= set(range(len(ranks)))
        for value in finding.evidence.values():
            assert value is None or isinstance(value, str) or np.isfinite(value)
        assert "nan" not in f"{finding.headline} {finding.why} {finding.action}".split()
