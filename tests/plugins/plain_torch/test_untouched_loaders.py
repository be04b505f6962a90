"""Loaders of every kind in a loop that nobody changed: nested, forked, persistent, left early, failing."""

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from tests.labs.untouched import (
    Slow,
    Untouched,
    loader_of,
    rank_of,
    update,
)
from traintrace import facts


class Nesting(IterableDataset[torch.Tensor]):
    """Reads another loader inside the worker-less fetch."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in loader_of(Slow(8, ms=2), batch_size=1):
            yield batch[0]


def test_a_loader_read_inside_a_data_set_is_one_wait(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in loader_of(Nesting()):
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 4
    assert rank.columns["samples"] == [2] * 4
    assert rank.columns["input_wait_calls"] == [1] * 4
    assert all((ns or 0) >= 4e6 for ns in rank.columns["input_wait_ns"])


def test_loaders_on_another_thread_and_in_workers_open_nothing(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()

    def read() -> None:
        for _ in loader_of(40):
            pass

    with tracer:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        for batch in loader_of(Nesting(), num_workers=1, multiprocessing_context="fork"):
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 4
    assert rank.totals.calls["input_wait"] == 4
    assert rank.setup.loader.workers == 1


def test_a_child_forked_inside_the_span_trains_and_records_nothing(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in loader_of(4):
            update(model, optimizer, batch)
        session: Any = tracer._session
        written = len(session.journal._entries)
        child = os.fork()
        if not child:
            for batch in loader_of(8):
                update(model, optimizer, batch)
            os._exit(len(session.journal._entries) != written)
        assert os.waitpid(child, 0)[1] == 0
        for batch in loader_of(4):
            update(model, optimizer, batch)
    assert rank_of(tracer).columns["micro_batches"] == [1] * 4


def test_persistent_workers_begin_an_epoch_each_time(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(4, num_workers=1, persistent_workers=True)
    with tracer:
        for _ in range(2):
            for batch in loader:
                update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["epoch"] == [0, 0, 1, 1]
    assert rank.setup.loader == facts.LoaderSetup(1, 2, False, True)


@pytest.mark.parametrize("leave", ["break", "continue", "exception", "generator"])
def test_epochs_that_end_early(untouched: Untouched, leave: str) -> None:
    tracer, model, optimizer = untouched()

    def epoch(count: int) -> None:
        batches: Any = loader_of(8)
        if leave == "generator":
            batches = itertools.islice((batch for batch in batches), count)
        for number, batch in enumerate(batches):
            if leave == "continue" and number >= count:
                continue
            update(model, optimizer, batch)
            if number + 1 == count and leave == "break":
                break
            if number + 1 == count and leave == "exception":
                raise ValueError

    with tracer:
        for count in (2, 3):
            try:
                epoch(count)
            except ValueError:
                assert leave == "exception"
    rank = rank_of(tracer)
    columns = rank.columns
    assert columns["micro_batches"] == [1] * 5
    assert columns["epoch"] == [0, 0, 1, 1, 1]
    assert rank.totals.steps_aborted == (2 if leave == "continue" else 0)
    assert columns["optimizer_calls"] == [1] * 5


def test_the_length_of_a_users_own_sampler_is_never_asked_for(untouched: Untouched) -> None:
    class Drawing:
        def __len__(self) -> int:
            raise AssertionError("torch.randperm(8) would be drawn here")

        def __iter__(self) -> Iterator[list[int]]:
            return iter([[0, 1], [2, 3]])

    tracer, model, optimizer = untouched()
    with tracer:
        for batch in DataLoader(Slow(4), batch_sampler=Drawing()):  # type: ignore[arg-type]
            update(model, optimizer, batch)
    assert rank_of(tracer).columns["micro_batches"] == [1, 1]


def test_an_iterator_older_than_the_span_is_seen(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    iterator = iter(loader_of(6))
    with tracer:
        for batch in iterator:
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    assert rank.setup.batch_size == 2


def test_an_iterator_ends_when_the_loop_lets_go_of_it(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        iterator = iter(loader_of(6))
        gone = weakref.ref(iterator)
        update(model, optimizer, next(iterator))
        del iterator
        assert gone() is None
        named: Any = tracer.batches(loader_of(6))
        iterator = iter(named)
        gone = weakref.ref(iterator._iterator)
        update(model, optimizer, next(iterator))
        del iterator
        assert gone() is None


def test_an_error_inside_the_data_set_passes_and_the_next_batch_counts(
    untouched: Untouched,
) -> None:
    class Broken(Slow):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 2:
                raise OSError("bad file")
            return super().__getitem__(index)

    tracer, model, optimizer = untouched()
    with tracer:
        batches = iter(loader_of(Broken(4), batch_size=1))
        for _ in range(4):
            with contextlib.suppress(OSError):
                update(model, optimizer, next(batches))
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    assert rank.columns["input_wait_calls"] == [1, 1, 2]
    assert rank.totals.unbalanced == 0


def test_an_iterator_renewed_by_hand_carries_its_group_on(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(6)
    with tracer:
        iterator = iter(loader)
        for number in range(1, 13):
            try:
                batch = next(iterator)
            except StopIteration:
                iterator = iter(loader)  # begun while the name still holds the exhausted one
                batch = next(iterator)
            model(batch).mean().backward()
            if number % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
    assert rank_of(tracer).columns["micro_batches"] == [2] * 6


def test_a_group_goes_on_where_persistent_workers_start_over(untouched: Untouched) -> None:
    tracer, model, optimizer = untouched()
    loader = loader_of(8, num_workers=1, persistent_workers=True)
    with tracer:
        for _ in range(2):
            for number, batch in enumerate(loader):
                model(batch).mean().backward()
                if number == 0:
                    break
        optimizer.step()
    assert rank_of(tracer).columns["micro_batches"] == [2]
