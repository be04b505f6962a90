"""Segments: whatever moments a rank's file is cut at, put together again it is the same file."""

import gzip
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.labs.published import ROWS_OF_A_FLUSH, WrittenRank, contents
from traintrace import facts
from traintrace.publishing.assembly import assemble
from traintrace.store.reader import RankReader
from traintrace.store.schema import STEP_COLUMNS

ACTIONS: Mapping[str, Callable[[WrittenRank], None]] = {
    "flush": WrittenRank.flush,
    "one step": lambda rank: rank.flush(1, late=1),
    "nothing new": lambda rank: rank.flush(0, late=0, events=0),
    "cut": WrittenRank.cut,
    "abandon": WrittenRank.abandon,
    "late value": WrittenRank.log_late,
}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*ACTIONS, "flush", "flush", "cut"]), min_size=1, max_size=30))
def test_any_cuts_of_a_run_make_the_whole_file_again(actions: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rank = WrittenRank(Path(folder))
        rank.flush()
        for action in actions:
            ACTIONS[action](rank)
        rank.writer.close()
        rank.cut()
        assert contents(rank.assembled()) == contents(rank.path)


@pytest.fixture
def rank(tmp_path: Path) -> WrittenRank:
    (tmp_path / "rank").mkdir()
    rank = WrittenRank(tmp_path / "rank")
    for _ in range(4):
        rank.flush()
        rank.cut()
    return rank


def test_a_later_segment_holds_only_what_is_new(rank: WrittenRank) -> None:
    alone = rank.folder / "alone.sqlite"
    assemble({4: rank.segments[4]}, alone)
    # Three steps of the segment before had no device times when it was cut.
    assert [row[0] for row in contents(alone)["steps"]] == list(range(19, 29))
    assert [row[0] for row in contents(alone)["events"]] == [4]


def test_device_times_that_came_later_replace_the_missing_ones(rank: WrittenRank) -> None:
    reader = RankReader(str(rank.assembled()))
    times = reader.columns(["forward_device_ns"])["forward_device_ns"]
    reader.close()
    assert list(times) == [*range(1, 26), None, None, None]


def test_steps_that_are_given_up_are_flagged_in_what_was_sent_before(rank: WrittenRank) -> None:
    rank.abandon()
    rank.flush()
    rank.cut()
    # Steps 6 to 15 are folded.
    flags = [row[STEP_COLUMNS.index("flags") + 1] for row in contents(rank.assembled())["steps"]]
    assert flags == [facts.ABANDONED] * 18 + [0] * ROWS_OF_A_FLUSH


def test_rows_that_were_folded_into_blocks_go(rank: WrittenRank) -> None:
    for _ in range(3):
        rank.flush()
    rank.cut()
    found = contents(rank.assembled())
    assert found["blocks"]
    assert [row[0] for row in found["steps"]] == [*range(1, 6), *range(26, 50)]


def test_numbers_of_deleted_rows_that_are_given_again_are_sent(tmp_path: Path) -> None:
    rank = WrittenRank(tmp_path)
    rank.log_late()
    rank.cut()
    rank.writer.run_all([("DELETE FROM scalars", ())])
    rank.log_late()
    rank.flush()
    rank.writer.run_all([("UPDATE scalars SET value = 2.0 WHERE rowid = 1", ())])
    rank.cut()
    assert contents(rank.assembled())["scalars"] == contents(rank.path)["scalars"]


def damaged(data: bytes) -> Mapping[str, bytes]:
    middle = len(data) // 2
    return {
        "cut short": data[:middle],
        "empty": b"",
        "one byte changed": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "something else": b"SQLite format 3\0",
    }


@pytest.mark.parametrize("how", damaged(b"xx"))
def test_a_damaged_segment_costs_its_own_rows_and_is_named(rank: WrittenRank, how: str) -> None:
    rank.segments[2] = damaged(rank.segments[2])[how]
    check_loss(rank, "2", lost=range(8, 12))


def test_a_rank_s_own_file_in_the_place_of_a_segment_is_a_damaged_one(rank: WrittenRank) -> None:
    assert rank.writer.close() is None
    rank.segments[2] = gzip.compress(rank.path.read_bytes())
    check_loss(rank, "2", lost=range(8, 12))


def test_a_missing_segment_costs_its_own_rows_and_is_named(rank: WrittenRank) -> None:
    del rank.segments[2]
    check_loss(rank, "2", lost=range(8, 12))


def check_loss(rank: WrittenRank, numbers: str, lost: range) -> None:
    """Steps 12 to 14 of the second segment were sent again with the third."""
    whole, found = contents(rank.path), contents(rank.assembled())
    kept = [row[0] for row in whole["steps"] if row[0] not in lost]
    assert [row[0] for row in found["steps"]] == kept
    assert found["totals"] == whole["totals"]
    assert len(found["events"]) == len(whole["events"]) - 1
    meta = dict(found["meta"])
    assert meta["warnings"] == [
        f"published segment {numbers} is missing or damaged: {len(lost)} steps are in the sums and have no rows"
    ]
    assert meta["counters"]["dropped_rows"] == len(lost)


def test_the_last_segment_lost_leaves_the_run_as_of_the_one_before(rank: WrittenRank) -> None:
    before = contents(rank.assembled(without=[4]))
    assert [row[0] for row in before["steps"]] == list(range(1, 22))
    assert dict((name, ns) for name, ns, *_ in before["totals"])["forward"] == 210


def test_no_segment_that_can_be_read_makes_nothing_up(rank: WrittenRank) -> None:
    into = rank.folder / "nothing.sqlite"
    result = assemble({1: b"", 2: b"\0"}, into)
    assert (list(result.used), list(result.lost)) == ([], [1, 2])
    assert contents(into)["steps"] == contents(into)["meta"] == []


def test_cutting_leaves_no_temporary_file_and_no_lock(rank: WrittenRank) -> None:
    rank.flush()
    rank.cut()
    assert rank.writer.close() is None
    assert [path.name for path in rank.folder.iterdir()] == ["rank-00003.sqlite"]
