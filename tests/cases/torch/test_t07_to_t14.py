"""T07 to T14: compiled graphs, the starts of epochs, hand-over of batches, memory, skipped updates."""

import functools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.labs.sampled import Sampled
from tests.labs.torch_loop import (
    BATCH,
    CountingBackend,
    Net,
    Recorded,
    Slow,
    Truth,
    sgd,
    trained,
    update,
)
from traintrace import facts
from traintrace.ports import Ports
from traintrace.recording.steps import StepCapture
from traintrace_plain_torch import trace


@pytest.mark.parametrize("kind", ["own class", "torch class"])
@pytest.mark.parametrize("called_before", [False, True])
def test_t07_as_many_graphs_are_compiled_with_tracing_as_without(
    tmp_path: Path, kind: str, called_before: bool
) -> None:
    """PT#142358, PT#135410: a hook turned compilation off, or broke the graph."""

    def graphs(traced: bool) -> tuple[int, Any]:
        torch._dynamo.reset()
        backend = CountingBackend()
        model: Any = type("Own", (Net,), {})() if kind == "own class" else _two_layers()
        compiled: Any = torch.compile(model, backend=backend, fullgraph=True)
        optimizer = sgd(model)
        if called_before:
            update(compiled, optimizer)
        if not traced:
            for _ in range(4):
                update(compiled, optimizer)
            return backend.graphs, None
        run = trained(tmp_path, compiled, optimizer, functools.partial(update, compiled, optimizer))
        update(compiled, optimizer)  # the end of tracing compiles nothing either
        return backend.graphs, run

    count, run = graphs(traced=True)
    assert count == graphs(traced=False)[0] == 1
    assert run.phase_calls() == ([1] * 4, [1] * 4, [1] * 4)


def test_t07_a_model_inside_a_compiled_function_is_one_graph_and_no_forward(tmp_path: Path) -> None:
    """The other way to compile: nothing of the tracer may be in the graph, nor be measured there."""
    torch._dynamo.reset()
    backend = CountingBackend()
    model = Net()
    optimizer = sgd(model)
    compile_whole: Any = functools.partial(torch.compile, backend=backend, fullgraph=True)
    loss = compile_whole(lambda batch: model(batch).mean())
    run = trained(tmp_path, model, optimizer, functools.partial(update, loss, optimizer), 5)
    assert backend.graphs == 1
    assert run["forward_ns"] == [None] * 5
    assert "model runs inside a compiled function" in run.rank.unmeasured["forward"]
    assert run.phase_calls("backward", "optimizer") == ([1] * 5, [1] * 5)


def _two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))


class Rows(Dataset[torch.Tensor]):
    """Rows of ones, `count` of them."""

    def __init__(self, count: int, width: int = 4) -> None:
        self.count, self.width = count, width

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(self.width)


class Watched:
    """A loader whose iterators' creation, fetches and empty last fetches are clocked around its own."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.created: list[int] = []
        self.fetched: list[int] = []
        self.ended: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        start = time.perf_counter_ns()
        iterator = iter(self.loader)
        self.created.append(time.perf_counter_ns() - start)
        return self._fetch(iterator)

    def _fetch(self, iterator: Iterator[Any]) -> Iterator[Any]:
        while True:
            start = time.perf_counter_ns()
            try:
                batch = next(iterator)
            except StopIteration:
                self.ended.append(time.perf_counter_ns() - start)
                return
            self.fetched.append(time.perf_counter_ns() - start)
            yield batch


def test_t10_three_epochs_have_three_starts_apart_from_the_steady_waits(tmp_path: Path) -> None:
    """PT#15849, open-mmlab/mmpretrain#196: a pause at each epoch, while workers start."""
    loader = Watched(DataLoader(Rows(12), batch_size=2, num_workers=2))
    model = Net()
    optimizer = sgd(model)
    with trace(model, optimizer, run_dir=tmp_path, print_report=False) as tracer:
        batches = tracer.batches(loader)
        for _ in range(3):
            for batch in batches:
                with tracer.step():
                    update(model, optimizer, batch)
    run = Recorded(tracer)
    assert run["epoch"] == [0] * 6 + [1] * 6 + [2] * 6
    assert run.flagged(facts.EPOCH_FIRST) == ([True] + [False] * 5) * 3
    assert run.account_ns["epoch_boundary"] >= sum(loader.created + loader.ended)
    assert run.account_ns["input_wait"] >= sum(loader.fetched)
    # Creating workers is in no step: what steps waited is what fetching took.
    starts = [span for span in run.rank.spans if span.account == "epoch_boundary"]
    assert {span.step for span in starts} == {1, 7, 13, 19}
    assert not any(span.inside for span in starts)


