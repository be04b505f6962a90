"""Training threads that wait for a core: who took it, what it costs, what to change; from runs made by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.labs.machine import EVERY_NS, process_readings, system_readings
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


class TestOversubscribed:
    """The figures are those of real runs on two cores, named in the limits of the family."""

    def test_a_neighbour_is_told_apart_from_own_threads(self) -> None:
        one = found(waiting(0.32))["CPU_OVERSUBSCRIBED"]
        assert one.evidence["caused_by"] == "others"
        assert one.evidence["other_cores"] == pytest.approx(0.7)
        assert one.action.startswith("End the other processes")
        assert "OMP_NUM_THREADS=1 (now 2)" in one.action

    def test_too_many_own_threads(self) -> None:
        one = found(waiting(0.45, threads=8, own=1.7, node_cores=1.75))["CPU_OVERSUBSCRIBED"]
        assert one.evidence["caused_by"] == "own"
        assert one.action == "Set OMP_NUM_THREADS=2 (now 8)."
        # They did its work meanwhile: 2 threads on one core took 3.4 ms a step and one thread 2.9.
        assert (one.severity, one.gain) == ("warning", None)
        assert "only a try can tell" in one.why

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

    def test_others_on_cores_that_this_run_may_not_use_took_none_of_its_own(self) -> None:
        # `taskset` to one of two cores, both busy: the other process has the other core.
        one = found(waiting(0.32, cores=1.0, own=1.0, node_cores=2.0))["CPU_OVERSUBSCRIBED"]
        assert one.evidence["caused_by"] == "own"
        assert one.why.startswith("On rank 0")
        assert "2 threads on 1 core." in one.why
        shared = found(waiting(0.5, threads=1, cores=1.0, own=0.5, node_cores=2.0))
        assert shared["CPU_OVERSUBSCRIBED"].evidence["caused_by"] == "others"

    def test_one_thread_is_not_too_many_for_half_a_core(self) -> None:
        rank = waiting(0.5, threads=1, cores=0.5, own=0.5, node_cores=2.0, throttled=0.5)
        one = found(rank)["CPU_OVERSUBSCRIBED"]
        assert one.evidence["caused_by"] == "quota"
        assert one.action == "Raise the CPU limit of the container."
        assert "(0.5 cores) was spent" in one.why
        assert "Other processes" not in one.why

    def test_workers_that_training_waits_for_are_not_to_be_fewer(self) -> None:
        # Measured on 2 cores: 13.6 ms a step with 2 workers, 17.4 ms with 1.
        hungry = waiting(0.32, threads=1, workers=2, own=0.9, node_cores=1.6)
        fed = found(hungry)["CPU_OVERSUBSCRIBED"]
        assert fed.action == "Set num_workers=1 (now 2)."
        starved = make_rank(
            20, ms={**SLOW_STEP, "input_wait": 40.0}, setup=hungry.setup, process=hungry.process, system=hungry.system
        )  # fmt: skip
        one = found(starved)["CPU_OVERSUBSCRIBED"]
        assert "num_workers" not in one.action
        assert "make samples cheaper" in one.action
        assert one.evidence["suggested_workers_count"] is None

    def test_what_the_kernel_counted_is_sure_however_few_the_readings(self) -> None:
        rank = waiting(0.5)
        few = replace(rank, process=rank.process[::2][:8])
        assert found(few)["CPU_OVERSUBSCRIBED"].confidence > 0.9

    def test_slow_steps_that_wait_for_a_core_are_named_once(self) -> None:
        # A quota holds the run back now and then.
        slow = [230.0 if step in (5, 22, 31, 44, 60, 71, 85, 93) else 10.0 for step in range(100)]
        ms: dict[str, float | list[float]] = {**SLOW_STEP, "forward": slow}
        calm = make_rank(100, ms=ms, process=process_readings(100), setup=waiting(0.0).setup)
        held = make_rank(
            100, ms=ms, process=process_readings(100, run_queue_ns=EVERY_NS // 2, allowed_cores=0.5, throttled_ns=EVERY_NS // 2),
            setup=calm.setup,
        )  # fmt: skip
        alone = {one.kind: one for one in analyse(make_run(calm)).findings}
        assert alone["JITTER"].severity != "info"
        analysis = analyse(make_run(held))
        both = {one.kind: one for one in analysis.findings}
        assert both["JITTER"].severity == "info"
        assert "CPU_OVERSUBSCRIBED names those seconds" in both["JITTER"].why
        assert both["JITTER"].cost_s < 0.5 * alone["JITTER"].cost_s
        assert analysis.verdict.kind == "CPU_OVERSUBSCRIBED"

    @pytest.mark.parametrize("waits", [True, False])
    def test_steps_that_get_slower_with_the_wait_for_a_core_say_so(self, waits: bool) -> None:
        # A neighbour comes at step 100: steps take 20 ms longer, which is a wait.
        forward = [10.0] * 100 + [30.0] * 100
        ms: dict[str, float | list[float]] = {**SLOW_STEP, "forward": forward}
        begins = make_rank(100, ms=ms).totals.wall_ns // EVERY_NS
        count = make_rank(200, ms=ms).totals.wall_ns // EVERY_NS
        queue = [EVERY_NS // 2 if waits and place >= begins else 0 for place in range(count)]
        rank = make_rank(200, ms=ms, process=process_readings(count, run_queue_ns=queue))
        run = {one.kind: one for one in analyse(make_run(rank)).findings}
        assert ("waited for a CPU core" in run["DRIFT"].why) is waits
        assert ("CPU cores from step" in run["DRIFT"].action) is waits

    def test_its_cost_is_the_time_without_a_core(self) -> None:
        rank = waiting(0.32, threads=1)
        one = found(rank)["CPU_OVERSUBSCRIBED"]
        # The readings cover a part of the span, so their share is scaled to all of it.
        assert one.cost_s == pytest.approx(0.32 * rank.totals.wall_ns / 1e9)
        assert one.cost_basis == "window"
        assert one.gain is not None
        assert one.gain.low == 1.0

    def test_threads_that_spin_for_a_partner_leave_the_gain_without_bounds(self) -> None:
        # Measured with 2 threads beside 2 busy processes: 53 % of the time without a core, steps 33 times as long.
        several = found(waiting(0.53, threads=2))["CPU_OVERSUBSCRIBED"]
        assert several.gain is not None
        assert several.gain.low is several.gain.high is None
        assert "The loss may be larger" in several.why
        single = found(waiting(0.53, threads=1))["CPU_OVERSUBSCRIBED"]
        assert single.gain is not None
        assert single.gain.low == 1.0
        assert "larger" not in single.why

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
        first, second, *later = rank.process  # the first one begins before the first step
        inside = replace(second, run_queue_ns=50 * EVERY_NS)
        assert "CPU_OVERSUBSCRIBED" in found(replace(rank, process=[first, inside, *later]))

    def test_readings_of_the_warm_up_do_not_count(self) -> None:
        first = make_rank(
            60,
            ms={**SLOW_STEP, "forward": [400.0] * 5 + [40.0] * 55},
            process=process_readings(
                60, run_queue_ns=[EVERY_NS // 2] * 40 + [0] * 20, allowed_cores=2.0
            ),
        )
        assert "CPU_OVERSUBSCRIBED" not in found(first)
