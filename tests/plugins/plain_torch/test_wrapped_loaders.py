"""Loaders that wrap torch's and are asked through `tracer.batches`: what they do inside a request."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from tests.labs.untouched import Slow, Untouched, loader_of, rank_of, update
from traintrace import facts

pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own


class Edges(IterableDataset[torch.Tensor]):
    """Is slow to begin and to end; each row is read by another loader, which has edges of its own."""

    def __init__(self, ms: float = 25, rows: int = 4) -> None:
        self.ms, self.rows = ms, rows
        self.edges_ns = self.reading_ns = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        self.edges_ns += _sleep(self.ms)
        return self._rows()

    def _rows(self) -> Iterator[torch.Tensor]:
        for _ in range(self.rows):
            began = time.perf_counter_ns()
            (row,) = DataLoader(_Row(self.ms / 5), batch_size=None)
            self.reading_ns += time.perf_counter_ns() - began
            yield row
        self.edges_ns += _sleep(self.ms)


class _Row(IterableDataset[torch.Tensor]):
    def __init__(self, ms: float) -> None:
        self.ms = ms

    def __iter__(self) -> Iterator[torch.Tensor]:
        _sleep(self.ms)
        return self._one()

    def _one(self) -> Iterator[torch.Tensor]:
        yield torch.ones(4)
        _sleep(self.ms)


def _sleep(ms: float) -> int:
    began = time.perf_counter_ns()
    time.sleep(ms / 1e3)
    return time.perf_counter_ns() - began


def _shard(data: Any) -> Any:
    return pytest.importorskip("accelerate.data_loader").DataLoaderShard(data, batch_size=1)


def _skipping(data: Any) -> Any:
    return pytest.importorskip("accelerate.data_loader").SkipDataLoader(data, batch_size=1)


def _fabric(data: Any) -> Any:
    wrap = pytest.importorskip("lightning.fabric.wrappers")._FabricDataLoader
    return wrap(DataLoader(data, batch_size=1))


class _OneAhead:
    """What somebody writes who wants to know which batch is the last."""

    def __init__(self, data: Any) -> None:
        self.loader = DataLoader(data, batch_size=1)

    def __iter__(self) -> Iterator[Any]:
        iterator = iter(self.loader)
        batch = next(iterator)
        for following in iterator:
            yield batch
            batch = following
        yield batch


@pytest.mark.parametrize("wrap", [_shard, _skipping, _fabric, _OneAhead])
def test_beginning_and_ending_are_no_wait_and_reading_is(
    untouched: Untouched, wrap: Callable[[Any], Any]
) -> None:
    data = Edges()
    loader = wrap(data)
    tracer, model, optimizer = untouched()
    with tracer:
        for _ in range(2):
            for batch in tracer.batches(loader):
                update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 8
    assert rank.columns["epoch"] == [0] * 4 + [1] * 4
    assert rank.totals.account_ns["epoch_boundary"] >= data.edges_ns >= 100e6
    # The loaders that read a row have edges too: those are part of reading it.
    assert rank.totals.account_ns["input_wait"] >= data.reading_ns >= 80e6
    assert rank.totals.unbalanced == rank.totals.steps_aborted == 0


@pytest.mark.parametrize(
    ("wrap", "is_ahead"), [(_shard, True), (_skipping, False), (_fabric, False)]
)
@pytest.mark.parametrize("give", [lambda loader: loader, iter], ids=["loader", "iterator"])
def test_rows_say_whether_their_wait_was_for_a_later_batch(
    untouched: Untouched, wrap: Callable[[Any], Any], give: Callable[[Any], Any], is_ahead: bool
) -> None:
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in tracer.batches(give(wrap(Slow(3)))):
            update(model, optimizer, batch)
    flags = [bool((flags or 0) & facts.LOOKAHEAD) for flags in rank_of(tracer).columns["flags"]]
    assert flags == [is_ahead] * 3


def test_a_loader_named_as_it_is_has_its_iterator_made_before_the_first_request(
    untouched: Untouched,
) -> None:
    data = Edges(rows=3)
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in tracer.batches(DataLoader(data, batch_size=1)):
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.totals.account_ns["epoch_boundary"] >= data.edges_ns
    assert rank.totals.account_ns["input_wait"] >= data.reading_ns
    assert not any((flags or 0) & facts.LOOKAHEAD for flags in rank.columns["flags"])


def test_loaders_one_after_the_other_end_inside_a_request(untouched: Untouched) -> None:
    first, second = Edges(rows=2), Edges(rows=2)
    tracer, model, optimizer = untouched()
    loaders = (DataLoader(data, batch_size=1) for data in (first, second))
    with tracer:
        for batch in tracer.batches(itertools.chain.from_iterable(loaders)):
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 4
    assert rank.totals.account_ns["epoch_boundary"] >= first.edges_ns + second.edges_ns
    assert rank.totals.account_ns["input_wait"] >= first.reading_ns + second.reading_ns


def test_a_loader_on_another_thread_leaves_the_wait_alone(untouched: Untouched) -> None:
    def from_thread() -> Iterator[Any]:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(DataLoader(data, batch_size=1)))
        thread.start()
        thread.join()
        yield from found

    data = Edges(rows=2)
    tracer, model, optimizer = untouched()
    with tracer:
        for batch in tracer.batches(from_thread()):
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    # All of it passed while the training thread waited for its first batch.
    assert (rank.columns["input_wait_ns"][0] or 0) >= data.edges_ns + data.reading_ns
    assert rank.totals.unbalanced == 0


def test_an_error_inside_a_wrapped_fetch_leaves_the_next_loop_as_it_is(
    untouched: Untouched,
) -> None:
    class Failing(Slow):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 1:
                raise OSError("gone")
            return super().__getitem__(index)

    tracer, model, optimizer = untouched()
    data = Edges(rows=2)
    with tracer:
        with pytest.raises(OSError, match="gone"):
            for batch in tracer.batches(_OneAhead(Failing(3))):
                update(model, optimizer, batch)
        for _ in loader_of(data, batch_size=1):  # not named, so not looked at
            pass
        for batch in tracer.batches(_OneAhead(Slow(3))):
            update(model, optimizer, batch)
    rank = rank_of(tracer)
    assert rank.columns["micro_batches"] == [1] * 3
    # The request that failed has begun a step, and the loop that is not named lies in it: neither as
    # the beginning and end of a loader that feeds training, nor as a wait.
    assert rank.totals.account_ns["batch_prep"] >= data.edges_ns + data.reading_ns
    assert rank.totals.unbalanced == 0
