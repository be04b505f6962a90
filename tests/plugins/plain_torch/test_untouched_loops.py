"""Loops that nobody changed: `with trace(model, optimizer): for batch in loader: ...`."""

import copy
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from tests.labs.untouched import (
    Net,
    Slow,
    Untouched,
    loader_of,
    rank_of,
    update,
)
from traintrace import facts


def test_an_untouched_loop_has_its_steps_epochs_and_waits(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    data = Slow(6, ms=5)
    loader = loader_of(data)
    with tracer:
        for _ in range(2):
            for batch in loader:
                update(model, optimizer, batch)
    rank = rank_of(tracer)
    columns = rank.columns
    assert columns["epoch"] == [0, 0, 0, 1, 1, 1]
    assert columns["micro_batches"] == [1] * 6
    assert columns["samples"] == [2] * 6
    for phase in ("input_wait", "forward", "backward", "optimizer"):
        assert columns[f"{phase}_calls"] == [1] * 6
    first = [bool((flags or 0) & facts.EPOCH_FIRST) for flags in columns["flags"]]
    assert first == [True, False, False] * 2
    assert sum(ns or 0 for ns in columns["input_wait_ns"]) >= data.slept_ns - 10_000
    assert "input_wait" not in rank.unmeasured
    assert (rank.setup.batch_size, rank.setup.loader.workers) == (2, 0)
    assert rank.setup.batch_bytes == 2 * 4 * 4
    assert rank.totals.account_ns["epoch_boundary"] > 0


def test_loaders_keep_their_types_and_get_their_methods_back(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(4)
    before = (_BaseDataLoaderIter.__next__, DataLoader.__iter__)
    kinds = type(loader), type(iter(loader))
    with tracer:
        iterator = iter(loader)
        attributes = set(vars(iterator))
        update(model, optimizer, next(iterator))
        assert (type(loader), type(iterator)) == kinds
        assert set(vars(iterator)) == attributes
        assert _BaseDataLoaderIter.__next__ is not before[0]
    assert (_BaseDataLoaderIter.__next__, DataLoader.__iter__) == before
    assert len(list(iterator)) == 1


def test_accumulation_and_several_optimizers_between_two_requests(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    other = torch.optim.SGD(Net().parameters(), lr=0.1)
    with tracer:
        for number, batch in enumerate(loader_of(12), start=1):
            model(batch).mean().backward()
            if number % 3 == 0:
                optimizer.step()
                other.step()
                optimizer.zero_grad()
    columns = rank_of(tracer).columns
    assert columns["micro_batches"] == [3, 3]
    assert columns["optimizer_calls"] == [2, 2]


def test_a_skipped_update_ends_the_step_too(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with tracer:
        for number, batch in enumerate(loader_of(6)):
            scaler.scale(model(batch).mean() * (float("inf") if number == 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    rank = rank_of(tracer)
    assert rank.columns["optimizer_calls"] == [1, 0, 1]
    assert rank.totals.updates_skipped == 1


def test_step_blocks_alone_have_their_input_measured(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for number, batch in enumerate(loader_of(8), start=1):
            with tracer.step():
                model(batch).mean().backward()
                if number % 2 == 0:
                    optimizer.step()
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [2, 2]
    assert rank.columns["samples"] == [4, 4]
    assert rank.columns["input_wait_calls"] == [2, 2]
    assert all(rank.columns["input_wait_ns"])


def test_a_loop_that_names_its_loader_is_believed(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in tracer.batches(loader_of(6)):
            update(model, optimizer, batch)
            for _ in loader_of(4):  # forgets eval() and no_grad(): still no training data
                pass
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    assert rank.columns["input_wait_calls"] == [1] * 3


def test_a_named_loader_that_is_torchs_own_is_charged_once(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in tracer.batches(loader_of(6)):
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.totals.micro_batches == 3
    assert rank.totals.calls["input_wait"] == 3


@pytest.mark.parametrize("named", [False, True])
def test_a_group_that_two_epochs_share_is_whole(untouched: Untouched, named: bool) -> None:
    tracer, model, optimizer = untouched()
    loader, number = loader_of(6), 0
    with tracer:
        for _ in range(4):
            for batch in tracer.batches(loader) if named else loader:
                number += 1
                model(batch).mean().backward()
                if number % 2 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    columns = rank_of(tracer).columns
    assert columns["micro_batches"] == [2] * 6
    assert not any((flags or 0) & facts.PARTIAL_GROUP for flags in columns["flags"])


@pytest.mark.parametrize("named", [False, True])
def test_the_short_group_at_an_epochs_end_is_flagged(untouched: Untouched, named: bool) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(10)
    with tracer:
        for _ in range(2):
            for number, batch in enumerate(tracer.batches(loader) if named else loader, start=1):
                model(batch).mean().backward()
                if number % 3 == 0 or number == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
    columns = rank_of(tracer).columns
    assert columns["micro_batches"] == [3, 2, 3, 2]
    partial = [bool((flags or 0) & facts.PARTIAL_GROUP) for flags in columns["flags"]]
    assert partial == [False, True, False, True]


def test_losses_and_random_draws_are_the_same_to_the_bit(untouched: Untouched) -> None:
    def losses(traced: bool) -> Any:
        torch.manual_seed(3)
        tracer, model, optimizer = untouched(enabled=traced)
        twin = copy.deepcopy(model)
        seen = []
        with tracer:
            for _ in range(2):
                for batch in loader_of(12, shuffle=True):
                    twin(batch)
                    loss = model(batch).square().mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    seen.append(loss.item())
        return seen, torch.get_rng_state().tolist()

    assert losses(traced=True) == losses(traced=False)


def test_a_span_that_raised_can_be_entered_again(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with pytest.raises(ValueError, match="mine"), tracer:
        for batch in loader_of(4):
            update(model, optimizer, batch)
            raise ValueError("mine")
    with tracer:
        for batch in loader_of(6):
            update(model, optimizer, batch)
    assert rank_of(tracer).columns["micro_batches"] == [1] * 3
