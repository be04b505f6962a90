"""What a pipeline's findings advise, and whose seconds they name."""

from dataclasses import replace

from tests.analysis.stages.test_findings import analysed, finding
from tests.labs.runs import CPU_STEP, START_NS, make_rank, make_run
from tests.labs.stages import line
from traintrace_analysis import analyse
from traintrace_analysis.context import Context
from traintrace_analysis.rules.stages.waits import starved


def test_balanced_stages_are_to_be_made_faster_all_of_them() -> None:
    """The last one was left out where it is one of them, so that "one alone" was what was proposed."""
    stages = analysed(line(8.15, 3.0, 8.0, count=600, variation=0.8, capacity=1)).stages
    assert stages is not None
    assert stages.limiting is not None
    both = replace(stages.limiting, stage="s0", balanced=("s0", "s2"), is_last=False)
    equal = replace(stages, limiting=both)
    context = Context(window=None, metrics={}, rank=None, wait=None, stages=equal)  # type: ignore[arg-type]
    (found,) = starved(context)
    assert found.action == "Speed up s0 and s2 together: one alone wins little."


def test_waits_that_the_replay_does_not_find_are_not_called_uneven() -> None:
    """Threads that take turns at the interpreter: more room in the queues wins nothing."""
    pipeline = line(4.0, 4.0, 9.0, count=400)
    slow = []
    for worker in pipeline.workers:
        services = [replace(one, busy_ns=one.busy_ns // 3) for one in worker.services]
        busy = sum(one.busy_ns for one in services)
        accounts = dict(worker.account_ns)
        accounts["starved"] += accounts["busy"] - busy
        accounts["busy"] = busy
        slow.append(replace(worker, services=services, busy_sum_ns=busy, account_ns=accounts))
    found = finding(analysed(replace(pipeline, workers=slow)), "STARVED")
    assert "a lock, the interpreter, or too few cores" in found.why
    assert "hold more items" not in found.action


def test_the_wait_of_a_straggler_for_its_pipeline_is_counted_once() -> None:
    """768 ms by STRAGGLER and 736 ms by STAGE_BOTTLENECK were named, of a run of 913 ms."""
    own = {**CPU_STEP, "gradient_sync": 10.2}
    slow = {**CPU_STEP, "input_wait": 10.0, "gradient_sync": 0.2}
    pipeline = line(3.0, 21.3, 11.3, count=400, variation=0.05)
    late = replace(make_rank(400, ms=slow, rank=1, start_ns=START_NS), pipeline=pipeline)
    analysis = analyse(make_run(make_rank(400, ms=own), late))
    straggler = finding(analysis, "INPUT_STRAGGLER")
    assert straggler.ranks == (1,)
    assert "is the wait for a stage of the pipeline" in straggler.why
    assert straggler.severity == "info"
    assert "Stage s1 of rank 1 holds up the pipeline" in analysis.verdict.headline
