"""The ledger of a worker, on a clock that moves when told to: which account each nanosecond is in, what a service is."""

from collections.abc import Generator
from contextlib import suppress

import pytest

from tests.labs.stageclock import StageClock
from traintrace.stages.blocks import current_block
from traintrace.stages.marks import SAID


@pytest.fixture
def clock() -> StageClock:
    return StageClock()


def test_a_worker_that_takes_works_and_puts(clock: StageClock) -> None:
    source, sink = clock.queue("in"), clock.queue("out")
    with clock.stage():
        clock.pass_by(7)  # set-up
        for _ in range(3):
            source.get(100)
            clock.pass_by(50)
            sink.put(20)
            clock.pass_by(5)
        source.get(30)  # a sentinel
        clock.pass_by(1)
    worker = clock.worker()
    assert worker.account_ns == {"busy": 166, "starved": 330, "blocked": 60, "other": 7}
    assert (worker.starved_ns, worker.blocked_ns) == ({"in": 330}, {"out": 60})
    assert worker.end_ns - worker.start_ns == 563
    assert [service[1] for service in worker.services] == [55, 55, 55]
    assert (worker.items, worker.service_count, worker.tokens) == (3, 3, None)
    assert (worker.busy_sum_ns, worker.busy_sum_squares_ns2) == (165, 3 * 55**2)


def test_time_before_a_sources_first_put_is_work_and_after_its_last_is_not(
    clock: StageClock,
) -> None:
    sink = clock.queue("out")
    with clock.stage():
        for _ in range(2):
            clock.pass_by(40)
            sink.put(3)
        clock.pass_by(9)
    worker = clock.worker()
    assert worker.account_ns == {"busy": 80, "starved": 0, "blocked": 6, "other": 9}
    assert [service[1] for service in worker.services] == [40, 40]


def test_what_is_said_to_be_done_is_the_service_and_what_was_guessed_before_is_forgotten(
    clock: StageClock,
) -> None:
    source = clock.queue("in")
    with clock.stage() as stage:
        for _ in range(2):
            for _ in range(4):
                source.get(10)
                clock.pass_by(1)
            clock.pass_by(96)
            stage.done(items=4, tokens=512)
            clock.pass_by(2)
    worker = clock.worker()
    assert worker.counts == SAID
    assert [(busy, items, tokens, said) for _, busy, items, tokens, said in worker.services] == [
        (100, 4, 512, 1),
        (102, 4, 512, 1),
    ]
    assert (worker.items, worker.tokens, worker.service_count, worker.busy_sum_ns) == (
        8,
        1024,
        2,
        202,
    )
    assert worker.account_ns == {"busy": 202, "starved": 80, "blocked": 0, "other": 2}


def test_a_loop_that_polls_is_waiting_while_it_sleeps(clock: StageClock) -> None:
    source, sink = clock.queue("in"), clock.queue("out")
    with clock.stage():
        for _ in range(3):
            with suppress(LookupError):
                source.get(1, succeeds=False)
            clock.pass_by(10)
        source.get(1)
        clock.pass_by(100)
        for _ in range(2):
            with suppress(LookupError):
                sink.put(2, succeeds=False)
            clock.pass_by(30)
        sink.put(2)
    worker = clock.worker()
    assert worker.account_ns == {"busy": 100, "starved": 34, "blocked": 66, "other": 0}
    assert (worker.starved_ns, worker.blocked_ns) == ({"in": 34}, {"out": 66})


def test_after_an_empty_get_a_batch_that_is_worked_on_is_work(clock: StageClock) -> None:
    source, sink = clock.queue("in"), clock.queue("out")
    with clock.stage():
        for _ in range(2):
            source.get(5)
            source.get(5)
            with suppress(LookupError):
                source.get(0, succeeds=False)
            clock.pass_by(200)  # the batch of two
            sink.put(1)
    assert clock.worker().account_ns == {"busy": 400, "starved": 20, "blocked": 2, "other": 0}


