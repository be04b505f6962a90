"""Findings about the nodes and their GPUs, from runs made by hand."""

from typing import Any

import numpy as np
import pytest

from tests.labs.machine import EVERY_NS, GB, device_readings, process_readings, system_readings
from tests.labs.runs import CPU_STEP, Value, make_rank, make_run
from traintrace.facts import RankFacts, Setup
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding

GPU = Setup(device_kind="cuda", cpu_count=8, omp_threads=1)


def found(*ranks: RankFacts) -> dict[str, Finding]:
    families = ("system", "process")
    return {one.kind: one for one in analyse(make_run(*ranks)).findings if one.family in families}


def gpu(steps: int = 100, ms: dict[str, Value] | None = None, **changes: Any) -> RankFacts:
    """Make a rank on a GPU whose driver reads `changes`."""
    return make_rank(steps, setup=GPU, ms=ms or CPU_STEP, devices=device_readings(**changes))


class TestUtilization:
    @pytest.mark.parametrize(("used", "severity"), [(0.55, None), (0.45, "warning")])
    def test_idle_gpus_without_another_cause(self, used: float, severity: str | None) -> None:
        one = found(gpu(utilisation=used)).get("LOW_GPU_UTILIZATION")
        assert (one and one.severity) == severity

    def test_a_wait_for_data_explains_it(self) -> None:
        one = found(gpu(ms={**CPU_STEP, "input_wait": 20.0}, utilisation=0.3))[
            "LOW_GPU_UTILIZATION"
        ]
        assert one.severity == "info"
        assert "input wait" in one.action

    def test_unknown_utilisation_is_not_measured(self) -> None:
        assert "LOW_GPU_UTILIZATION" not in found(gpu(utilisation=None))


class TestTemperature:
    @pytest.mark.parametrize(
        ("degrees", "severity"), [(84.0, None), (86.0, "warning"), (90.0, "critical")]
    )
    def test_it_is_judged_by_the_slowdown_point(self, degrees: float, severity: str | None) -> None:
        one = found(gpu(temperature_c=degrees)).get("GPU_TEMPERATURE")
        assert (one and one.severity) == severity

    def test_one_hot_moment_is_none(self) -> None:
        assert found(gpu(temperature_c=[60.0] * 23 + [91.0])) == {}

    def test_without_a_slowdown_point_nothing_is_claimed(self) -> None:
        assert "GPU_TEMPERATURE" not in found(gpu(temperature_c=99.0, slowdown_temperature_c=None))


class TestThrottled:
    def test_heat_is_a_warning_without_a_cost_if_it_never_ends(self) -> None:
        one = found(gpu(throttle_reasons="hw_thermal_slowdown", sm_clock_mhz=1200.0))[
            "GPU_THROTTLED"
        ]
        assert (one.severity, one.cost_s) == ("warning", 0.0)
        assert "cooling" in one.action

    def test_its_cost_is_the_excess_of_the_steps_meanwhile(self) -> None:
        # 100 steps of 11.8 ms; from 0.6 s on the clock is down and steps take 1.5 times as long.
        forward = [4.0] * 50 + [10.0] * 50
        words = [""] * 12 + ["sw_thermal_slowdown"] * 20
        clocks = [1980.0] * 12 + [1300.0] * 20
        rank = make_rank(
            setup=GPU,
            ms={**CPU_STEP, "forward": forward},
            jitter=0.01,
            devices=device_readings(32, throttle_reasons=words, sm_clock_mhz=clocks),
        )
        one = found(rank)["GPU_THROTTLED"]
        assert one.cost_s == pytest.approx(0.3, rel=0.1)
        assert one.evidence["step_time_ratio"] == pytest.approx(17.8 / 11.8, rel=0.05)

    @pytest.mark.parametrize(
        ("words", "clock"),
        [
            ("gpu_idle", 300.0),
            ("applications_clocks_setting", 1400.0),
            ("hw_slowdown", 1970.0),
            ("", 1000.0),
        ],
    )
    def test_what_is_no_throttling(self, words: str, clock: float) -> None:
        assert found(gpu(throttle_reasons=words, sm_clock_mhz=clock)) == {}

    def test_the_power_limit_at_full_load_is_an_observation(self) -> None:
        one = found(gpu(throttle_reasons="sw_power_cap", sm_clock_mhz=1600.0))["GPU_THROTTLED"]
        assert one.severity == "info"

    def test_a_few_readings_are_no_share(self) -> None:
        words = [""] * 22 + ["hw_slowdown"] * 2
        assert found(gpu(throttle_reasons=words, sm_clock_mhz=1000.0)) == {}


class TestPower:
    @pytest.mark.parametrize(("watts", "fires"), [(660.0, False), (670.0, True)])
    def test_the_limit_is_an_observation(self, watts: float, fires: bool) -> None:
        one = found(gpu(power_w=watts)).get("HIGH_GPU_POWER")
        assert (one is not None) is fires
        assert one is None or one.severity == "info"


class TestRam:
    @pytest.mark.parametrize(
        ("used", "severity"), [(28.7, None), (28.9, "warning"), (31.5, "critical")]
    )
    def test_a_full_node(self, used: float, severity: str | None) -> None:
        one = found(make_rank(system=system_readings(ram_used_bytes=int(used * GB)))).get(
            "HIGH_RAM"
        )
        assert (one and one.severity) == severity

    def test_how_much_is_this_runs_is_said(self) -> None:
        rank = make_rank(
            process=process_readings(), system=system_readings(ram_used_bytes=int(29.5 * GB))
        )
        assert "2.00 GB of it at most is this run's" in found(rank)["HIGH_RAM"].why


def test_nothing_was_read_says_so() -> None:
    families = analyse(make_run(make_rank())).families
    assert families["system"].state == "not_measured"
    assert "readings of a GPU (no accelerator)" in families["system"].reason
    assert families["process"].state == "not_measured"


def test_an_innocent_run_is_clean() -> None:
    noise = np.random.default_rng(3).uniform(0.0, 0.05, size=24)
    rank = make_rank(
        setup=GPU,
        process=process_readings(run_queue_ns=[round(one * EVERY_NS) for one in noise]),
        system=system_readings(),
        devices=device_readings(),
    )
    analysis = analyse(make_run(rank))
    assert analysis.families["system"].state == "clean"
    assert analysis.families["process"].state == "clean"
