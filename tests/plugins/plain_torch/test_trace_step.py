"""`trace_step(model)`: a step is marked where it runs, and no context lies around the loop."""

import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.labs.forked import run_each
from traintrace import TraintraceWarning, UsageError, facts, open_run
from traintrace.registry import REGISTRY
from traintrace_plain_torch import Tracer, trace, trace_step

COLUMNS = ["micro_batches", "samples", "input_wait_calls", "forward_calls", "optimizer_calls"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Critic(Net):
    pass


@pytest.fixture
def options(tmp_path: Path) -> Iterator[dict[str, Any]]:
    yield {"run_dir": tmp_path / "runs", "print_report": False}
    trace_step.finish()


def loader_of(rows: int) -> Any:
    data: Any = [torch.ones(4)] * rows
    return DataLoader(data, batch_size=2)


def training() -> tuple[Net, torch.optim.Optimizer]:
    model = Net()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def finished() -> facts.RankFacts:
    tracer = trace_step.finish()
    assert tracer is not None
    return rank_of(tracer)


def rank_of(tracer: Tracer) -> facts.RankFacts:
    assert tracer.run_folder is not None
    return open_run(tracer.run_folder).facts(COLUMNS).ranks[0]


def test_each_block_is_a_step_and_the_loader_is_seen(options: Any) -> None:
    model, optimizer = training()
    for _ in range(2):
        for batch in loader_of(6):
            with trace_step(model, **options):
                model(batch).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    rank = finished()
    assert rank.columns["micro_batches"] == [1] * 6
    # The first batch was requested before anything was traced.
    assert rank.columns["input_wait_calls"] == [0, 1, 1, 1, 1, 1]
    assert rank.columns["samples"] == [None, 2, 2, 2, 2, 2]
    assert rank.columns["forward_calls"] == [1] * 6
    assert (rank.setup.batch_size, rank.setup.loader.workers) == (2, 0)


def test_a_block_without_an_update_is_a_micro_batch(options: Any) -> None:
    model, optimizer = training()
    for number, batch in enumerate(loader_of(12), start=1):
        with trace_step(model, **options):
            model(batch).mean().backward()
            if number % 3 == 0:
                optimizer.step()
    assert finished().columns["micro_batches"] == [3, 3]


def test_two_models_of_one_thread_are_one_run(options: Any) -> None:
    model, optimizer = training()
    critic = Critic()
    for batch in loader_of(6):
        with trace_step(model, **options):
            model(batch).mean().backward()
            optimizer.step()
        with trace_step(critic):
            critic(batch).mean().backward()
            optimizer.step()
    rank = finished()
    assert rank.columns["forward_calls"] == [1] * 6
    assert rank.totals.steps == 6
    assert "__call__" not in vars(Critic)


def test_two_models_inside_one_block_are_both_forward(options: Any) -> None:
    model, optimizer = training()
    critic = Critic()
    for batch in loader_of(6):
        with trace_step(model, **options), trace_step(critic):
            (model(batch) + critic(batch)).mean().backward()
            optimizer.step()
    assert finished().columns["forward_calls"] == [2] * 3


def test_after_max_steps_nothing_more_is_recorded_and_no_run_begins(options: Any) -> None:
    model, optimizer = training()
    for batch in loader_of(10):
        with trace_step(model, max_steps=2, **options):
            model(batch).mean().backward()
            optimizer.step()
    assert finished().totals.steps == 2
    assert len(list(options["run_dir"].iterdir())) == 1


def test_finish_ends_the_run_and_the_next_block_begins_another(options: Any) -> None:
    model, optimizer = training()
    folders = set()
    for _ in range(2):
        for batch in loader_of(4):
            with trace_step(model, **options):
                model(batch).mean().backward()
                optimizer.step()
        tracer = trace_step.finish()
        assert tracer is not None
        assert tracer.summary()["run"]["status"] == "completed"
        folders.add(tracer.run_folder)
        assert REGISTRY.current() is None
    assert len(folders) == 2
    assert trace_step.finish() is None


def test_inside_a_trace_it_is_that_tracers_step(options: Any) -> None:
    model, optimizer = training()
    with trace(model, optimizer, **options) as tracer:
        for batch in loader_of(6):
            with trace_step(model):
                model(batch).mean().backward()
                optimizer.step()
    assert rank_of(tracer).columns["input_wait_calls"] == [1] * 3
    assert trace_step.finish() is None


def test_switched_off_it_does_nothing(options: Any) -> None:
    model, _ = training()
    for batch in loader_of(4):
        with trace_step(model, enabled=False, **options):
            model(batch)
            assert REGISTRY.current() is None
    assert not options["run_dir"].exists()


def test_an_impossible_option_is_refused(options: Any) -> None:
    with pytest.raises(UsageError, match="max_steps"):
        trace_step(Net(), max_steps=0, **options)


def test_an_exception_inside_a_block_aborts_its_step_alone(options: Any) -> None:
    model, optimizer = training()
    for number, batch in enumerate(loader_of(8)):
        try:
            with trace_step(model, **options):
                model(batch).mean().backward()
                if number == 1:
                    raise RuntimeError("out of memory")
                optimizer.step()
        except RuntimeError:
            optimizer.zero_grad()
    rank = finished()
    assert (rank.totals.steps, rank.totals.steps_aborted) == (3, 1)


def test_a_run_without_any_update_says_so(options: Any) -> None:
    model, _ = training()
    for batch in loader_of(4):
        with trace_step(model, **options):
            model(batch).mean().backward()
    with pytest.warns(TraintraceWarning, match="no optimizer step"):
        trace_step.finish()


def test_each_thread_has_a_run_of_its_own(options: Any) -> None:
    totals = []

    def work() -> None:
        model, optimizer = training()
        for batch in loader_of(4):
            with trace_step(model, name="elsewhere", **options):
                model(batch).mean().backward()
                optimizer.step()
        totals.append(finished().totals.steps)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert totals == [2]
    assert trace_step.finish() is None


def test_it_is_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(trace_step)) is trace_step


def test_the_run_ends_with_the_interpreter(tmp_path: Path) -> None:
    script = """
        from traintrace_plain_torch import trace_step
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in torch.utils.data.DataLoader([torch.ones(4)] * 6, batch_size=2):
            with trace_step(model, run_dir=folder, name="run"):
                model(batch).mean().backward()
                optimizer.step()
        if folder.endswith("raises"):
            raise ValueError
    """
    for ended in run_each(tmp_path, script, ["returns", "raises"]):
        raises = ended.folder.name == "raises"
        assert ended.code == raises, ended.error
        summary = json.loads((ended.folder / "run" / "final_summary.json").read_text("utf-8"))
        assert summary["run"]["status"] == ("failed" if raises else "completed")
        assert summary["counts"]["steps"] == 3
