"""Where a run goes: one place and one id for all ranks of a job, with no collective and no clock.

| what the ranks have in common                       | id                          | place                        |
|-----------------------------------------------------|-----------------------------|------------------------------|
| TRAINTRACE_RUN, set by a launcher or by hand        | that of the run there       | what it names                |
| the id of a job of Slurm or MPI                     | the job's                   | claimed by the id            |
| torchrun's store, or that of the process group      | made by who asks it first   | told through the store       |
| nothing                                             | new                         | new                          |

The second and later runs of a process (and of its job: ranks make their runs in the same order) have
the first one's id with their number after it. Where this rank has recorded in a place already, another
job was here: e.g. two commands of a shell that set TRAINTRACE_RUN. Then the next place is taken.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from traintrace.errors import RunReadError
from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.ports import Agreement
from traintrace.publishing.claims import claim_place
from traintrace.publishing.location import is_url, location
from traintrace.publishing.patience import ANSWER_S, within
from traintrace.publishing.place import Location, without_secrets
from traintrace.runs.claims import (
    claim_folder,
    create_emergency_folder,
    id_of,
    new_run_id,
    safe_name,
)
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import MANIFEST_NAME, Manifest, manifest_from
from traintrace.runs.manifestvalues import without_controls

# Jobs that may have been in one place before this one.
_MOST_JOBS = 1_000
# Runs that one process makes.
_MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run goes.

    Attributes:
        text: An absolute path, or a URL.
        id: Id of the run.
        part_of: Id of the launch's first run, if this is a later one.
        is_own: This process alone knows of the place, and made it.
        instead_of: The place that was wanted and cannot be written, and why; None if this is the one.
    """

    text: str
    id: str
    part_of: str | None = None
    is_own: bool = False
    instead_of: tuple[str, OSError] | None = None

    @property
    def name(self) -> str:
        """Give the run's name."""
        return _name_of(self.text)

    def tell(self, faults: FaultReporter) -> None:
        """Tell the user if this is not the place that was wanted."""
        if self.instead_of is None:
            return
        wanted, error = self.instead_of
        faults.warn(
            f"traintrace cannot write a run into {without_secrets(wanted)} "
            f"({error.strerror or error}); this run is in {self.text}",
            recorded=f"the folder for runs cannot be written ({error.strerror or type(error).__name__}); "
            "this run is elsewhere",
        )


def find_places(
    options: TraceOptions,
    plugin: str,
    identity: Identity,
    agree: Agreement | None,
    faults: FaultReporter,
    number: int,
) -> Iterator[RunPlace]:
    """Give the places that this process's run may have, the right one first.

    A later one is asked for only if this rank has recorded in the one before.

    Args:
        options: `run_dir` and `name` of them.
        plugin: Name of the plugin that traces.
        identity: Who this process is.
        agree: Asks a store that all ranks know; None without one.
        faults: Told of a place that cannot be written.
        number: How many runs this process has made before.

    Raises:
        OSError: Not even temporary files can be written.
    """
    if identity.shared_run is not None:
        yield from _handed_down(identity.shared_run, number)
    elif identity.job is not None and identity.world_size > 1:
        name = options.name or f"{plugin}-{identity.job}"
        for job in _ids(identity.job, number):
            yield _claim(str(options.run_dir), name, job)
    else:
        # More than once e.g. where torchrun starts its ranks anew, uncounted, since a node came or went.
        for asked in count(number, _MOST_RUNS):
            yield _agreed(options, plugin, identity, agree, faults, asked)


def _ids(first: str, number: int) -> Iterator[str]:
    """Give the id of run `number` of a job, and of the jobs after it that seem to be the same one."""
    numbered = f"{first}.{number}" if number else first
    yield numbered
    for job in range(2, _MOST_JOBS):
        yield f"{numbered}~{job}"


