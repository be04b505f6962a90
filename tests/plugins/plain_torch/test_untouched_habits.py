"""Habits of hand-written loops that hide what a batch was requested for."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.labs.untouched import (
    Slow,
    Untouched,
    keeping_gradients,
    loader_of,
    rank_of,
    update,
)
from traintrace import TraintraceWarning
from traintrace.pytorch import unused


def validate_bare(model: nn.Module, loader: Any) -> None:
    for batch in loader:
        model(batch).mean().item()


def validate_without_gradients_inside(model: nn.Module, loader: Any) -> None:
    for batch in loader:
        with torch.no_grad():
            model(batch)


def validate_in_evaluation_mode(model: nn.Module, loader: Any) -> None:
    model.eval()
    validate_without_gradients_inside(model, loader)
    model.train()


def validate_in_a_mode_set_inside(model: nn.Module, loader: Any) -> None:
    for batch in loader:
        model.eval()
        with torch.no_grad():
            model(batch)
    model.train()


VALIDATIONS = [
    validate_bare,
    validate_without_gradients_inside,
    validate_in_evaluation_mode,
    validate_in_a_mode_set_inside,
]
Validate = Callable[[nn.Module, Any], None]


@pytest.mark.parametrize("step", [update, keeping_gradients])
@pytest.mark.parametrize("validate", VALIDATIONS)
def test_a_validation_that_looks_like_training_is_none(
    untouched: Untouched, validate: Validate, step: Any
) -> None:
    tracer, model, optimizer = untouched()
    validation = Slow(6, ms=4)
    with tracer:
        for _ in range(2):
            for batch in loader_of(8):
                step(model, optimizer, batch)
            validate(model, loader_of(validation, batch_size=3))
    rank = rank_of(tracer)
    for name in ("micro_batches", "input_wait_calls", "forward_calls"):
        assert rank.columns[name] == [1] * 8, name
    assert rank.columns["epoch"] == [0] * 4 + [1] * 4
    assert rank.totals.steps_aborted == rank.totals.unbalanced == 0
    assert rank.setup.batch_size == 2
    ends = rank.totals.account_ns
    assert ends["gap"] + ends["shutdown"] >= validation.slept_ns - 1e4


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("validate", VALIDATIONS)
def test_a_validation_between_two_steps_of_an_epoch_leaves_the_epoch_alone(
    untouched: Untouched, validate: Validate, kept: bool
) -> None:
    tracer, model, optimizer = untouched()
    held = []
    with tracer:
        for number, batch in enumerate(loader_of(12), start=1):
            keeping_gradients(model, optimizer, batch)
            if number % 2 == 0:
                validation = iter(loader_of(6))
                held.append(validation if kept and validate is not validate_bare else None)
                validate(model, validation)
    columns = rank_of(tracer).columns
    assert columns["micro_batches"] == [1] * 6
    assert columns["forward_calls"] == [1] * 6
    assert columns["epoch"] == [0] * 6


def test_one_validation_batch_from_an_iterator_that_is_kept(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    validation = iter(loader_of(20))
    with tracer:
        for batch in loader_of(12):
            keeping_gradients(model, optimizer, batch)
            model.eval()
            held_out = next(validation)  # with gradients on
            with torch.no_grad():
                model(held_out)
            model.train()
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 6
    assert rank.columns["forward_calls"] == [1] * 6
    assert rank.columns["epoch"] == [0] * 6
    assert rank.totals.steps_aborted == 0


def test_a_look_at_the_data_between_epochs_is_no_micro_batch(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(8)
    with tracer:
        for _ in range(2):
            for batch in loader:
                keeping_gradients(model, optimizer, batch)
            next(iter(loader))
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 8
    assert rank.columns["epoch"] == [0] * 4 + [1] * 4
    assert rank.totals.steps_aborted == 0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_an_evaluation_inside_a_step_is_told(untouched: Untouched, mode: Any) -> None:
    tracer, model, optimizer = untouched()
    with pytest.warns(TraintraceWarning, match=r"tracer\.evaluating\(\)"), tracer:
        for number, batch in enumerate(loader_of(8)):
            if number == 2:  # its batch is there already
                model.eval()
                with mode():
                    for other in loader_of(4):
                        model(other)
                model.train()
            keeping_gradients(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 4
    assert rank.columns["input_wait_calls"] == [1] * 4
    assert rank.columns["epoch"] == [0] * 4


def test_step_blocks_without_a_loader_and_a_bare_validation(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for _ in range(2):
            for batch in [torch.ones(2, 4)] * 3:
                with tracer.step():
                    keeping_gradients(model, optimizer, batch)
            validate_in_evaluation_mode(model, loader_of(4))
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 6
    assert rank.columns["input_wait_ns"] == [None] * 6
    assert "tracer.batches" in rank.unmeasured["input_wait"]


@pytest.mark.parametrize("compiled", [False, True])
def test_step_blocks_and_a_bare_validation(
    untouched: Untouched, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unused, "graphs_exist", lambda: compiled)
    tracer, model, optimizer = untouched()
    with tracer:
        for _ in range(2):
            for batch in loader_of(6):
                with tracer.step():
                    keeping_gradients(model, optimizer, batch)
            validate_bare(model, loader_of(4))
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 6
    assert rank.columns["forward_calls"] == [1] * 6
    assert rank.columns["epoch"] == [0] * 3 + [1] * 3


def test_a_group_that_the_epochs_end_cut_off_and_an_evaluation(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for _ in range(2):
            for number, batch in enumerate(loader_of(10), start=1):
                model(batch).mean().backward()
                if number % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            optimizer.zero_grad()  # the fifth batch is given up here
            model.eval()
            with torch.no_grad():
                for batch in loader_of(4):
                    model(batch)
            model.train()
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [4, 4]
    assert rank.columns["forward_calls"] == [4, 4]
    assert rank.totals.steps_aborted == 2
    assert not rank.warnings


def test_loaders_that_take_turns_share_an_epoch(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        first, second = iter(loader_of(6)), iter(loader_of(6))
        for batches in (first, second, second, first):
            update(model, optimizer, next(batches))
    columns = rank_of(tracer).columns
    assert columns["epoch"] == [0] * 4
    assert columns["micro_batches"] == [1] * 4


def test_a_whole_epoch_in_one_backward_is_one_step(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for _ in range(2):
            optimizer.zero_grad()
            total: Any = 0
            for batch in loader_of(6):
                total = total + model(batch).mean()
            total.backward()
            optimizer.step()
    columns = rank_of(tracer).columns
    assert columns["micro_batches"] == columns["input_wait_calls"] == [3, 3]
    assert columns["epoch"] == [0, 1]
