"""What is said to a run that waits for data: true of its steps, and advice that would work."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from traintrace.facts import EPOCH_FIRST, LOOKAHEAD, LoaderSetup, RankFacts, RunFacts, Setup
from traintrace.readings import ProcessReading, SystemReading
from traintrace_analysis import analyse
from traintrace_analysis.findings import Finding
from traintrace_analysis.rules.advice.bursts import buffer_to_hide

NewRank = Callable[..., RankFacts]
NewRun = Callable[..., RunFacts]
Build = Callable[..., Finding]
TICK_NS = 200_000_000


def process_readings(rank: RankFacts, **values: float | None) -> list[ProcessReading]:
    """Give readings of equal content over the whole of a rank's span."""
    start, ticks = rank.totals.start_ns, rank.totals.wall_ns // TICK_NS
    shares = {k: round(v * TICK_NS) for k in ("on_cpu_ns", "run_queue_ns") if (v := values.pop(k, None)) is not None}  # fmt: skip
    made = ProcessReading(at_ns=0, interval_ns=TICK_NS, **{**values, **shares})  # type: ignore[arg-type]
    return [replace(made, at_ns=start + (k + 1) * TICK_NS) for k in range(ticks)]


def system_readings(rank: RankFacts, **values: float) -> list[SystemReading]:
    """Give readings of the node, of equal content."""
    start, ticks = rank.totals.start_ns, rank.totals.wall_ns // TICK_NS
    made = SystemReading(at_ns=0, interval_ns=TICK_NS, **values)  # type: ignore[arg-type]
    return [replace(made, at_ns=start + (k + 1) * TICK_NS) for k in range(ticks)]


@pytest.fixture
def input_bound(new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float]) -> Build:
    def build(
        waits: float | Sequence[float],
        *,
        workers: int | None = 0,
        cores: int = 8,
        batch_bytes: int | None = None,
        process: dict[str, float] | None = None,
        system: dict[str, float] | None = None,
        reads_for_all: bool | None = None,
        **more: object,
    ) -> Finding:
        count = 100 if isinstance(waits, float) else len(waits)
        loader = LoaderSetup(
            workers=workers,
            prefetch_factor=2 if workers else None,
            reads_for_all=reads_for_all,
        )
        setup = Setup(device_kind="cpu", cpu_count=cores, loader=loader, batch_bytes=batch_bytes)
        rank = new_rank(count, setup=setup, ms={**cpu_step, "input_wait": waits}, **more)
        if process is not None:
            rank = replace(rank, process=process_readings(rank, **process))
        if system is not None:
            rank = replace(rank, system=system_readings(rank, **system))
        findings = analyse(new_run(rank)).findings
        return next(finding for finding in findings if finding.kind == "INPUT_BOUND")

    return build


def test_an_even_wait_is_told_as_an_average(input_bound: Build) -> None:
    why = input_bound(9.0).why
    assert why.startswith("Steps wait 8.99 ms of 20.3 ms for their batches, on average")
    assert "bursts" not in why


def test_a_rank_that_reads_for_all_is_told_to_let_each_read_its_own(input_bound: Build) -> None:
    """ACC#2162: one reader cannot keep up with many ranks, whatever its workers."""
    usual, dispatching = input_bound(9.0), input_bound(9.0, reads_for_all=True)
    assert "dispatch_batches" not in usual.action
    assert "Rank 0 reads the batches of all ranks" in dispatching.why
    assert dispatching.action == (
        "Set dispatch_batches=False, so that each rank reads its own batches. Or: " + usual.action
    )


def test_bursts_are_told_with_median_and_tail(input_bound: Build) -> None:
    finding = input_bound([60.0 if k % 10 == 9 else 0.5 for k in range(200)])
    assert "of step time" in finding.headline
    assert "each step" not in finding.headline + finding.why
    assert "half of the steps lose under 50" in finding.why
    assert "one in twenty loses 6" in finding.why


def test_a_wide_interval_is_no_critical_finding(input_bound: Build) -> None:
    rare = [400.0 if k in (50, 120, 150) else 0.5 for k in range(200)]
    unsure, sure = input_bound(rare), input_bound(9.0)
    assert unsure.severity != "critical"
    assert sure.severity == "critical"


