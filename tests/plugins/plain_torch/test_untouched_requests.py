"""Which requests of which loaders are training requests in a loop that nobody changed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from tests.labs.untouched import (
    Slow,
    Untouched,
    loader_of,
    rank_of,
    update,
)
from traintrace import TraintraceWarning
from traintrace_plain_torch import trace


def test_a_validation_loop_without_any_mark_is_no_training_time(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    validation = Slow(4, ms=5)
    with tracer:
        for number, batch in enumerate(loader_of(8), start=1):
            update(model, optimizer, batch)
            if number % 2 == 0:  # in the middle of an epoch, and at its end
                model.eval()
                with torch.no_grad():
                    for other in loader_of(validation):
                        model(other)
                model.train()
    rank = rank_of(tracer)
    for name in ("micro_batches", "input_wait_calls", "forward_calls"):
        assert rank.columns[name] == [1] * 4
    assert rank.totals.samples == 8
    ends = rank.totals.account_ns
    assert ends["gap"] + ends["shutdown"] >= validation.slept_ns


@pytest.mark.parametrize("way", ["eval", "no_grad", "evaluating", "inference_mode"])
def test_what_is_no_training_request(untouched: Untouched, way: str) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in loader_of(4):
            update(model, optimizer, batch)
            model.train(way != "eval")
            around: Any = {
                "eval": torch.enable_grad,
                "no_grad": torch.no_grad,
                "evaluating": tracer.evaluating,
                "inference_mode": torch.inference_mode,
            }[way]
            with around():
                assert len(list(loader_of(6))) == 3
            model.train()
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1, 1]
    assert rank.columns["input_wait_calls"] == [1, 1]


def test_a_fetch_without_gradients_between_two_updates_ends_no_step(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    noise = iter(loader_of(20))
    with tracer:
        for batch in loader_of(6):
            update(model, optimizer, batch)
            with torch.no_grad():
                other = next(noise)
            update(model, optimizer, other)
    assert rank_of(tracer).columns["optimizer_calls"] == [2, 2, 2]


def test_a_batch_that_was_only_looked_at_is_no_micro_batch(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(6)
    with tracer:
        next(iter(loader))
        for _ in loader:  # the mean of the data, say
            pass
        for batch in loader:
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    assert rank.columns["epoch"] == [0] * 3
    assert rank.setup.accumulation == 1
    assert rank.totals.steps_aborted == 0
    assert rank.totals.unbalanced == 0


def test_a_second_loader_begun_at_each_step_drops_nothing(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in loader_of(6):
            update(model, optimizer, batch + next(iter(loader_of(4))))
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    assert rank.columns["input_wait_calls"] == [2] * 3


@pytest.mark.parametrize("requested", ["without gradients", "in evaluation mode at level step"])
def test_training_batches_that_cannot_be_told_are_named(
    untouched: Untouched, requested: str
) -> None:
    without = requested == "without gradients"
    tracer, model, optimizer = untouched(level="auto" if without else "step")
    model.train(without)
    with pytest.warns(TraintraceWarning, match="gradients off"), tracer:
        with torch.set_grad_enabled(not without):
            batches = iter(loader_of(4))
            first = next(batches)
        update(model, optimizer, first)
    rank = rank_of(tracer)
    assert rank.totals.steps == 0
    assert "tracer.batches" in rank.unmeasured["input_wait"]


def test_a_loader_that_fetches_ahead_is_left_alone_and_named(untouched: Untouched) -> None:
    accelerate = pytest.importorskip("accelerate.data_loader")
    tracer, model, optimizer = untouched()
    with pytest.warns(TraintraceWarning, match="one batch ahead"), tracer:
        for batch in accelerate.DataLoaderShard(Slow(6), batch_size=2):
            update(model, optimizer, batch)
    assert rank_of(tracer).totals.steps == 0

    tracer, model, optimizer = untouched()
    with tracer:
        for batch in accelerate.DataLoaderShard(Slow(6), batch_size=2):
            with tracer.step():
                update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    assert rank.columns["input_wait_ns"] == [None] * 3
    assert "tracer.batches" in rank.unmeasured["input_wait"]


def test_batches_that_come_from_no_loader_are_not_measured(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in [torch.ones(2, 4)] * 3:
            with tracer.step():
                update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    assert rank.columns["input_wait_ns"] == [None] * 3
    assert "DataLoader" in rank.unmeasured["input_wait"]


def test_nothing_is_seen_without_a_model_and_an_optimizer(tmp_path: Path) -> None:
    before = _BaseDataLoaderIter.__next__
    with (
        pytest.warns(TraintraceWarning, match="no step was seen"),
        trace(run_dir=tmp_path, print_report=False),
    ):
        assert _BaseDataLoaderIter.__next__ is before
