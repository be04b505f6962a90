"""Loops whose steps cannot be told from their requests: read ahead, by hand, elsewhere, or not begun."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from tests.labs.untouched import (
    Slow,
    Untouched,
    loader_of,
    rank_of,
    update,
)
from traintrace import TraintraceWarning, UsageError
from traintrace.registry import REGISTRY
from traintrace_plain_torch import loop, trace


def read_ahead(loader: Any, depth: int = 1) -> Iterator[Any]:
    waiting: list[Any] = []
    for batch in loader:
        waiting.append(batch)
        if len(waiting) > depth:
            yield waiting.pop(0)
    yield from waiting


@pytest.mark.parametrize("way", ["ahead", "far ahead", "cycle", "list"])
def test_updates_without_a_request_are_told(untouched: Untouched, way: str) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(8)
    batches: Any = {
        "ahead": read_ahead(loader),
        "far ahead": read_ahead(loader, 2),
        "cycle": itertools.islice(itertools.cycle(loader), 7),
        "list": itertools.chain(loader, [torch.ones(2, 4)] * 2),
    }[way]
    with pytest.warns(TraintraceWarning, match=r"tracer\.batches\(\)"), tracer:
        for batch in batches:
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.totals.steps == {"ahead": 4, "far ahead": 3, "cycle": 5, "list": 5}[way]
    assert rank.totals.samples == 8
    assert rank.columns["micro_batches"][-1] == 0


def test_a_loader_that_is_read_ahead_is_exact_where_it_is_named(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    data = Slow(8, ms=3)
    with tracer:
        for _ in range(2):
            for batch in tracer.batches(read_ahead(loader_of(data))):
                update(model, optimizer, batch)
    rank = rank_of(tracer)
    for name in ("micro_batches", "input_wait_calls", "forward_calls"):
        assert rank.columns[name] == [1] * 8, name
    waited = sum(ns or 0 for ns in rank.columns["input_wait_ns"])
    assert waited >= data.slept_ns - 1e4


def test_each_step_block_of_a_group_without_a_loader_is_a_micro_batch(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for number, batch in enumerate([torch.ones(2, 4)] * 6, start=1):
            with tracer.step():
                model(batch).mean().backward()
                if number % 3 == 0:
                    optimizer.step()
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [3, 3]
    assert rank.columns["forward_calls"] == [3, 3]


def test_updates_by_hand_are_told(untouched: Untouched) -> None:
    tracer, model, _ = untouched()
    with pytest.warns(TraintraceWarning, match="no optimizer step was seen"), tracer:
        for batch in loader_of(4):
            model(batch).mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(parameter.grad)  # type: ignore[arg-type]
                    parameter.grad = None
    assert rank_of(tracer).totals.steps == 0


def test_training_on_another_thread_is_told(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()

    def train() -> None:
        for batch in loader_of(4):
            update(model, optimizer, batch)

    with pytest.warns(TraintraceWarning, match="another thread"), tracer:
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert rank_of(tracer).totals.steps == 0


@pytest.mark.parametrize("kind", ["optimizer", "list"])
def test_what_is_no_model_is_refused_before_training(untouched: Untouched, kind: str) -> None:
    _, model, optimizer = untouched()
    before = DataLoader.__iter__
    wrong: Any = optimizer if kind == "optimizer" else [model]
    with pytest.raises(UsageError, match=r"model must be a torch\.nn\.Module"):
        trace(wrong, optimizer)
    assert DataLoader.__iter__ is before
    assert REGISTRY.current() is None


def test_a_span_that_cannot_begin_leaves_nothing_behind(
    untouched: Untouched, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer, model, optimizer = untouched()
    before = DataLoader.__iter__

    def broken(*args: object) -> None:
        raise OSError("broken")

    monkeypatch.setattr(loop, "StepBlock", broken)
    with pytest.raises(OSError, match="broken"):  # reported outside tests; training goes on
        tracer.start()
    assert REGISTRY.current() is None
    assert DataLoader.__iter__ is before
    update(model, optimizer, next(iter(loader_of(4))))
