"""What a run lost when something died: ranks that ended without a word, and the seconds that are missing.

A rank's moments are on its own clock, which no jump of the wall clock moves; what is known from
elsewhere on the wall clock is shifted to it by a pair of readings that each flush stores.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from traintrace.store.rankfile import RankFile

# Ranks that are named one by one; of a thousand the rest are summed up.
_NAMED: Final = 4
# Less than this is the way from the last flush to the end of a healthy run.
_NOTHING_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class End:
    """What is known of a run's end from elsewhere.

    Attributes:
        over: True if all processes of the run are known to have ended.
        told: True if the run said how it ended; some ranks may still be at work.
        ended_at: Unix seconds at which it ended, None if nobody wrote it down.
        silent: Locations of the files that have not been written to for long.
    """

    over: bool
    told: bool
    ended_at: float | None
    silent: frozenset[str]


def settle(files: Sequence[RankFile], end: End) -> tuple[list[RankFile], list[str]]:
    """Call the ranks lost that say they are running and cannot be, and say what is missing.

    Args:
        files: All rank files of the run.
        end: What is known of its end.

    Returns:
        The files, and what a reader must know of the run, each in one sentence.
    """
    last = max((file.facts.attempt for file in files if file.facts is not None), default=0)
    settled, told, lost, hung = [], [], [], []
    for file in files:
        rank = file.facts
        if rank is None:
            told.append(f"{file.called} left no record: {file.problem}")
        elif rank.status == "running":
            silent = file.location in end.silent
            if rank.attempt < last or end.over or file.is_gone or (end.told and silent):
                file = replace(file, facts=replace(rank, status="lost"))
                lost.append(file)
            elif silent:
                hung.append(file.called)
        settled.append(file)
    told += _losses(lost, settled, end.ended_at, last)
    if hung:
        told.append(
            f"{_some(hung)} wrote nothing for a while: stopped, hanging outside Python, or killed"
        )
    return settled, told


def _losses(
    lost: Sequence[RankFile], files: Sequence[RankFile], ended_at: float | None, last: int
) -> list[str]:
    missing = [(file, missing_s(file, files, ended_at, last)) for file in lost]
    told = []
    for file, seconds in missing[:_NAMED]:
        assert file.facts is not None
        steps = file.facts.totals.last_step
        after = f"after step {steps}" if steps else "before its first step was completed"
        if seconds is None:
            gone = "what it did in its last half second may be missing"
        else:
            gone = f"the {seconds:.2f} s from there to the end of the run are not in its record"
        told.append(f"{file.called} ended without a word {after}; {gone}")
    rest = [seconds or 0.0 for _, seconds in missing[_NAMED:]]
    if rest:
        told.append(
            f"{len(rest)} more ranks ended without a word; up to {max(rest):.2f} s of their records "
            "are missing"
        )
    return told


def missing_s(
    file: RankFile, files: Iterable[RankFile], ended_at: float | None, last_attempt: int
) -> float | None:
    """Give the seconds between the end of a rank's record and the end of its run.

    Args:
        file: The file of the rank; it has facts.
        files: All files of the run.
        ended_at: Unix seconds at which the run ended, if known.
        last_attempt: The last attempt of the run: only that one ended with the run.

    Returns:
        None if nothing but the record itself tells of the end.
    """
    assert file.facts is not None
    totals, attempt = file.facts.totals, file.facts.attempt
    ends = [file.seen_ns]
    ends += [
        other.seen_ns
        for other in files
        if other.facts is not None and other.facts.attempt == attempt
    ]
    if ended_at is not None and attempt == last_attempt and file.seen_unix_ns is not None:
        ends.append(int(ended_at * 1e9) - (file.seen_unix_ns - file.seen_ns))
    seconds = (max(ends) - totals.start_ns - totals.wall_ns) / 1e9
    return seconds if seconds > _NOTHING_S else None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more ranks" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