def test_a_stage_inside_a_stage_is_not_billed_twice(clock: StageClock) -> None:
    source = clock.queue("in")
    with clock.stage("outer"):
        source.get(5)
        clock.pass_by(10)
        with clock.stage("inner") as inner:
            clock.pass_by(100)
            inner.done()
        clock.pass_by(20)
        source.get(5)
    outer, inner_worker = clock.update().workers
    assert outer.account_ns == {"busy": 30, "starved": 10, "blocked": 0, "other": 100}
    assert inner_worker.account_ns == {"busy": 100, "starved": 0, "blocked": 0, "other": 0}


def test_a_place_that_is_held_again_is_one_worker(clock: StageClock) -> None:
    source = clock.queue("in")
    for _ in range(5):
        with clock.stage() as stage:
            source.get(10)
            clock.pass_by(40)
            stage.done()
        clock.pass_by(1_000)
    (worker,) = clock.update().workers
    assert worker.account_ns == {"busy": 200, "starved": 50, "blocked": 0, "other": 4_000}
    assert worker.items == 5


def test_a_worker_that_raises_keeps_what_it_did(clock: StageClock) -> None:
    source = clock.queue("in")
    with suppress(ZeroDivisionError), clock.stage():
        source.get(10)
        clock.pass_by(30)
        raise ZeroDivisionError
    assert clock.worker().account_ns == {"busy": 30, "starved": 10, "blocked": 0, "other": 0}


def test_a_worker_that_waits_is_told_as_waiting_while_it_does(clock: StageClock) -> None:
    source, seen = clock.queue("in"), []

    def look(ns: int) -> None:
        clock.now_ns += ns
        if ns == 500:
            seen.append(clock.worker())

    source._pass_by = look
    with clock.stage():
        source.get(10)
        clock.pass_by(30)
        source.get(500)
    (meanwhile,) = seen
    assert meanwhile.account_ns == {"busy": 30, "starved": 510, "blocked": 0, "other": 0}
    assert meanwhile.starved_ns == {"in": 510}
    assert meanwhile.end_ns == clock.now_ns
    assert clock.worker().account_ns == {"busy": 30, "starved": 510, "blocked": 0, "other": 0}


def test_the_end_of_the_session_ends_who_is_at_work_or_waits(clock: StageClock) -> None:
    source = clock.queue("in")

    def end(ns: int) -> None:
        clock.now_ns += ns
        clock.recorder.end()
        clock.now_ns += 1_000_000

    with clock.stage():
        source.get(10)
        clock.pass_by(30)
        source._pass_by = end
        source.get(500)
        clock.pass_by(70)
    worker = clock.worker()
    assert worker.account_ns == {"busy": 30, "starved": 510, "blocked": 0, "other": 0}
    assert type(source).__name__ == "TimedQueue"
    assert not hasattr(source, "__traintrace_queue__")
    assert not clock.update().workers


def test_a_second_clock_that_is_behind_moves_no_time_backwards(clock: StageClock) -> None:
    with clock.stage() as stage:
        clock.pass_by(100)
        stage.done()
    clock.pass_by(-20)
    with clock.stage() as stage:
        clock.pass_by(120)
        stage.done()
    worker = clock.worker()
    assert sum(worker.account_ns.values()) == worker.end_ns - worker.start_ns == 200


def test_what_follows_the_last_output_is_no_part_of_its_service(clock: StageClock) -> None:
    source, sink = clock.queue("in"), clock.queue("out")
    with clock.stage():
        source.get(10)
        clock.pass_by(30)
        sink.put(5)
        clock.pass_by(1_000)
    worker = clock.worker()
    assert worker.account_ns == {"busy": 30, "starved": 10, "blocked": 5, "other": 1_000}
    assert (worker.busy_sum_ns, worker.items) == (30, 1)


def test_a_generator_in_a_stage_of_its_own_may_outlive_the_one_it_was_begun_in(
    clock: StageClock,
) -> None:
    """The outer block was never left: its place stayed taken, and each such loop took one more."""

    def items() -> Generator[int, None, None]:
        with clock.stage("read"):
            while True:
                clock.pass_by(3)
                yield 1

    for _ in range(2):
        with clock.stage("train") as stage:
            reading = items()
            for _ in range(2):
                next(reading)
                stage.done()
        reading.close()
        clock.pass_by(100)
    train, read = clock.update().workers
    assert (train.stage, train.items, read.stage) == ("train", 4, "read")
    assert current_block() is None
    assert sum(train.account_ns.values()) == train.end_ns - train.start_ns