def test_t11_handing_over_large_batches_is_input_wait_although_items_cost_nothing(
    tmp_path: Path,
) -> None:
    """PT#24984, PT#16901: next() is slow although workers are ready."""
    rows = Rows(16, width=2_500_000)  # 10 MB each
    loader = Watched(DataLoader(rows, batch_size=4, num_workers=2))
    model = Net()
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, lambda _: update(model, optimizer), loader)
    assert len(run["input_wait_ns"]) == 4
    for waited, real in zip(run["input_wait_ns"], loader.fetched, strict=True):
        assert waited >= real > 0


class PeakPerStep:
    """An allocator whose peaks are this step's; the process's own peak is kept beside them."""

    lifetime_peak_bytes = 0

    def __init__(self) -> None:
        self.held = self.peak = 100

    def open_step(self) -> None:
        self.peak = self.held

    def hold(self, more: int) -> None:
        self.peak = max(self.peak, self.held + more)

    def read(self, capture: StepCapture) -> None:
        capture.peak_allocated_bytes, capture.peak_reserved_bytes = self.peak, 4096
        self.lifetime_peak_bytes = max(self.lifetime_peak_bytes, self.peak)


def test_t13_three_kinds_of_memory_have_three_names_and_peaks_are_each_steps_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """prime-rl#1118, PT#15968: allocated, reserved and the system's view were one number."""
    allocator = PeakPerStep()
    original = Ports.__init__
    monkeypatch.setattr(
        Ports, "__init__", lambda self, **ports: original(self, **{**ports, "memory": allocator})
    )
    model, held, sampled = Net(), list[int](), Sampled(monkeypatch)
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        update(model, optimizer)
        if len(held) == 2:  # step 3 holds 200 MB
            ballast = torch.ones(50_000_000)
            allocator.hold(200)
            sampled.wait()
            del ballast
        held.append(0)
        sampled.wait()

    run = trained(tmp_path, model, optimizer, step, 5)
    assert run["peak_allocated_bytes"] == [100, 100, 300, 100, 100]
    assert run["peak_reserved_bytes"] == [4096] * 5
    assert run.rank.process_peak_allocated_bytes == 300
    resident = run["rss_bytes"]
    assert all(bytes_ > 50_000_000 for bytes_ in resident)
    assert resident[2] > resident[1] + 150_000_000
    assert resident[3] < resident[2] - 150_000_000, "a high-water mark never falls; this must"
    memory = run.summary["memory"]
    assert set(memory) == {"rss_bytes", "peak_allocated_bytes", "peak_reserved_bytes"}
    assert memory["peak_allocated_bytes"]["max"] == 300


def test_t13_without_a_device_its_allocators_peaks_are_absent_and_not_the_resident_memory(
    tmp_path: Path,
) -> None:
    """The same on a machine that can tell resident memory only."""
    model, truth = Net(), Truth()
    optimizer = sgd(model)
    batches = Slow(truth, 60, 2)
    run = trained(tmp_path, model, optimizer, lambda _: update(model, optimizer), batches)
    assert run["peak_allocated_bytes"] == run["peak_reserved_bytes"] == [None, None]
    assert run.summary["memory"]["peak_allocated_bytes"] is None
    assert run.summary["memory"]["rss_bytes"]["max"] > 0
    assert run.summary["coverage"]["peak_memory"]["reason"]


def test_t14_an_update_that_the_scaler_skips_keeps_its_step_and_is_flagged(tmp_path: Path) -> None:
    """PT#67590, PT#152279: no signal that the update did not happen."""
    model = Net()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=2.0)
    biases, losses = [], [1.0, float("inf"), 1.0]

    def step(batch: torch.Tensor) -> None:
        biases.append(model.second.bias.item())
        scaler.scale(model(batch).mean() * losses[len(biases) - 1]).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    run = trained(tmp_path, model, optimizer, step, [BATCH] * 3)
    assert biases[0] != biases[1] == biases[2]
    assert run.flagged(facts.UPDATE_SKIPPED) == [False, True, False]
    assert run.flagged(facts.UPDATE_SKIPPED_KNOWN) == [True] * 3
    assert [ns is None for ns in run["optimizer_ns"]] == [False, True, False]
    assert run["forward_calls"] == run["backward_calls"] == [1, 1, 1]
    assert run.summary["counts"]["updates_skipped"] == 1
