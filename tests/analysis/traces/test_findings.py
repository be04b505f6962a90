"""Findings about communication: from waits, from traces, from a pipeline; and when nothing is claimed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.labs.kineto import NCCL, KinetoFile, write_all
from tests.labs.lockstep import noise, own_work, run_of, synchronise
from tests.labs.runs import CPU_STEP, START_NS, make_rank, make_run
from traintrace.facts import RankFacts, Region, RunFacts, Setup
from traintrace.readings import ProcessReading
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding

COMMUNICATION = {"COMM_BOUND", "EXPOSED_COMM", "PIPELINE_BUBBLE"}


def found(analysis: Analysis) -> list[Finding]:
    return [one for one in analysis.findings if one.kind in COMMUNICATION]


def waiting(sync_ms: float, ranks: int = 2, **more: float) -> RunFacts:
    step = {**CPU_STEP, "gradient_sync": sync_ms, **more}
    return make_run(*(make_rank(rank=number, ms=step) for number in range(ranks)))


@pytest.mark.parametrize(
    ("sync_ms", "kind"), [(0.5, None), (2.5, "EXPOSED_COMM"), (12.0, "COMM_BOUND")]
)
def test_waits_that_all_ranks_share_are_communication(sync_ms: float, kind: str | None) -> None:
    analysis = analyse(waiting(sync_ms))
    assert [one.kind for one in found(analysis)] == ([kind] if kind else [])
    assert analysis.families["communication"].state == ("finding" if kind else "clean")
    if kind:
        (one,) = found(analysis)
        assert analysis.verdict.kind == kind
        assert one.cost_s == pytest.approx(100 * sync_ms / 1e3, rel=0.1)
        assert one.gain is not None
        assert one.gain.low == 1.0  # whether it can be hidden nobody knows


def test_collectives_are_named_by_one_finding_only() -> None:
    analysis = analyse(waiting(0.0, communication=8.0))
    kinds = [one.kind for one in analysis.findings if one.severity != "info"]
    assert kinds == ["COMM_BOUND"]


def test_waits_on_too_few_cores_are_not_called_communication() -> None:
    """Four ranks of a small model on two cores: what moves the data waits for a core as well."""

    def run(run_queue_share: float) -> RunFacts:
        step = {**CPU_STEP, "gradient_sync": 12.0}
        readings = [
            ProcessReading(
                at_ns=START_NS + number * 100_000_000,
                interval_ns=100_000_000,
                run_queue_ns=round(run_queue_share * 100_000_000),
                on_cpu_ns=20_000_000,  # it sleeps for most of a step
            )
            for number in range(1, 22)
        ]
        slow = make_rank(rank=1, ms=step, process=readings)
        return make_run(make_rank(rank=0, ms=step), slow)

    crowded, enough = analyse(run(0.08)), analyse(run(0.002))
    assert [one.kind for one in found(enough)] == ["COMM_BOUND"]
    assert "NCCL" not in found(enough)[0].action  # it is the host that sends
    assert found(crowded) == []
    assert "CPU cores" in crowded.families["communication"].reason
    assert crowded.verdict.kind == "CANNOT_TELL"
    assert "how much of it is communication cannot be told" in crowded.verdict.why
    assert "cores of its own" in crowded.verdict.action
    assert analyse(run(0.3)).verdict.kind == "CPU_OVERSUBSCRIBED"


def test_a_slow_rank_explains_the_waiting_of_the_others() -> None:
    own = own_work(4, 200, noise(np.random.default_rng(1), (4, 200)))
    own["forward"][2] *= 2.0
    analysis = analyse(run_of(synchronise(own, link_ms=1.0)))
    kinds = {one.kind for one in analysis.findings}
    assert any("STRAGGLER" in kind for kind in kinds)
    assert not kinds & COMMUNICATION


def test_a_rank_that_is_not_compared_may_be_the_late_one() -> None:
    run = waiting(5.0, ranks=3)
    lost = replace(run, ranks=run.ranks[:2])  # rank 2 left no record
    unmarked = replace(run, ranks=(*run.ranks[:2], make_rank(rank=2)))
    for one in (lost, unmarked):
        analysis = analyse(one)
        assert found(analysis) == []
        assert analysis.verdict.kind != "BALANCED"
        assert "may be late" in analysis.families["communication"].reason


@pytest.mark.parametrize("seed", range(10))
def test_even_ranks_with_a_fast_link_give_no_finding(seed: int) -> None:
    factors = noise(np.random.default_rng(seed), (8, 200), cv=0.2, ar=0.5, spikes=0.01)
    analysis = analyse(run_of(synchronise(own_work(8, 200, factors), link_ms=1.0)))
    assert found(analysis) == []


def test_on_an_accelerator_waits_of_the_host_tell_nothing() -> None:
    setup = Setup(device_kind="cuda", device_name="H100")
    device = {"forward": 4.0, "backward": 6.0, "optimizer": 1.0}
    step = {**CPU_STEP, "gradient_sync": 12.0}
    run = make_run(*(make_rank(rank=n, ms=step, device_ms=device, setup=setup) for n in range(2)))
    analysis = analyse(run)
    assert found(analysis) == []
    assert "profile_steps" in analysis.families["communication"].reason


def test_one_rank_alone_has_no_communication_to_examine() -> None:
    analysis = analyse(make_run(make_rank()))
    assert analysis.communication is None
    assert analysis.families["communication"].state == "not_measured"


# -- with traces -------------------------------------------------------------------------------------


def exposed(rank: int, share: float, late_us: float = 0.0) -> KinetoFile:
    """Ten steps of 1 ms: compute, then communication that is exposed; rank 1 may come late to it."""
    file = KinetoFile(rank)
    file.steps(*(1_000.0 * step for step in range(11)))
    for step in range(10):
        end = 1_000.0 * (step + 1)
        start = end - 1_000.0 * share
        come = start if rank else start - late_us
        file.kernel(end - 1_000.0, come)
        file.kernel(come, end, NCCL, stream=20)
    return file


def accelerated(ranks: int = 2) -> RunFacts:
    """A run of 100 steps of about 12 ms."""
    setup = Setup(device_kind="cuda", device_name="H100", strategy="ddp")
    return make_run(*(make_rank(rank=number, setup=setup) for number in range(ranks)))


def test_exposed_communication_of_traces_is_found_and_scaled_to_the_run(tmp_path: Path) -> None:
    traces = write_all(tmp_path, [exposed(rank, 0.25) for rank in range(2)])
    analysis = analyse(accelerated(), traces=traces)
    (one,) = found(analysis)
    assert (one.kind, one.severity) == ("EXPOSED_COMM", "critical")
    assert one.evidence["share"] == pytest.approx(0.25)
    assert one.evidence["exposed_ms"] == pytest.approx(0.25)
    assert one.cost_s == pytest.approx(0.25 * 100 * 0.0118, rel=0.05)
    assert one.evidence["late_rank_share"] == pytest.approx(0.0)


def test_waiting_for_a_late_rank_is_no_exposed_communication(tmp_path: Path) -> None:
    traces = write_all(tmp_path, [exposed(rank, 0.04, late_us=500.0) for rank in range(2)])
    analysis = analyse(accelerated(), traces=traces)
    assert found(analysis) == []
    assert analysis.communication is not None
    assert analysis.communication.traces is not None
    assert analysis.communication.traces.late_share == {0: 0.0, 1: 1.0}


def test_one_trace_of_several_ranks_cannot_tell_late_ranks_and_says_so(tmp_path: Path) -> None:
    (one,) = found(analyse(accelerated(), traces=write_all(tmp_path, [exposed(0, 0.25)])))
    assert "may be waiting for ranks that come late" in one.why
    assert one.confidence < 0.9


def test_hidden_communication_is_no_finding(tmp_path: Path) -> None:
    file = KinetoFile(0)
    file.steps(0, 1_000)
    file.kernel(0, 1_000)
    file.kernel(100, 900, NCCL, stream=20)
    analysis = analyse(accelerated(), traces=[file.read(tmp_path)])
    assert found(analysis) == []
    assert analysis.families["communication"].state == "clean"


def test_a_trace_without_communication_gives_no_clean_bill(tmp_path: Path) -> None:
    file = KinetoFile(world_size=1)
    file.kernel(0, 1_000)
    analysis = analyse(make_run(make_rank()), traces=[file.read(tmp_path)])
    state = analysis.families["communication"]
    assert state.state == "not_measured"
    assert "the trace holds no communication" in state.reason


# -- pipelines ---------------------------------------------------------------------------------------


def pipeline(batches: int, pass_ms: float, step_ms: float, ranks: int = 2) -> RunFacts:
    """A run whose ranks mark the passes of their stage; what is left of the step is waiting."""

    def rank_of(number: int) -> RankFacts:
        busy = 2 * batches * pass_ms
        half = busy / 2
        ms = {"input_wait": 0.1, "forward": half, "backward": half, "optimizer": 0.1}
        rank = make_rank(rank=number, ms={**ms, "communication": step_ms - busy}, jitter=0.0)
        regions = [
            Region(step, f"pipeline.stage{number}.{word}", round(busy * 5e5), batches)
            for step in range(1, 101)
            for word in ("forward", "backward")
        ]
        return replace(rank, regions=regions)

    return make_run(*(rank_of(number) for number in range(ranks)))


def test_a_bubble_beyond_the_least_is_found_from_regions() -> None:
    """Two ranks, four micro-batches: a fifth is idle anyway; here half is."""
    analysis = analyse(pipeline(batches=4, pass_ms=1.0, step_ms=16.0))
    (one,) = found(analysis)
    assert one.kind == "PIPELINE_BUBBLE"
    assert one.evidence["bubble_share"] == pytest.approx(0.5, abs=0.01)
    assert one.evidence["minimum_share"] == pytest.approx(0.2)
    assert one.cost_s == pytest.approx(100 * 0.3 * 0.016, rel=0.05)
    named = [other.kind for other in analysis.findings if other.severity != "info"]
    assert named == ["PIPELINE_BUBBLE"]  # its waits are in `communication`, and named once


def test_the_least_bubble_is_no_finding_and_its_waits_are_no_communication() -> None:
    analysis = analyse(pipeline(batches=4, pass_ms=1.0, step_ms=10.0))
    assert found(analysis) == []
    assert analysis.communication is not None
    assert analysis.communication.pipeline is not None
    assert analysis.communication.pipeline.bubble.achieved == pytest.approx(0.2, abs=0.01)


def test_a_pipeline_of_unknown_shape_says_what_is_missing() -> None:
    run = pipeline(batches=4, pass_ms=1.0, step_ms=16.0)
    alone = replace(run, ranks=(run.ranks[0], replace(run.ranks[1], regions=())))
    analysis = analyse(alone)
    assert [one.kind for one in found(analysis)] == []
    assert "one rank only" in analysis.families["communication"].reason
