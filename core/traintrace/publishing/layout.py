"""Where the parts of a published run lie, as paths below its place.

<place>/
  manifest.json   final_summary.json   final_summary.txt
  ranks/rank-00003.sqlite                  whole, once the rank has ended
  segments/rank-00003/00001.sqlite.gz      until then
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from traintrace.publishing.place import Location

RANKS: Final = "ranks"
SEGMENTS: Final = "segments"
_RANK: Final = re.compile(r"ranks/(rank-\d{5}(?:\.a\d+)?)\.sqlite")
_SEGMENT: Final = re.compile(r"segments/(rank-\d{5}(?:\.a\d+)?)/(\d{5,})\.sqlite\.gz")


def rank_path(stem: str) -> str:
    """Give where a rank's whole file lies; `stem` is its name without the ending."""
    return f"{RANKS}/{stem}.sqlite"


def segments_path(stem: str) -> str:
    """Give the folder of a rank's segments."""
    return f"{SEGMENTS}/{stem}"


def segment_path(stem: str, number: int) -> str:
    """Give where one segment of a rank lies."""
    return f"{segments_path(stem)}/{number:05d}.sqlite.gz"


def stem_of(rank_file: str | Path) -> str:
    """Give the name of a rank's file without its ending."""
    return Path(rank_file).name.removesuffix(".sqlite")


def finished_ranks(files: Iterable[str]) -> set[str]:
    """Give the ranks, by stem, whose whole file is among `files`."""
    return {found[1] for path in files if (found := _RANK.fullmatch(path))}


def segments_of_ranks(files: Iterable[str]) -> Mapping[str, Mapping[int, str]]:
    """Give the paths of segments among `files` by rank and number."""
    by_rank: dict[str, dict[int, str]] = {}
    for path in files:
        if found := _SEGMENT.fullmatch(path):
            by_rank.setdefault(found[1], {})[int(found[2])] = path
    return by_rank


def has_published(place: Location, stem: str) -> bool:
    """Say whether a rank has published anything into `place`.

    Raises:
        OSError: The place cannot be looked into.
    """
    return (place / rank_path(stem)).exists() or bool((place / segments_path(stem)).files())