def test_bursts_get_a_buffer_or_cheaper_samples_and_not_one_worker(input_bound: Build) -> None:
    action = input_bound([60.0 if k % 10 == 9 else 0.5 for k in range(200)]).action
    assert "A few batches are slow" in action
    assert "prefetch_factor=6" in action  # 60 ms at 11.3 ms of work a step


@pytest.mark.parametrize("workers", [3, 4])
def test_workers_that_deliver_together_are_too_few_and_their_samples_not_odd(
    input_bound: Build, workers: int
) -> None:
    """Too few equal workers make one step wait, and as many as there are of them do not."""
    waits = [15.0 * workers if k % workers == 0 else 0.4 for k in range(240)]
    finding = input_bound(waits, workers=workers, cores=64)
    assert "A few batches are slow" not in finding.action
    assert f"Raise num_workers from {workers} to " in finding.action


def test_waits_that_no_buffer_hides_are_not_promised_to_go(input_bound: Build) -> None:
    action = input_bound([1500.0 if k % 40 == 20 else 0.5 for k in range(400)]).action
    assert "No reasonable number" in action
    assert "num_workers" not in action


@pytest.mark.parametrize(
    ("workers", "prefetch", "burst_ms", "work_ms", "expected"),
    [(0, 2, 60.0, 10.0, 6), (2, 2, 60.0, 10.0, 10), (0, 2, 60.0, 0.0, None)],
)
def test_a_slow_batch_is_hidden_by_batches_made_ahead(
    workers: int, prefetch: int, burst_ms: float, work_ms: float, expected: int | None
) -> None:
    assert buffer_to_hide(workers, prefetch, burst_ms, work_ms) == expected


@pytest.mark.parametrize("ahead", [True, False])
def test_a_loader_that_reads_ahead_shifts_a_slow_batch_to_the_step_before(
    input_bound: Build, ahead: bool
) -> None:
    flags = {step: LOOKAHEAD if ahead else 0 for step in range(1, 201)}
    finding = input_bound([60.0 if k % 10 == 9 else 0.5 for k in range(200)], flags=flags)
    assert ("fetches one batch ahead" in finding.why) is ahead


@pytest.mark.parametrize("workers", [0, 2])
def test_cores_limit_only_samples_that_keep_a_cpu_busy(input_bound: Build, workers: int) -> None:
    finding = input_bound(30.0, workers=workers, cores=2)
    assert "If samples keep a CPU busy, the 2 cores cannot hide it" in finding.action
    assert "If they wait for a disk or a network" in finding.action
    assert finding.evidence["limited_by"] == "unknown"
    assert finding.gain is not None
    assert finding.gain.low == 1.0


@pytest.mark.parametrize(
    ("cpu", "limited_by"), [(0.1, "storage"), (0.45, "storage"), (0.55, "cpu"), (1.0, "cpu")]
)
def test_the_cpu_of_workers_tells_computing_from_waiting(
    input_bound: Build, cpu: float, limited_by: str
) -> None:
    process = {"cpu_cores": 0.9, "workers_cpu_cores": 2 * cpu, "allowed_cores": 16.0}
    finding = input_bound(30.0, workers=2, cores=16, process=process)
    assert finding.evidence["limited_by"] == limited_by
    # Two workers need 2 x 41.3 ms for a batch; 11.3 ms are there; a tenth more than that.
    assert "Raise num_workers from 2 to 9." in finding.action
    assert finding.gain is not None
    assert finding.gain.low is not None
    assert 1.0 < finding.gain.low < finding.gain.speedup


def test_workers_that_wait_may_be_more_than_the_cores_and_storage_is_told(
    input_bound: Build,
) -> None:
    process = {"cpu_cores": 0.5, "workers_cpu_cores": 0.1, "allowed_cores": 2.0}
    system = {
        "cpu_cores": 0.6,
        "cpu_count": 2,
        "disk_read_bytes": 40e6,
        "network_received_bytes": 10,
    }
    finding = input_bound(30.0, workers=2, cores=2, process=process, system=system)
    assert "to 9. That is more than the 2 cores" in finding.action
    assert "The node reads 200 MB/s from disk." in finding.why
    assert "If the storage gives no more" in finding.action
    assert finding.evidence["disk_read_bytes_per_s"] == pytest.approx(200e6)


