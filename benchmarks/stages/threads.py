"""Pipelines that really run: threads that sleep for known times and hand items over by `queue.Queue`."""

import queue
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import traintrace
from benchmarks.stages.lines import Line, draw_line
from benchmarks.stages.scoring import Runner, Score, judge_limiting, judge_what_ifs
from benchmarks.stages.simulated import StagePlan
from traintrace import open_run
from traintrace.facts import RankFacts
from traintrace_plain_torch import trace


@dataclass(frozen=True, slots=True)
class Ran:
    """A pipeline that ran.

    Attributes:
        facts: What was recorded.
        slept_ns: By stage, how long its workers slept by a clock of their own.
    """

    facts: RankFacts
    slept_ns: Mapping[str, int]


def run_threads(plans: Sequence[StagePlan], capacities: Mapping[str, int | None]) -> Ran:
    """Run a plan with a thread for each worker, traced.

    Sleeping stands for work on an accelerator: it holds neither the interpreter nor a core. What a sleep takes too
    long, since the machine is busy, is taken off the next one: a stage works as long as planned.
    """
    slept: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", traintrace.TraintraceWarning)  # there are no steps
        with trace(run_dir=folder, name="stages", print_report=False) as tracer:
            queues: dict[str, Any] = {
                name: tracer.queue(queue.Queue(capacity or 0), name)
                for name, capacity in capacities.items()
            }
            lock = threading.Lock()
            workers = []
            for plan in plans:
                supply = iter(list(plan.times_ns))
                workers += [
                    threading.Thread(target=_work, args=(tracer, plan, supply, lock, queues, slept))
                    for _ in range(plan.workers)
                ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            run = tracer.run_folder
        assert run is not None
        return Ran(open_run(run).facts([]).ranks[0], slept)


def _work(
    tracer: Any,
    plan: StagePlan,
    supply: Iterator[int],
    lock: threading.Lock,
    queues: Mapping[str, Any],
    slept: Counter[str],
) -> None:
    late = 0
    with tracer.stage(plan.name) as stage:
        while True:
            with lock:
                spent = next(supply, None)
            if spent is None:
                return
            for name in plan.takes:
                queues[name].get()
            begin = time.perf_counter_ns()
            time.sleep(max(0, spent - late) / 1e9)
            took = time.perf_counter_ns() - begin
            late += took - spent
            for name in plan.puts:
                queues[name].put(0)
            stage.done()
            with lock:
                slept[plan.name] += took


def score_threads(pipelines: int, what_ifs: int, items: int, repeats: int) -> Score:
    """Judge real pipelines as `scoring.score_simulated` does; each takes a few seconds.

    Only those count for the limiting stage whose workers' own clocks say that it led by 5 %.
    """
    score = Score()
    for number in range(pipelines):
        line = draw_line(number, items=items, lead=0.07, variation=0.1, like_sleeps=True)
        ran = run_threads(line.plans, line.capacities)
        if _led(line, ran):
            judge_limiting(score, line, _once(ran))
    for number in range(what_ifs):
        lead = (0.0, 0.03, 0.2)[number % 3]
        line = draw_line(2_000 + number, items=items, lead=lead, variation=0.3, like_sleeps=True)
        judge_what_ifs(score, [line] * (1 + repeats), _really)
    return score


def _really(line: Line) -> Any:
    ran = run_threads(line.plans, line.capacities)
    return ran.facts.pipeline, ran.facts.process


def _once(ran: Ran) -> Runner:
    def give(line: Line) -> Any:
        del line
        return ran.facts.pipeline, ran.facts.process

    return give


def _led(line: Line, ran: Ran) -> bool:
    """Tell whether the stage that should limit led by 5 %, by what its workers clocked."""
    demands = {plan.name: ran.slept_ns[plan.name] / plan.workers for plan in line.plans}
    next_one = max(demand for name, demand in demands.items() if name != line.limiting)
    return demands[line.limiting] >= 1.05 * next_one
