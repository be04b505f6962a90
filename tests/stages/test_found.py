"""The ledger of a worker that was at work already when its session began: nothing of before is counted, nor guessed."""

import pytest

from traintrace.stages.ledger import WorkerLedger
from traintrace.stages.marks import (
    DONE,
    END,
    FOUND,
    GOT,
    GUESSED,
    MADE,
    PLACED,
    SAID,
    SHIFT,
    queue_code,
)

BEGAN = 1_000


class Found:
    """A ledger that is written to by what a worker does after it was found."""

    def __init__(self) -> None:
        self.now = BEGAN
        self.ledger = WorkerLedger()
        self._write(self.now, self.now, FOUND)

    def work(self, ns: int) -> None:
        self.now += ns

    def get(self, wait_ns: int = 0) -> None:
        self.now += wait_ns
        self._write(self.now - wait_ns, self.now, queue_code(0) + GOT)

    def put(self, wait_ns: int = 0) -> None:
        self.now += wait_ns
        self._write(self.now - wait_ns, self.now, queue_code(1) + PLACED)

    def done(self, items: int = 1) -> None:
        self._write(self.now, items << SHIFT, DONE)

    def end(self) -> None:
        self._write(self.now, self.now, END)

    def _write(self, *entry: int) -> None:
        self.ledger.replay(entry)

    @property
    def services(self) -> list[int]:
        ledger = self.ledger
        found = [row[1] for row in ledger.services if row[4] == ledger.counts]
        assert (ledger.service_count, ledger.busy_sum_ns) == (len(found), sum(found))
        return found


@pytest.fixture
def found() -> Found:
    return Found()


def test_until_its_first_operation_nobody_knows_what_it_is_at(found: Found) -> None:
    """A worker that enters the block with a put was at work until then; this one may have waited."""
    found.work(500)
    found.put(20)
    found.work(50)
    found.put(7)
    found.end()
    assert found.ledger.account_ns == {"busy": 50, "starved": 0, "blocked": 27, "other": 500}
    assert found.ledger.start_ns == BEGAN
    assert found.services == [50]
    assert found.ledger.counts == MADE


def test_a_wait_that_it_was_in_is_counted_from_the_beginning_of_the_session(found: Found) -> None:
    found.put(900)
    for _ in range(2):
        found.work(50)
        found.put(10)
    found.end()
    assert found.ledger.account_ns == {"busy": 100, "starved": 0, "blocked": 920, "other": 0}
    assert found.services == [50, 50]


def test_an_item_that_it_waited_for_is_a_whole_one(found: Found) -> None:
    found.get(300)
    found.work(40)
    found.put()
    found.get(5)
    found.end()
    assert found.services == [40]
    assert found.ledger.items == 1
    assert found.ledger.account_ns["starved"] == 305


def test_outputs_of_the_item_that_it_was_at_are_no_services(found: Found) -> None:
    """It splits a batch into hundreds: each part would count as an item of its own."""
    for _ in range(100):
        found.work(1)
        found.put()
    for _ in range(2):
        found.get()
        for _ in range(100):
            found.work(10)
            found.put()
    found.get()
    assert found.ledger.counts == GUESSED
    assert found.services == [1_000, 1_000]
    assert found.ledger.items == 2


def test_one_whole_item_after_parts_is_one(found: Found) -> None:
    for _ in range(3):
        found.put()
        found.work(1)
    found.get()
    found.work(10)
    found.put()
    found.end()
    assert (found.ledger.counts, found.ledger.items) == (GUESSED, 1)


def test_a_source_that_is_told_to_stop_stays_a_source(found: Found) -> None:
    for _ in range(4):
        found.put()
        found.work(10)
    found.get()
    found.end()
    assert found.services == [10, 10, 10]
    assert found.ledger.counts == MADE


def test_what_it_says_first_is_a_part(found: Found) -> None:
    for _ in range(3):
        for _ in range(4):
            found.get(2)
            found.work(10)
        found.done(items=4)
    assert found.ledger.counts == SAID
    assert found.services == [40, 40]
    assert found.ledger.items == 8


def test_who_takes_the_place_later_was_not_found(found: Found) -> None:
    found.end()
    found.ledger.replay((found.now, found.now, 0))
    found.work(30)
    found.put()
    assert found.services == [30]
