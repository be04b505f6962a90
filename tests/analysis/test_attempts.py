"""The starts of a job: how long each lasted, and the time between them."""

from dataclasses import replace

from tests.labs.runs import START_NS, make_rank, make_run
from traintrace.facts import RankFacts, RunStatus
from traintrace_analysis.history import list_attempts
from traintrace_analysis.pipeline import analyse

S = 10**9


def rank_of(
    attempt: int, start_s: float, wall_s: float, status: RunStatus, seen_s: float | None = None
) -> RankFacts:
    """Give a rank that began and was alive last at these seconds."""
    made = make_rank(3, attempt=attempt)
    start_ns = START_NS + int(start_s * S)
    totals = replace(made.totals, start_ns=start_ns, wall_ns=int(wall_s * S))
    seen_ns = None if seen_s is None else START_NS + int(seen_s * S)
    return replace(made, totals=totals, status=status, seen_ns=seen_ns)


def test_a_killed_attempt_lasted_until_it_was_alive_last() -> None:
    killed = rank_of(0, 0, 10, "lost", seen_s=14)
    first, second = list_attempts(make_run(killed, rank_of(1, 20, 5, "completed", seen_s=26)))
    assert (first.wall_s, second.wall_s) == (14, 5)
    assert (first.downtime_before_s, second.downtime_before_s) == (None, 6)


def test_an_attempt_of_which_nothing_more_is_known_ends_with_its_last_row() -> None:
    first, second = list_attempts(
        make_run(rank_of(0, 0, 10, "lost"), rank_of(1, 20, 5, "completed"))
    )
    assert (first.wall_s, second.downtime_before_s) == (10, 10)


def test_a_rank_without_moments_stretches_nothing() -> None:
    nothing = rank_of(0, 0, 0, "lost")
    nothing = replace(nothing, totals=replace(nothing.totals, start_ns=0))
    beside, alone = list_attempts(
        make_run(
            rank_of(0, 0, 10, "completed"),
            replace(nothing, rank=1),
            replace(nothing, attempt=1),
        )
    )
    assert beside.wall_s == 10
    assert (alone.wall_s, alone.downtime_before_s) == (0, None)


def test_clocks_of_two_machines_give_no_negative_downtime() -> None:
    _, second = list_attempts(make_run(rank_of(0, 0, 10, "failed"), rank_of(1, 9, 5, "completed")))
    assert second.downtime_before_s is None


def test_a_restart_with_fewer_ranks_misses_none() -> None:
    ranks = [make_rank(40, rank=rank) for rank in range(3)]
    ranks += [make_rank(40, rank=rank, attempt=1, start_ns=START_NS + 60 * S) for rank in range(2)]
    analysis = analyse(make_run(*ranks, world_size=2))
    assert analysis.window.expected_ranks == (0, 1)
    assert "SILENT_RANK" not in [finding.kind for finding in analysis.findings]
    smaller = analyse(make_run(*ranks[:-1], world_size=2))
    assert "SILENT_RANK" in [finding.kind for finding in smaller.findings]
