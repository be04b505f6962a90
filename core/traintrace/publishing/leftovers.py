"""What processes that died left on this machine of a published run: their files are whole up to their last second."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from traintrace.errors import RunReadError
from traintrace.publishing.layout import rank_path, segments_path, stem_of
from traintrace.publishing.place import Location
from traintrace.publishing.spool import clear_spool, existing_spool, one_file
from traintrace.runs.liveness import is_dead
from traintrace.store.rankfile import NAME
from traintrace.store.reader import RankReader


def spooled_ranks(place: Location) -> Mapping[str, Path]:
    """Give the rank files by stem that this machine holds of the run at `place`."""
    spool = existing_spool(place)
    if spool is None:
        return {}
    files = sorted((spool / "ranks").glob("*.sqlite"))
    return {stem_of(file): file for file in files if NAME.fullmatch(file.name)}


def publish_leftovers(place: Location) -> list[Path]:
    """Publish the files of ranks of this machine whose processes have ended, and remove them here.

    Whoever outlives a rank calls this: another rank of the machine when it ends, or the launcher.

    Args:
        place: Where the run is published.

    Returns:
        The files that could not be sent; they stay.
    """
    kept = []
    for stem, file in spooled_ranks(place).items():
        try:
            if not _is_left(file):
                continue
            with one_file(file, str(file)) as whole:
                (place / rank_path(stem)).upload(whole)
            (place / segments_path(stem)).remove()
            clear_spool(file.parents[1], file)
        except FileNotFoundError:
            continue  # somebody else has just sent it
        except (OSError, sqlite3.Error):
            kept.append(file)
    return kept


def _is_left(file: Path) -> bool:
    try:
        reader = RankReader(str(file))
    except RunReadError:
        return False
    try:
        return is_dead(reader.meta().get("process"))
    except RunReadError:
        return False
    finally:
        reader.close()
