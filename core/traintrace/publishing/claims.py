"""Which run may have which name at a place that no file system of this machine shows."""

from pathlib import Path
from typing import Final

from traintrace.publishing.filesystems import network_file_system
from traintrace.publishing.location import is_url, location
from traintrace.publishing.patience import ANSWER_S, within
from traintrace.publishing.place import Location, LocationError
from traintrace.runs.claims import ID_NAME, claim_folder, safe_name

_MOST_NAMES: Final = 1_000


def claim_place(root: str, name: str, run_id: str, answer_s: float = ANSWER_S) -> str:
    """Give the place of run `run_id` below the URL `root`; all who ask with one id get one place.

    A place that holds anything of another run is never joined: the next one is `name-2`. On an object store
    that cannot create exclusively, two *different* runs that want one name in the same instant could meet.

    Args:
        root: URL of the folder that holds runs.
        name: Wanted name; characters that no file system likes are replaced.
        run_id: Id of the run.
        answer_s: Seconds after which a place that does not answer is given up.

    Raises:
        OSError: The place cannot be reached or written.
    """
    place = location(root)
    if place.local is not None:
        return location(claim_folder(place.local, name, run_id).as_uri()).text
    return within(answer_s, str(place), lambda: _claim(place, safe_name(name), run_id))


def _claim(root: Location, name: str, run_id: str) -> str:
    for number in range(1, _MOST_NAMES):
        place = root / (name if number == 1 else f"{name}-{number}")
        mark = place / ID_NAME
        # The mark is looked for last: whoever of this run is here already has made it before all else.
        if place.files() and not mark.exists():
            continue  # something that is no run of ours
        mark.create(f"{run_id}\n".encode())
        # Where creating is not exclusive, of two the last has it: whoever it is, both read the same.
        if mark.read_bytes().decode(errors="replace").strip() == run_id:
            return place.text
    raise LocationError(f"{root}: the name {name} is taken a thousand times; clean up there")


def notice_of(place: str) -> str:
    """Give what a user must know of a run that is published although its path looks local; else nothing."""
    kind = None if is_url(place) else network_file_system(place)
    if kind is None:
        return ""
    return (
        f"{Path(place).parent} is on a network file system ({kind}), which damages databases under way: each rank "
        "records on its own machine, and what it recorded is sent there once a minute and at the end"
    )
