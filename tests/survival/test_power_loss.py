"""Power loss: the file and its log, cut at any byte, give every step of the flushes before the cut."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from traintrace import open_run
from traintrace.facts import RankFacts, RunFacts
from traintrace_reporting.finish import read_or_make
from traintrace_reporting.schema import validate

from .conftest import Recorded, file_of, log_of

CopyOf = Callable[[Path], Path]
DRAWN = random.Random(5)


def read(folder: Path) -> RunFacts:
    return open_run(folder).facts(["step", "start_ns", "duration_ns"])


def steps_of(facts: RunFacts) -> list[Any]:
    return list(facts.ranks[0].columns["step"]) if facts.ranks else []


def cuts_of_the_log(commits: list[tuple[int, int]], drawn: int) -> list[int]:
    at_commits = [size + more for size, _ in commits[::7] for more in (-1, 0, 1)]
    return [0, 1, 31, 32, *at_commits, *(DRAWN.randrange(commits[-1][0]) for _ in range(drawn))]


def check_cut_log(copy: Path, cut: int, commits: list[tuple[int, int]]) -> None:
    log = log_of(copy)
    log.write_bytes(log.read_bytes()[:cut])
    safe = max((steps for size, steps in commits if size <= cut), default=0)
    facts = read(copy)
    assert steps_of(facts) == list(range(1, len(steps_of(facts)) + 1))
    assert len(steps_of(facts)) >= safe
    if facts.ranks:
        assert facts.ranks[0].totals.last_step == len(steps_of(facts))


def test_every_flush_before_the_cut_is_there(recorded: Recorded, copy_of: CopyOf) -> None:
    for cut in cuts_of_the_log(recorded.commits, 60):
        check_cut_log(copy_of(recorded.killed), cut, recorded.commits)


@pytest.mark.long
def test_every_flush_before_the_cut_is_there_at_many_cuts(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    for cut in cuts_of_the_log(recorded.commits, 2000):
        check_cut_log(copy_of(recorded.killed), cut, recorded.commits)


def test_what_a_torn_write_left_behind_the_last_flush_changes_nothing(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    whole = steps_of(read(copy_of(recorded.killed)))
    for size in (1, 24, 4120, 9000):
        copy = copy_of(recorded.killed)
        with log_of(copy).open("ab") as log:
            log.write(DRAWN.randbytes(size))
        assert steps_of(read(copy)) == whole


def rows(facts: RunFacts) -> set[tuple[int | None, ...]]:
    return set(zip(*facts.ranks[0].columns.values(), strict=True)) if facts.ranks else set()


def warnings_of(facts: RunFacts) -> str:
    ranks: list[RankFacts] = list(facts.ranks)
    return " ".join([*facts.warnings, *(text for rank in ranks for text in rank.warnings)])


def test_a_closed_file_cut_at_any_byte_tells_no_wrong_step_and_says_what_is_missing(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    content, whole = file_of(recorded.closed).read_bytes(), read(recorded.closed)
    cuts = [0, 1, 99, 100, 4095, 4096, *(DRAWN.randrange(len(content)) for _ in range(14))]
    for cut in cuts:
        copy = copy_of(recorded.closed)
        file_of(copy).write_bytes(content[:cut])
        facts = read(copy)
        assert rows(facts) <= rows(whole)
        if len(rows(facts)) < len(rows(whole)):
            assert "rank 0 left no record" in warnings_of(facts) or "damaged" in warnings_of(facts)


def test_rows_before_and_after_a_damaged_page_are_read(recorded: Recorded, copy_of: CopyOf) -> None:
    content = file_of(recorded.closed).read_bytes()
    whole = steps_of(read(recorded.closed))
    damaged = []
    for page in range(1, len(content) // 4096):
        copy = copy_of(recorded.closed)
        broken = bytearray(content)
        broken[page * 4096 : (page + 1) * 4096] = bytes(4096)
        file_of(copy).write_bytes(broken)
        facts = read(copy)
        found = steps_of(facts)
        gap = sorted(set(whole) - set(found))
        assert found == sorted(found)
        if gap and found:
            assert f"steps {gap[0]} to {gap[-1]}" in warnings_of(facts)
            assert len(gap) < 100
            damaged.append(page)
    assert len(damaged) >= 5


@pytest.mark.parametrize("cut", [0, 3000, 5000, 40_000])
@pytest.mark.parametrize("which", ["file", "log"])
def test_the_report_is_made_from_what_is_left(
    recorded: Recorded, copy_of: CopyOf, which: str, cut: int
) -> None:
    copy = copy_of(recorded.killed if which == "log" else recorded.closed)
    path = log_of(copy) if which == "log" else file_of(copy)
    path.write_bytes(path.read_bytes()[:cut])
    summary = read_or_make(copy)
    validate(summary)
    assert summary["run"]["status"] in ("running", "lost", "completed")
    assert summary["warnings"] or summary["counts"]["steps"]


def test_most_steps_of_a_closed_file_that_lost_its_last_quarter_are_read(
    recorded: Recorded, copy_of: CopyOf
) -> None:
    copy = copy_of(recorded.closed)
    content = file_of(copy).read_bytes()
    file_of(copy).write_bytes(content[: len(content) * 3 // 4])
    facts = read(copy)
    found = steps_of(facts)
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= recorded.commits[-1][1] // 2
    assert f"steps {len(found) + 1} to {recorded.commits[-1][1]}" in warnings_of(facts)
