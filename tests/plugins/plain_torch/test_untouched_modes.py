"""Models that train in evaluation mode, or are put into training mode after the first request."""

from typing import Any

import pytest
import torch

from tests.labs.untouched import (
    Slow,
    Untouched,
    keeping_gradients,
    loader_of,
    rank_of,
    update,
)
from traintrace import facts


@pytest.mark.parametrize("step", [update, keeping_gradients])
def test_a_model_that_trains_in_evaluation_mode(untouched: Untouched, step: Any) -> None:
    tracer, model, optimizer = untouched()
    model.eval()
    data = Slow(8, ms=3)
    with tracer:
        for _ in range(2):
            for batch in loader_of(data):
                step(model, optimizer, batch)
            with torch.no_grad():
                for batch in loader_of(4):
                    model(batch)
            for batch in loader_of(4):
                with torch.no_grad():
                    model(batch)
    rank = rank_of(tracer)
    for name in ("micro_batches", "input_wait_calls", "forward_calls", "backward_calls"):
        assert rank.columns[name] == [1] * 8, name
    assert rank.columns["epoch"] == [0] * 4 + [1] * 4
    assert sum(ns or 0 for ns in rank.columns["input_wait_ns"]) >= data.slept_ns - 1e4
    assert "input_wait" not in rank.unmeasured


def test_accumulation_and_two_loaders_in_evaluation_mode(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    model.eval()
    with tracer:
        pairs = zip(loader_of(8), loader_of(8), strict=True)
        for number, (batch, other) in enumerate(pairs, start=1):
            model(batch + other).mean().backward()
            if number % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
    columns = rank_of(tracer).columns
    assert columns["micro_batches"] == [2, 2]
    assert columns["input_wait_calls"] == [4, 4]
    assert columns["backward_calls"] == [2, 2]


def test_training_mode_that_is_set_inside_the_loop(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for _ in range(3):
            for batch in loader_of(6):  # of every epoch but the first, requested in evaluation mode
                model.train()
                update(model, optimizer, batch)
            model.eval()
            with torch.no_grad():
                for batch in loader_of(4):
                    model(batch)
    rank = rank_of(tracer)
    for name in ("micro_batches", "input_wait_calls", "forward_calls"):
        assert rank.columns[name] == [1] * 9, name
    assert rank.columns["epoch"] == [0] * 3 + [1] * 3 + [2] * 3
    first = [bool((flags or 0) & facts.EPOCH_FIRST) for flags in rank.columns["flags"]]
    assert first == [True, False, False] * 3


def test_another_model_trains_after_the_one_that_was_given(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    other, its_optimizer = (lambda made: made[1:])(untouched())
    with tracer:
        for batch in loader_of(6):
            update(model, optimizer, batch)
        model.eval()
        for batch in loader_of(6):
            update(other, its_optimizer, batch)
    assert rank_of(tracer).columns["micro_batches"] == [1] * 6