def _handed_down(text: str, number: int) -> Iterator[RunPlace]:
    try:
        place = location(text)
    except OSError as error:  # a kind of place that nothing here can write to
        name = without_controls(text.rstrip("/").rpartition("/")[2]) or "run"
        yield from (instead(text, name, one, error) for one in _ids(name, number))
        return
    name, first = _known_run(place.text)
    ids = _ids(first, number)
    if number == 0:
        yield _given(place, name, next(ids))
    for run_id in ids:
        yield replace(_claim(place.parent.text, name, run_id), part_of=first)


def _given(place: Location, name: str, run_id: str) -> RunPlace:
    try:
        if place.local is not None:
            (place.local / "ranks").mkdir(parents=True, exist_ok=True)
            _probe(place.text)
        return RunPlace(place.text, run_id)
    except OSError as error:
        return instead(place.text, name, run_id, error)


def _known_run(text: str) -> tuple[str, str]:
    """Give name and id of the run at a place; the place's own name where nobody has said them yet."""
    place = location(text)
    known = read_manifest(text)
    if known is not None:
        return known.name, known.id
    claimed = None if place.local is None else id_of(place.local)
    name = _name_of(text)
    return name, claimed or name


def _name_of(text: str) -> str:
    return without_controls(location(text).name) or "run"


def _agreed(
    options: TraceOptions,
    plugin: str,
    identity: Identity,
    agree: Agreement | None,
    faults: FaultReporter,
    number: int,
) -> RunPlace:
    name = options.name or f"{plugin}-{time.strftime('%Y%m%d-%H%M%S')}"
    run_id = new_run_id()

    def make() -> str:
        claimed = _claim(str(options.run_dir), name, run_id)
        claimed.tell(faults)
        return json.dumps([run_id, claimed.text])

    made = None
    if identity.world_size > 1 and agree is not None:
        try:
            made = agree(number, run_id, make)
        except Exception as error:  # noqa: BLE001 - a store that does not answer costs the sharing only
            faults.warn(
                f"the ranks of this job could not agree on one run ({error}), so each makes its own; "
                "TRAINTRACE_RUN, set to one folder for all of them, joins them"
            )
    agreed_id, text = json.loads(made or make())
    place = RunPlace(text, agreed_id, is_own=made is None)
    if options.name is not None and agreed_id == run_id and place.name != safe_name(options.name):
        faults.warn(f"the run name {options.name!r} is taken; this run is called {place.name!r}")
    return place


def _claim(root: str, name: str, run_id: str) -> RunPlace:
    try:
        text = _claim_in(root, name, run_id)
        _probe(text)
        return RunPlace(text, run_id)
    except OSError as error:
        return instead(root, name, run_id, error)


def instead(root: str, name: str, run_id: str, error: OSError) -> RunPlace:
    """Give a place for temporary files, since `root` cannot be written."""
    return RunPlace(str(_emergency(name, run_id)), run_id, instead_of=(root, error))


def _claim_in(root: str, name: str, run_id: str) -> str:
    if is_url(root):
        return claim_place(root, name, run_id)
    return str(claim_folder(Path(root).absolute(), name, run_id))


def _emergency(name: str, run_id: str) -> Path:
    """Make a run folder where temporary files go; ranks of one machine that know the id share it."""
    shared = Path(tempfile.gettempdir(), f"traintrace-{os.getuid()}")
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        if shared.stat().st_uid == os.getuid() and not shared.is_symlink():
            return claim_folder(shared, name, run_id)
    except OSError:
        pass  # the next line takes a new one
    return create_emergency_folder(name, run_id)


def _probe(text: str) -> None:
    """Write as much as a disk that is full would refuse."""
    if is_url(text):
        return
    probe = Path(text, f".probe-{os.getpid()}")
    try:
        probe.write_bytes(b"\0" * 4096)
    finally:
        probe.unlink(missing_ok=True)


def read_manifest(text: str) -> Manifest | None:
    """Read the manifest of the run at a place, if there is one that can be read."""
    place = location(text)
    try:
        if place.local is not None:
            return Manifest.read(place.local)
        written = within(ANSWER_S, str(place), (place / MANIFEST_NAME).read_bytes)
        return manifest_from(written, Path(place.name, MANIFEST_NAME))
    except (OSError, RunReadError):
        return None
