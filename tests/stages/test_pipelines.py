"""Threads of a traced run as workers of stages, beside and on the thread that trains; through the public door."""

import multiprocessing
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import traintrace
from tests.labs.stagechildren import double
from tests.labs.staged import queue_of, recorded, traced, workers_of
from tests.labs.torch_loop import Truth
from traintrace.publishing.fetch import fetch_run
from traintrace.registry import REGISTRY
from traintrace_plain_torch import trace


def in_threads(*targets: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def test_a_pipeline_whose_last_stage_is_the_training_loop(tmp_path: Path) -> None:
    truth = Truth()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with trace(model, optimizer, run_dir=tmp_path, print_report=False) as tracer:
        batches: Any = tracer.queue(queue.Queue(2), "batches")
        hidden: Any = tracer.queue(queue.SimpleQueue(), "hidden")

        def prefetch() -> None:
            with traintrace.stage("prefetch"):
                for _ in range(12):
                    batches.put(torch.ones(2, 4))
                for _ in range(2):
                    batches.put(None)

        def forward() -> None:
            own = Truth()
            with tracer.stage("target-forward") as stage:
                for batch in iter(batches.get, None):
                    own.sleep("forward", 8)
                    hidden.put(batch)
                    stage.done(tokens=batch.numel())
            truth.ns["forward"] = truth.ns.get("forward", 0) + own.ns["forward"]

        threads = in_threads(prefetch, forward, forward)
        with tracer.stage("drafter") as drafter:
            for _ in range(12):
                with tracer.step():
                    with tracer.phase("input_wait"):
                        batch = hidden.get()
                    truth.sleep("train", 2)
                    model(batch).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                drafter.done(tokens=batch.numel())
        for thread in threads:
            thread.join()
    pipeline = recorded(tracer)
    (source,), forwards = workers_of(pipeline, "prefetch"), workers_of(pipeline, "target-forward")
    (drafts,) = workers_of(pipeline, "drafter")
    assert [worker.worker for worker in forwards] == [0, 1]
    assert {worker.kind for worker in pipeline.workers} == {"thread"}
    assert sum(worker.account_ns["busy"] for worker in forwards) >= truth.ns["forward"]
    assert (sum(worker.items for worker in forwards), drafts.items, source.items) == (12, 12, 14)
    assert (drafts.tokens, source.tokens) == (96, None)
    assert drafts.account_ns["busy"] >= truth.ns["train"]
    assert drafts.account_ns["starved"] > 0 < source.account_ns["blocked"]
    assert queue_of(pipeline, "batches").capacity == 2
    assert queue_of(pipeline, "batches").consumers == ["target-forward"]
    assert queue_of(pipeline, "hidden").producers == ["target-forward"]
    assert queue_of(pipeline, "hidden").consumers == ["drafter"]
    # The same thread's step ledger is whole, and saw the same wait.
    assert tracer.run_folder is not None
    (rank,) = traintrace.open_run(tracer.run_folder).facts(["step"]).ranks
    assert rank.totals.steps == 12
    assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
    assert rank.totals.account_ns["input_wait"] >= drafts.account_ns["starved"]
    assert rank.totals.foreign_calls == 0
    start, end = rank.totals.start_ns, rank.totals.start_ns + rank.totals.wall_ns
    assert all(start <= worker.start_ns < worker.end_ns <= end for worker in pipeline.workers)


def test_services_and_moments_are_in_order_and_add_up(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        items: Any = tracer.queue(queue.Queue(), "items")
        with tracer.stage("work") as stage:
            for number in range(30):
                items.put(number)
                items.get()
                time.sleep(0.001)
                if number % 10 == 0:
                    tracer._session.flush()  # type: ignore[union-attr]
                stage.done(items=2)
    pipeline = recorded(tracer)
    (worker,) = pipeline.workers
    done = [service.done_ns for service in worker.services]
    assert done == sorted(done)
    assert len(done) == worker.service_count == 30
    assert worker.items == sum(service.items for service in worker.services) == 60
    assert {service.tokens for service in worker.services} == {None}
    assert sum(service.busy_ns for service in worker.services) == worker.busy_sum_ns
    assert worker.busy_sum_squares_ns2 == sum(
        float(service.busy_ns) ** 2 for service in worker.services
    )
    (record,) = pipeline.queues
    assert list(record.put_ns) == sorted(record.put_ns)
    assert len(record.put_ns) == len(record.get_ns) == record.puts == record.gets == 30


def test_a_run_without_stages_has_no_pipeline(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:
        assert tracer.run_folder is not None
        assert not (tracer.run_folder / "stages").exists()
    (rank,) = traintrace.open_run(tracer.run_folder).facts(["step"]).ranks
    assert rank.pipeline is None


def test_queues_and_threads_are_left_as_they_were(tmp_path: Path) -> None:
    items: Any = queue.Queue()
    with traced(tmp_path) as tracer:
        tracer.queue(items, "items")
        waiting = in_threads(lambda: items.get())
    assert type(items) is queue.Queue
    items.put("after the end")
    waiting[0].join(5)
    assert not waiting[0].is_alive()
    assert tracer.queue(items, "again") is items
    assert type(items) is queue.Queue
    assert REGISTRY.recorders == []
    assert queue_of(recorded(tracer), "items").gets == 0


def test_nothing_is_recorded_after_max_steps(tmp_path: Path) -> None:
    items: Any = queue.Queue()
    with traced(tmp_path, max_steps=2) as tracer:
        tracer.queue(items, "items")
        items.put(1)
        with tracer.step(), tracer.stage("train"):
            parameter = torch.nn.Parameter(torch.ones(1))
            parameter.sum().backward()  # type: ignore[no-untyped-call]
            torch.optim.SGD([parameter], lr=0.1).step()
        with tracer.step():
            pass
        tracer._session.stop_recording()  # type: ignore[union-attr]
        items.put(2)
        assert type(items) is queue.Queue
        with tracer.stage("late") as stage:
            stage.done()
    assert [worker.stage for worker in recorded(tracer).workers] == ["train"]


def test_stages_find_the_session_of_another_thread_and_the_latest_of_several(
    tmp_path: Path,
) -> None:
    assert REGISTRY.recorder() is None
    with traced(tmp_path / "outer") as outer:

        def other() -> None:
            with traintrace.stage("outer"):
                pass
            with traced(tmp_path / "inner") as inner:
                with traintrace.stage("inner"):
                    pass
                entered.set()
                left.wait(5)
                with outer.stage("outer too"):
                    pass
            inners.append(inner)
            with traintrace.stage("outer again"):
                pass

        def main_thread_meanwhile() -> None:
            entered.wait(5)
            with traintrace.stage("outer's own"):
                pass
            left.set()

        inners: list[Any] = []
        entered, left = threading.Event(), threading.Event()
        threads = in_threads(other)
        main_thread_meanwhile()
        threads[0].join()
    assert {worker.stage for worker in recorded(outer).workers} == {
        "outer",
        "outer's own",
        "outer too",
        "outer again",
    }
    assert [worker.stage for worker in recorded(inners[0]).workers] == ["inner"]


def test_a_worker_that_raises_and_a_generator(tmp_path: Path) -> None:
    with traced(tmp_path) as tracer:

        def items() -> Iterator[int]:
            with tracer.stage("generate") as stage:
                for number in range(3):
                    stage.done()
                    yield number

        assert list(items()) == [0, 1, 2]
        with pytest.raises(ZeroDivisionError), tracer.stage("fail"):
            raise ZeroDivisionError
    assert {worker.stage: worker.items for worker in recorded(tracer).workers} == {
        "generate": 3,
        "fail": 0,
    }


def test_losses_are_the_same_to_the_bit(tmp_path: Path) -> None:
    def train(tracer: Any) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batches: Any = queue.Queue(2)
        if tracer is not None:
            assert tracer.queue(batches, "batches") is batches

        def read() -> None:
            generator = torch.Generator().manual_seed(1)
            with traintrace.stage("read"):
                for _ in range(6):
                    batches.put(torch.rand(3, 4, generator=generator))

        losses = []
        (reader,) = in_threads(read)
        with traintrace.stage("train") as stage:
            for _ in range(6):
                loss = model(batches.get() + torch.rand(3, 4)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
                stage.done()
        reader.join()
        return [*losses, torch.rand(1).item()]

    plain = train(None)
    with traced(tmp_path) as tracer:
        staged = train(tracer)
    assert staged == plain
    assert {worker.stage for worker in recorded(tracer).workers} == {"read", "train"}


def test_a_published_run_has_its_stages_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with traced((tmp_path / "runs").as_uri(), name="x") as tracer:
        context: Any = multiprocessing.get_context("fork")
        source = tracer.queue(context.Queue(), "source")
        sink = tracer.queue(context.Queue(), "sink")
        child = context.Process(target=double, args=(source, sink))
        child.start()
        source.put(4)
        assert sink.get() == 8
        source.put(None)
        child.join()
    folder = fetch_run((tmp_path / "runs" / "x").as_uri())
    (rank,) = traintrace.open_run(folder).facts(["step"]).ranks
    assert rank.pipeline is not None
    assert [(worker.stage, worker.items) for worker in rank.pipeline.workers] == [("double", 1)]
    assert not (tmp_path / "runs" / "x" / "stages").exists()