def test_samples_that_compute_are_promised_no_more_than_the_cores_give(input_bound: Build) -> None:
    process = {"cpu_cores": 0.3, "workers_cpu_cores": 1.0, "allowed_cores": 2.0}
    finding = input_bound(30.0, workers=1, cores=2, process=process)
    assert "Raise num_workers from 1 to 2." in finding.action
    assert "cannot hide it all" in finding.action
    # A step has 41.3 ms in a worker and 12.4 ms in training: 26.8 ms on two cores.
    assert finding.gain is not None
    assert finding.gain.speedup <= 41.3 / 26.8
    assert finding.gain.speedup == pytest.approx(41.3 / 26.8, rel=0.05)


@pytest.mark.parametrize(
    ("workers_cpu", "run_queue", "node", "used"),
    [
        (1.7, 0.0, 1.9, True),
        (1.3, 0.0, 1.7, False),
        (0.4, 0.8, 1.95, True),
        (0.1, 0.8, 1.95, False),
    ],
)
def test_where_all_cores_are_busy_more_workers_are_no_advice(
    input_bound: Build, workers_cpu: float, run_queue: float, node: float, used: bool
) -> None:
    """Also where others keep them busy, unless this run's workers hardly ask for one."""
    process = {
        "cpu_cores": 0.2, "on_cpu_ns": 0.2, "run_queue_ns": run_queue,
        "workers_cpu_cores": workers_cpu, "allowed_cores": 2.0,
    }  # fmt: skip
    system = {"cpu_cores": node, "cpu_count": 2}
    finding = input_bound(30.0, workers=2, cores=2, process=process, system=system)
    assert (finding.evidence["limited_by"] == "cores") is used
    assert ("All cores are busy" in finding.why) is used
    assert ("other processes use the rest" in finding.why) is (used and run_queue > 0.0)
    if used:
        assert "num_workers" not in finding.action


def test_others_on_the_cores_do_not_forbid_workers_that_wait(input_bound: Build) -> None:
    process = {
        "cpu_cores": 0.1, "on_cpu_ns": 0.1, "run_queue_ns": 0.1,
        "workers_cpu_cores": 0.1, "allowed_cores": 2.0,
    }  # fmt: skip
    system = {"cpu_cores": 2.0, "cpu_count": 2}
    finding = input_bound(30.0, workers=2, cores=2, process=process, system=system)
    assert finding.evidence["limited_by"] == "storage"
    assert finding.evidence["wait_left_ms"] == 0.0
    assert finding.gain is not None
    assert finding.gain.speedup == pytest.approx(41.3 / 12.3, rel=0.02)


@pytest.mark.parametrize("workers_cpu", [0.4, 0.05])
def test_the_hand_over_is_seen_on_a_crowded_machine_too(
    input_bound: Build, workers_cpu: float
) -> None:
    """Copying 20 MB takes 15 ms of CPU: most of the 16 that a worker gets in a batch's 160."""
    process = {
        "cpu_cores": 0.1, "on_cpu_ns": 0.1, "run_queue_ns": 0.4,
        "workers_cpu_cores": workers_cpu, "allowed_cores": 2.0,
    }  # fmt: skip
    finding = input_bound(30.0, workers=2, batch_bytes=20 * 10**6, process=process)
    expected = "handover" if workers_cpu == 0.4 else "storage"
    assert finding.evidence["limited_by"] == expected


@pytest.mark.parametrize(
    ("on_cpu", "run_queue", "limited_by"),
    [(0.1, 0.0, "storage"), (0.95, 0.0, "cpu"), (0.4, 0.55, "cpu"), (0.5, 0.0, "unknown")],
)
def test_without_workers_the_cpu_of_the_training_thread_tells(
    input_bound: Build, on_cpu: float, run_queue: float, limited_by: str
) -> None:
    """A thread that is ready and has no core is computing; half of the time may be the model's."""
    process = {
        "cpu_cores": on_cpu, "allowed_cores": 16.0, "on_cpu_ns": on_cpu, "run_queue_ns": run_queue,
    }  # fmt: skip
    finding = input_bound(15.0, cores=16, process=process)
    assert finding.evidence["limited_by"] == limited_by


