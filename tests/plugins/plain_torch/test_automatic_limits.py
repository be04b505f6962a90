"""Who goes before automatic tracing, and loops that are no ordinary ones."""

import gc
import os
import queue
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.labs.automatic import Script, made
from tests.labs.untouched import loader_of, update
from traintrace import open_run
from traintrace.registry import REGISTRY
from traintrace_plain_torch import trace, trace_step


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path)
    script.attach()
    yield script
    script.detach()


def test_a_trace_that_the_script_asks_for_wins(script: Script) -> None:
    model, optimizer = made()
    with trace(model, optimizer, run_dir=script.runs, name="own", print_report=False):
        for batch in loader_of(6):
            update(model, optimizer, batch)
    for batch in loader_of(6):
        update(model, optimizer, batch)
    assert script.rank().totals.steps == 3
    assert script.folders()[0].name == "own"


def test_what_was_trained_before_the_own_trace_is_a_run_of_its_own(script: Script) -> None:
    model, optimizer = made()
    for batch in loader_of(4):
        update(model, optimizer, batch)
    with trace(model, optimizer, run_dir=script.runs, name="own", print_report=False):
        for batch in loader_of(6):
            update(model, optimizer, batch)
    script.detach()
    steps = {
        folder.name.partition("-")[0]: open_run(folder).facts([]).ranks[0].totals.steps
        for folder in script.folders()
    }
    assert steps == {"plain_torch": 2, "own": 3}


def test_a_look_at_a_batch_before_the_own_trace_leaves_nothing(script: Script) -> None:
    model, optimizer = made()
    next(iter(loader_of(2)))
    with trace(model, optimizer, run_dir=script.runs, name="own", print_report=False):
        for batch in loader_of(6):
            update(model, optimizer, batch)
    assert script.rank().totals.steps == 3


def test_marked_steps_win(script: Script) -> None:
    model, optimizer = made()
    for batch in loader_of(6):
        with trace_step(model, optimizer, run_dir=script.runs, name="own", print_report=False):
            update(model, optimizer, batch)
    trace_step.finish()
    assert script.rank().totals.steps == 3
    assert script.folders()[0].name == "own"


def test_a_script_that_turned_tracing_off_is_not_traced(script: Script) -> None:
    model, optimizer = made()
    with trace(model, optimizer, enabled=False):
        for batch in loader_of(6):
            update(model, optimizer, batch)
    script.detach()
    assert script.folders() == []


def test_a_loop_without_a_loader_has_a_step_for_each_update(script: Script) -> None:
    model, optimizer = made()
    for _ in range(5):
        update(model, optimizer, torch.ones(2, 4))
    rank = script.rank()
    assert rank.totals.steps == 4  # before the first update nothing was there to begin with
    assert rank.columns["backward_calls"] == [1] * 4
    assert "no DataLoader" in rank.unmeasured["input_wait"]
    assert rank.totals.steps_aborted == 0  # nothing of a step came after the last update
    # A group of backwards and one update are not told from two losses of one batch.
    assert (rank.totals.micro_batches, rank.setup.accumulation) == (0, None)


def test_a_step_without_a_loader_that_the_end_cuts_off_is_dropped(script: Script) -> None:
    model, optimizer = made()
    for _ in range(5):
        update(model, optimizer, torch.ones(2, 4))
    model(torch.ones(2, 4)).mean().backward()
    rank = script.rank()
    assert (rank.totals.steps, rank.totals.steps_aborted) == (4, 1)


def test_optimizers_that_take_turns_without_a_loader_make_one_step(script: Script) -> None:
    (first, of_first), (second, of_second) = made(), made()
    for _ in range(5):
        update(first, of_first, torch.ones(2, 4))
        update(second, of_second, torch.ones(2, 4))
    rank = script.rank()
    assert rank.columns["optimizer_calls"] == [2] * 4


def test_models_that_are_trained_in_turn_are_followed_and_let_go(script: Script) -> None:
    gone: list[weakref.ref[nn.Module]] = []

    def train_fold() -> None:
        model, optimizer = made()
        gone.append(weakref.ref(model))
        for batch in loader_of(6):
            update(model, optimizer, batch)

    made()  # torch's own first optimizer stays in a cycle
    gc.collect()
    gc.disable()  # it must not take a collection
    try:
        for _ in range(3):
            train_fold()
            assert gone[-1]() is None
    finally:
        gc.enable()
    rank = script.rank()
    assert rank.columns["forward_calls"] == [1] * 9
    assert rank.columns["epoch"] == [0] * 3 + [1] * 3 + [2] * 3


def test_an_error_in_the_first_step_is_a_failed_run(script: Script) -> None:
    model, _optimizer = made()
    for batch in loader_of(2):
        model(batch).mean().backward()
        break
    session: Any = REGISTRY.current()
    session.close_at_exit(RuntimeError("out of memory"))
    assert open_run(script.folders()[0]).facts([]).status == "failed"


def test_a_thread_that_fetches_batches_is_not_taken_for_the_one_that_trains(
    script: Script,
) -> None:
    model, optimizer = made()
    waiting: queue.Queue[Any] = queue.Queue(2)

    def fetch() -> None:
        for batch in loader_of(12):
            waiting.put(batch)
        waiting.put(None)

    thread = threading.Thread(target=fetch)
    thread.start()
    while (batch := waiting.get()) is not None:
        update(model, optimizer, batch)
    thread.join()
    rank = script.rank()
    assert rank.totals.steps == 5  # one from each update to the next
    assert rank.columns["forward_calls"] == [1] * 5


def test_a_forked_child_that_trains_is_left_alone(script: Script) -> None:
    model, optimizer = made()
    child = os.fork()
    if not child:
        for batch in loader_of(4):
            update(model, optimizer, batch)
        os._exit(0 if REGISTRY.current() is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert script.folders() == []
