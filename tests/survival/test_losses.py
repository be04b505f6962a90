"""Which ranks are lost, and how many seconds of their record are missing."""

from dataclasses import replace

from tests.labs.runs import make_rank
from traintrace.facts import RankFacts, RunStatus
from traintrace.runs.losses import End, missing_s, settle
from traintrace.store.rankfile import RankFile

RUNNING = End(over=False, told=False, ended_at=None, silent=frozenset())
OVER = replace(RUNNING, over=True)
S = 10**9


def file_of_rank(
    rank: int,
    wall_s: float = 10.0,
    status: RunStatus = "running",
    attempt: int = 0,
    alive_s: float = 0.0,
) -> RankFile:
    """Give a rank that recorded for some seconds, and was seen alive so much longer."""
    made = make_rank(3)
    totals = replace(made.totals, start_ns=100 * S, wall_ns=int(wall_s * S))
    facts = replace(made, rank=rank, attempt=attempt, status=status, totals=totals)
    seen_ns = int((100 + wall_s + alive_s) * S)
    suffix = f".a{attempt}" if attempt else ""
    return RankFile(f"/r/ranks/rank-{rank:05d}{suffix}.sqlite", facts, "", seen_ns, seen_ns)


def statuses(files: list[RankFile]) -> list[str]:
    return [file.facts.status for file in files if file.facts is not None]


def seconds(files: list[RankFile], ended_at: float | None = None) -> float | None:
    return missing_s(files[0], files, ended_at, 0)


def test_a_running_rank_is_left_alone() -> None:
    files, told = settle([file_of_rank(0), file_of_rank(1)], RUNNING)
    assert (statuses(files), told) == (["running", "running"], [])


def test_the_seconds_are_counted_to_the_end_of_the_other_ranks() -> None:
    files = [file_of_rank(0, 10.0), file_of_rank(1, 14.5, "completed")]
    settled, told = settle(files, OVER)
    assert statuses(settled) == ["lost", "completed"]
    assert told == [
        "rank 0 ended without a word after step 3; the 4.50 s from there to the end of the run are not "
        "in its record"
    ]


def test_a_rank_that_was_alive_without_completing_a_step_lost_that_time() -> None:
    assert seconds([file_of_rank(0, alive_s=7.0)]) == 7.0


def test_nothing_known_of_the_end_is_no_zero() -> None:
    assert seconds([file_of_rank(0)]) is None
    _, told = settle([file_of_rank(0)], OVER)
    assert "its last half second may be missing" in told[0]


def test_the_end_that_a_launcher_wrote_counts_whatever_the_wall_clock_did() -> None:
    plain = file_of_rank(0)
    assert seconds([plain], 112.0) == 2.0
    # Set ahead by an hour before the last flush: the launcher's clock shows the hour too.
    ahead = replace(plain, seen_unix_ns=plain.seen_ns + 3600 * S)
    assert seconds([ahead], 3712.0) == 2.0
    back = replace(plain, seen_unix_ns=plain.seen_ns - 3600 * S)
    assert seconds([back], -3488.0) == 2.0


def test_ranks_of_an_earlier_attempt_are_lost_though_the_job_goes_on() -> None:
    files, told = settle([file_of_rank(0), file_of_rank(0, attempt=1)], RUNNING)
    assert statuses(files) == ["lost", "running"]
    assert told[0].startswith("rank 0 ended without a word")


def test_a_rank_whose_process_is_gone_is_lost_at_once() -> None:
    files, _ = settle([replace(file_of_rank(0), is_gone=True), file_of_rank(1)], RUNNING)
    assert statuses(files) == ["lost", "running"]


def test_a_silent_rank_is_named_while_the_run_goes_on_and_lost_once_it_ended() -> None:
    files = [file_of_rank(0), file_of_rank(1)]
    silent = replace(RUNNING, silent=frozenset({files[1].location}))
    settled, told = settle(files, silent)
    assert statuses(settled) == ["running", "running"]
    assert told == ["rank 1 wrote nothing for a while: stopped, hanging outside Python, or killed"]
    settled, _ = settle(files, replace(silent, told=True))
    assert statuses(settled) == ["running", "lost"]


def test_a_thousand_lost_ranks_take_few_lines() -> None:
    _, told = settle([file_of_rank(rank) for rank in range(1000)], OVER)
    assert len(told) == 5
    assert "996 more ranks" in told[-1]


def test_a_rank_without_record_is_named_with_its_start() -> None:
    nothing = RankFile("/r/ranks/rank-00002.a1.sqlite", None, "its file is empty")
    _, told = settle([nothing], RUNNING)
    assert told == ["rank 2 of start 2 left no record: its file is empty"]


def test_facts_are_not_touched() -> None:
    file = file_of_rank(0)
    settle([file], OVER)
    assert isinstance(file.facts, RankFacts)
    assert file.facts.status == "running"
