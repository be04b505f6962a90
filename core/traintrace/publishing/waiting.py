"""Wait for the ranks of a published run to end; what they published says so."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from traintrace.publishing.layout import RANKS, finished_ranks, stem_of
from traintrace.publishing.patience import within
from traintrace.publishing.place import Location
from traintrace.runs.folder import rank_file
from traintrace.runs.identity import Identity

_POLL_S: Final = 0.1
_POLL_REMOTE_S: Final = 0.5
_SHORTEST_S: Final = 0.1


def silent_ranks(place: Location, identity: Identity, deadline_s: float) -> list[int]:
    """Wait until all other ranks of this attempt have published their whole files; give those that have not.

    No collective: what lies at the place says who has ended.

    Args:
        place: Where the run is published.
        identity: Who waits; its world size says how many ranks there are.
        deadline_s: Seconds to wait at most.
    """
    others = [rank for rank in range(identity.world_size) if rank != identity.rank]
    names = {rank: stem_of(rank_file(Path(), rank, identity.attempt)) for rank in others}
    until = time.monotonic() + deadline_s
    ended: set[str] = set()
    while True:
        left = max(_SHORTEST_S, until - time.monotonic())
        with suppress(OSError):  # asked again, until the time is over
            files = within(left, str(place), (place / RANKS).files)
            ended = finished_ranks(f"{RANKS}/{path}" for path in files)
        missing = [rank for rank in others if names[rank] not in ended]
        if not missing or time.monotonic() >= until:
            return missing
        time.sleep(_POLL_S if place.local is not None else _POLL_REMOTE_S)