@pytest.mark.parametrize(
    ("mb", "wait_ms", "handover"),
    [(80, 30.0, True), (10, 2.5, True), (5, 2.5, False), (None, 2.5, False), (None, 30.0, False)],
)
def test_large_batches_of_a_fast_loader_are_limited_by_their_hand_over(
    input_bound: Build, mb: int | None, wait_ms: float, handover: bool
) -> None:
    """Two workers need 83 ms for 80 MB, one needs 13.8 ms for 10 MB: 58 and 7.8 of it are copying."""
    bytes_ = None if mb is None else mb * 10**6
    finding = input_bound(wait_ms, workers=1 if mb in (5, 10) else 2, batch_bytes=bytes_)
    assert (finding.evidence["limited_by"] == "handover") is handover
    if mb == 80:
        assert "Handing batches over limits, not the dataset" in finding.why
        assert "Batches of 80.0 MB pass at 1.9" in finding.why
        assert "num_workers=0" in finding.action
        assert "Raise" not in finding.action


@pytest.mark.parametrize("mb", [10, 60])
def test_decoding_that_takes_longer_than_the_hand_over_is_not_blamed_on_it(
    input_bound: Build, mb: int
) -> None:
    finding = input_bound(100.0, workers=2, batch_bytes=mb * 10**6)
    assert finding.evidence["limited_by"] == "unknown"
    assert "Handing" not in finding.why


def test_accumulated_batches_are_made_one_by_one(new_rank: NewRank, new_run: NewRun) -> None:
    setup = Setup(device_kind="cpu", cpu_count=64, loader=LoaderSetup(workers=0), accumulation=4)
    rank = new_rank(ms={"input_wait": 40.0, "forward": 4.0, "backward": 6.0}, setup=setup, jitter=0)
    rank = replace(rank, totals=replace(rank.totals, micro_batches=4 * rank.totals.steps))
    finding = next(f for f in analyse(new_run(rank)).findings if f.kind == "INPUT_BOUND")
    assert finding.evidence["batches_per_step"] == 4
    assert finding.evidence["batch_make_ms"] == pytest.approx(10.0)
    assert "num_workers=5" in finding.action  # 4 x (10 + 0.7) ms x 1.1 in 10 ms


def test_time_between_steps_is_time_for_workers_too(input_bound: Build) -> None:
    evenly = {step: {"logging": 10.0} for step in range(1, 101)}
    rarely = {50: {"evaluation": 1000.0}}
    assert "from 2 to 9." in input_bound(30.0, workers=2, cores=64).action
    assert "from 2 to 6." in input_bound(30.0, workers=2, cores=64, before_ms=evenly).action
    assert "from 2 to 9." in input_bound(30.0, workers=2, cores=64, before_ms=rarely).action


def test_the_configuration_of_the_loader_is_evidence(input_bound: Build) -> None:
    evidence = input_bound(9.0, workers=2, batch_bytes=1000).evidence
    assert evidence["loader_workers_count"] == 2
    assert evidence["loader_prefetch_factor"] == 2
    assert evidence["batch_bytes"] == 1000
    assert evidence["loader_pin_memory"] is None
    assert evidence["cores_allowed"] == 8


def test_batches_from_no_loader_get_no_number_of_workers(input_bound: Build) -> None:
    finding = input_bound(9.0, workers=None)
    assert "do not come from a torch DataLoader" in finding.action
    assert finding.evidence["workers_needed_count"] is None


@pytest.mark.parametrize("ranks", [1, 4])
def test_ranks_of_one_node_share_its_cores(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float], ranks: int
) -> None:
    setup = Setup(device_kind="cpu", cpu_count=16, loader=LoaderSetup(workers=2))
    ms = {**cpu_step, "input_wait": 20.0}
    run = new_run(*(new_rank(rank=rank, setup=setup, ms=ms) for rank in range(ranks)))
    finding = next(f for f in analyse(run).findings if f.kind == "INPUT_BOUND")
    assert finding.evidence["cores_allowed"] == 16 / ranks
    assert finding.action.startswith("Raise num_workers" if ranks == 1 else "The 2 workers")


@pytest.mark.parametrize(("fetch_ms", "told"), [(9.3, False), (90.0, True)])
def test_first_fetches_are_mentioned_where_they_matter(
    new_rank: NewRank, new_run: NewRun, cpu_step: dict[str, float], fetch_ms: float, told: bool
) -> None:
    waits = [fetch_ms if k % 10 == 0 else 9.0 for k in range(100)]
    flags = {step: EPOCH_FIRST for step in range(1, 101, 10)}
    rank = new_rank(flags=flags, ms={**cpu_step, "input_wait": waits}, epochs=10)
    finding = next(f for f in analyse(new_run(rank)).findings if f.kind == "INPUT_BOUND")
    assert ("first fetches of 10 epochs" in finding.why) == told
