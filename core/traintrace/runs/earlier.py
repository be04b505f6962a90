"""Whether a run that has the wanted place or id is an earlier launch's: nobody writes into what is over.

A place can be named twice (TRAINTRACE_RUN in a shell's profile), and the number of a job comes again. A rank
that has recorded there already finds its own file; one that has not, since there were fewer ranks then, must
not add its rows to the record of another training.
"""

import time
from collections.abc import Sequence

from traintrace.publishing.location import location
from traintrace.runs.folder import SILENT_AFTER_S, rank_files
from traintrace.runs.identity import Identity
from traintrace.runs.liveness import age_of_process_s
from traintrace.runs.manifest import Manifest
from traintrace.store.ranksigns import has_died, has_ended, written_at


def is_over(place: str, manifest: Manifest | None, identity: Identity) -> bool:
    """Say whether the run at a place had ended when this process began.

    A rank of the same launch may have ended too by the time this one gets here, but not before it began. A
    later attempt goes on with the run of the one before.

    Args:
        place: Path or URL of the run.
        manifest: What it says of itself; None if it says nothing yet.
        identity: Who asks.
    """
    age_s = None if identity.attempt else age_of_process_s()
    if age_s is None or manifest is None:
        return False
    if manifest.status != "running":
        return manifest.ended_at is not None and manifest.ended_at < time.time() - age_s
    local = location(place).local
    return False if local is None else _is_left(rank_files(local), time.time() - age_s)


def _is_left(locations: Sequence[str], began: float) -> bool:
    """Say whether ranks recorded there and all of them are gone since before `began`."""
    return bool(locations) and all(_is_gone(one, began) for one in locations)


def _is_gone(rank_file: str, began: float) -> bool:
    silent_s = began - written_at(rank_file)
    if silent_s <= 0:
        return False  # the usual answer, which costs no look into the file
    return silent_s > SILENT_AFTER_S or has_ended(rank_file) or has_died(rank_file)
