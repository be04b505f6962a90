"""What a run with a pipeline is told: through the one door, from facts to findings and verdict."""

from dataclasses import replace

import numpy as np
import pytest

from tests.labs.runs import CPU_STEP, START_NS, make_rank, make_run
from tests.labs.stages import StagePlan, drawn_ms, line, run
from traintrace.facts import RankFacts
from traintrace.stagefacts import Pipeline
from traintrace_analysis import Analysis, analyse
from traintrace_analysis.findings import Finding


def analysed(pipeline: Pipeline | None, rank: RankFacts | None = None) -> Analysis:
    return analyse(make_run(replace(rank or make_rank(), pipeline=pipeline)))


def finding(analysis: Analysis, kind: str) -> Finding:
    return next(one for one in analysis.findings if one.kind == kind)


def named(analysis: Analysis) -> set[str]:
    return {one.kind for one in analysis.findings if one.severity != "info"}


def test_a_run_without_stages_says_how_to_mark_them() -> None:
    analysis = analysed(None)
    state = analysis.families["stages"]
    assert (state.state, state.reason) == (
        "not_measured",
        "Not measured: no stage was marked; see traintrace.stage.",
    )
    assert analysis.stages is None
    assert analysis.coverage["section.stages"].state == "not_measured"


def test_the_stage_that_holds_up_the_pipeline_is_the_verdict() -> None:
    analysis = analysed(line(4.0, 9.0, 5.0, count=1_000, variation=0.2))
    verdict, state = analysis.verdict, analysis.families["stages"]
    assert (verdict.kind, verdict.severity) == ("STAGE_BOTTLENECK", "critical")
    assert state.primary == "STAGE_BOTTLENECK"
    assert "Stage s1 holds up the pipeline" in verdict.headline
    assert "one more worker (replay: +" in verdict.action
    assert "The waits agree: s0 is blocked" in verdict.why
    assert verdict.gain is not None
    # Nine ms an item, five without what s1 needs more: four ninths of the time.
    assert analysis.stages is not None
    assert verdict.cost_s == pytest.approx(4 / 9 * analysis.stages.span_s, rel=0.1)
    assert verdict.gain.speedup == pytest.approx(9 / 5, rel=0.1)
    assert analysis.coverage["section.stages"].state == "measured"


def test_its_waits_are_told_and_counted_once() -> None:
    analysis = analysed(line(4.0, 9.0, 5.0, count=1_000))
    starved = finding(analysis, "STARVED")
    assert (starved.severity, starved.cost_s) == ("info", 0.0)
    assert "It waits for s1, and these seconds are counted there." in starved.why


def test_a_pipeline_that_keeps_up_with_its_last_stage_is_good_news() -> None:
    analysis = analysed(line(3.0, 4.0, 8.0, count=1_000))
    assert "stages" not in {one.family for one in analysis.findings if one.severity != "info"}
    good = finding(analysis, "STAGE_BOTTLENECK")
    assert good.headline == "The pipeline keeps up with its last stage, s2, as it should."
    assert (good.severity, good.cost_s, good.gain) == ("info", 0.0, None)
    assert analysis.families["stages"].state == "clean"
    assert analysis.verdict.kind != "STAGE_BOTTLENECK"


def test_a_lead_too_small_to_matter_is_no_finding() -> None:
    analysis = analysed(line(8.0, 8.2, 7.9, count=2_000, capacity=8, variation=0.2))
    assert not named(analysis)
    assert analysis.families["stages"].state == "clean"


def test_a_queue_that_is_too_small_names_what_a_larger_one_wins() -> None:
    rng = np.random.default_rng(1)
    plans = (
        StagePlan("load", drawn_ms(rng, 8.0, 2_000, 1.5), 1, (), ("q",)),
        StagePlan("train", drawn_ms(rng, 8.0, 2_000, 0.2), 1, ("q",)),
    )
    analysis = analysed(run(plans, {"q": 1}))
    small = finding(analysis, "QUEUE_TOO_SMALL")
    assert small.severity in ("warning", "critical")
    assert small.action == "Let q hold 4 items, if memory allows."
    assert small.gain is not None
    assert small.gain.low is not None
    assert small.gain.low > 1.0
    larger = run(plans, {"q": 4})
    true = analysed(run(plans, {"q": 1})).stages, analysed(larger).stages
    assert true[0] is not None
    assert true[1] is not None
    assert small.gain.speedup == pytest.approx(true[0].span_s / true[1].span_s, abs=0.01)
    # The wait of the last stage is divided: what the queue explains is not named again.
    spent = sum(one.cost_s for one in analysis.findings if one.family == "stages")
    assert spent <= true[0].span_s * true[0].stage("train").starved_share + 1e-9


def test_a_limiting_stage_that_cannot_hand_over_is_blocked() -> None:
    # The last stage pauses long now and then, and even a larger queue is too small for such a pause.
    pauses = [900_000_000 if n % 150 == 149 else 2_000_000 for n in range(1_200)]
    plans = (
        StagePlan("work", [10_000_000] * 1_200, 1, (), ("q",)),
        StagePlan("train", pauses, 1, ("q",)),
    )
    analysis = analysed(run(plans, {"q": 2}))
    blocked = finding(analysis, "BLOCKED")
    assert blocked.severity in ("warning", "critical")
    assert "work, the stage that limits, cannot hand over" in blocked.headline


def test_a_circle_is_named_as_what_it_is() -> None:
    plans = (
        StagePlan("prime", [1_000_000] * 40, 1, (), ("weights",)),
        StagePlan("act", [3_000_000] * 300, 1, ("weights",), ("rollouts",)),
        StagePlan("learn", [5_000_000] * 300, 1, ("rollouts",), ("weights",)),
    )
    analysis = analysed(run(plans, {"weights": 50, "rollouts": 2}))
    state = analysis.families["stages"]
    assert state.state == "insufficient"
    assert "not separable: act and learn feed each other" in state.reason


def waiting_rank(wait_ms: float, steps: int = 400) -> RankFacts:
    return make_rank(steps, ms={**CPU_STEP, "input_wait": wait_ms})


def test_the_wait_for_a_stage_is_not_billed_to_the_loader_as_well() -> None:
    """The loop takes its batches from the pipeline: its wait is `input_wait` and `starved` at once."""
    # Steps of 21 ms, 10 of them waiting: the last stage works 11.3 ms an item and the one before it 21.
    alone = analysed(None, waiting_rank(10.0))
    assert alone.verdict.kind == "INPUT_BOUND"
    analysis = analysed(line(3.0, 21.3, 11.3, count=400, variation=0.05), waiting_rank(10.0))
    assert analysis.verdict.kind == "STAGE_BOTTLENECK"
    loader = finding(analysis, "INPUT_BOUND")
    assert loader.severity == "info"
    assert "is the wait for a stage of the pipeline" in loader.why
    wall_s = sum(make_rank(400).totals.account_ns.values()) / 1e9
    assert sum(one.cost_s for one in analysis.findings) <= wall_s


def test_a_wait_that_is_longer_than_the_pipelines_stays_with_the_loader() -> None:
    short = line(1.0, 2.1, 1.1, count=200, variation=0.05)
    analysis = analysed(short, waiting_rank(30.0))
    loader = finding(analysis, "INPUT_BOUND")
    assert loader.severity == "critical"
    assert analysis.verdict.kind == "INPUT_BOUND"


def test_a_pipeline_without_steps_is_judged_all_the_same() -> None:
    empty = make_rank(2)
    analysis = analysed(line(4.0, 9.0, 5.0, count=600), empty)
    assert analysis.verdict.kind == "STAGE_BOTTLENECK"


def test_the_pipeline_of_another_rank_is_found() -> None:
    ms = {**CPU_STEP, "gradient_sync": 0.2}
    with_stages = replace(make_rank(ms=ms, rank=1, start_ns=START_NS), pipeline=line(4.0, 9.0, 5.0))
    analysis = analyse(make_run(make_rank(ms=ms), with_stages))
    assert analysis.stages is not None
    assert analysis.stages.rank == 1
    assert finding(analysis, "STAGE_BOTTLENECK").ranks == (1,)


@pytest.mark.parametrize("seed", range(5))
def test_clean_pipelines_name_nothing(seed: int) -> None:
    analysis = analysed(
        line(6.0, 6.5, 8.0, count=600, capacity=4, variation=0.3, seed=seed, workers=(1, 2, 1))
    )
    assert not {
        one.kind for one in analysis.findings if one.family == "stages" and one.severity != "info"
    }


def test_the_wait_for_the_first_item_is_no_starving() -> None:
    # The stage before loads a model for 5 of 9 s, before its first item.
    pipeline = line(3.0, 8.0, count=500, variation=0.2)
    late = 5_000_000_000
    queue = pipeline.queues[0]
    slow = replace(
        pipeline.workers[1],
        end_ns=pipeline.workers[1].end_ns + late,
        account_ns={
            **pipeline.workers[1].account_ns,
            "starved": pipeline.workers[1].account_ns["starved"] + late,
        },
        services=[replace(s, done_ns=s.done_ns + late) for s in pipeline.workers[1].services],
    )
    moved = replace(
        queue,
        put_ns=[one + late for one in queue.put_ns],
        get_ns=[one + late for one in queue.get_ns],
    )
    first = replace(
        pipeline.workers[0],
        end_ns=pipeline.workers[0].end_ns + late,
        services=[replace(s, done_ns=s.done_ns + late) for s in pipeline.workers[0].services],
        account_ns={**pipeline.workers[0].account_ns, "other": late},
    )
    analysis = analysed(Pipeline((first, slow), (moved,)))
    assert analysis.stages is not None
    assert analysis.stages.filling_s == pytest.approx(5.0, abs=0.05)
    assert analysis.stages.stage("s1").starved_share > 0.5
    assert "STARVED" not in {one.kind for one in analysis.findings}
    assert finding(analysis, "STAGE_BOTTLENECK").severity == "info"
