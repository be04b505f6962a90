"""Where the run of a launch lies: its name, its folder or URL, and which launcher answers for it.

| launchers                                     | id of the run         | a name that is taken                      |
|-----------------------------------------------|-----------------------|-------------------------------------------|
| one                                           | new                   | refused if it was given, else numbered    |
| several that know the id of their job         | the job's             | the same; a requeued job joins its own run|
| several with the same --run-name and no such  | made of the name      | refused                                   |
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from traintrace.errors import RunReadError, UsageError
from traintrace.launch.plan import Target
from traintrace.publishing.claims import claim_place
from traintrace.publishing.location import is_url, location
from traintrace.publishing.patience import ANSWER_S, within
from traintrace.publishing.place import Location
from traintrace.runs import manifest as manifests
from traintrace.runs.claims import claim_folder, new_run_id, safe_name
from traintrace.runs.environment import describe_environment
from traintrace.runs.manifest import MANIFEST_NAME, Manifest
from traintrace.runs.start import TOOL_VERSION
from traintrace_reporting.guard_contract import contract_of
from traintrace_reporting.guard_launch import captured
from traintrace_reporting.launchers import Launchers
from traintrace_reporting.settings import Settings

# One launch of a script makes so many runs at most that are looked for.
_MOST_RUNS: Final = 1_000


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """The run of one launch.

    Attributes:
        place: Its folder or URL.
        run_id: Its id.
        number: Which launcher this is, from 0; the first one collects and reports.
    """

    place: Location
    run_id: str
    number: int


class NameTaken(UsageError):
    """There is a run of this name already; nothing was started."""


def make_run(
    settings: Settings, name: str | None, target: Target, launchers: Launchers
) -> LaunchedRun:
    """Make the run, or join the one that another launcher of this job has made.

    Args:
        settings: Where runs lie, and what is written into the manifest.
        name: Name that was given; None makes one of the script's name and the time or the job.
        target: The user's program.
        launchers: Who starts the job.

    Raises:
        NameTaken: A name that was given is taken.
        UsageError: Several launchers have no name in common.
        OSError: The run's folder cannot be made.
    """
    several, job = launchers.count > 1, launchers.job
    if several and name is None and job is None:
        raise UsageError(
            f"{launchers.count} launchers start this job and share no job id: give each the same --run-name"
        )
    shared = several and (job or f"name-{_digest(str(name))}")
    run_id = shared or new_run_id()
    wanted = name or f"{_stem(target)}-{job if several else time.strftime('%Y%m%d-%H%M%S')}"
    place = _claim(settings.run_dir, wanted, run_id, must_be_free=bool(name) and not shared)
    if name is not None and place.name != safe_name(name):
        place.remove()
        raise _taken(name, settings)
    number = _agreed_number(place, launchers) if launchers.number is None else launchers.number
    (place / f"nodes/node-{number:03d}/outcome.json").remove()  # of an earlier start of this job
    if number == 0 and not _announce(place, _new_manifest(place.name, run_id, settings, launchers)):
        if job is None:
            raise _taken(str(name), settings)
        _refuse_other_contract(place, settings)
        update_manifest(place, status="running", exit_code=None, ended_at=None, training=None)
    elif number and job is None and _has_ended(place):
        raise _taken(str(name), settings)
    return LaunchedRun(place, run_id, number)


def _claim(root: str, name: str, run_id: str, *, must_be_free: bool) -> Location:
    """Give the place of a run, made by whichever launcher comes first.

    Raises:
        OSError: It cannot be made.
    """
    if must_be_free and (location(root) / safe_name(name)).exists():
        raise NameTaken(f"--run-name {name}: there is a run of this name in {root}; choose another")
    if is_url(root):
        return location(claim_place(root, name, run_id))
    return location(claim_folder(Path(root).absolute(), name, run_id))


def _taken(name: str, settings: Settings) -> NameTaken:
    return NameTaken(
        f"--run-name {name}: there is a run of this name in {settings.run_dir}; choose another"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def declared(guard: Mapping[str, Any] | None) -> str | None:
    """Give the digest of a guard's declaration, the same on all nodes that declare the same; None without one."""
    return None if guard is None else contract_of(guard).digest


def _refuse_other_contract(place: Location, settings: Settings) -> None:
    """Refuse a job that was queued again and declares something else than the run it goes on with."""
    guard = read_manifest(place).guard
    before = guard.get("digest") if isinstance(guard, Mapping) else None
    if before != declared(settings.guard):
        raise UsageError(
            f"{place.name}: this run was started with {'another' if before else 'no'} guard: what it declares "
            "cannot change; take back the change of the settings, or give --run-name"
        )


def _has_ended(place: Location) -> bool:
    try:
        return read_manifest(place).status != "running"
    except (FileNotFoundError, RunReadError):
        return False  # nobody has announced it yet


def _agreed_number(place: Location, launchers: Launchers) -> int:
    """Number the launchers in the order in which they come: nobody else numbers them."""
    for number in range(launchers.count):
        if (place / f"nodes/node-{number:03d}/launcher").create(b"here\n"):
            return number
    raise NameTaken(f"{place}: all {launchers.count} launchers of this run have come already")


def _stem(target: Target) -> str:
    return Path(target.name).stem if target.kind == "script" else target.name.rpartition(".")[2]


def _new_manifest(name: str, run_id: str, settings: Settings, launchers: Launchers) -> Manifest:
    return Manifest(
        name=name,
        id=run_id,
        status="running",
        exit_code=None,
        plugin="",
        plugin_version="",
        framework="",
        framework_version="",
        tool_version=TOOL_VERSION,
        started_at=time.time(),
        ended_at=None,
        world_size=launchers.ranks or launchers.count,
        nodes=launchers.nodes,
        environment=describe_environment(("torch",)),
        folder=Path(),
        launcher=launchers.started_by,
        guard=captured(settings, launchers),
    )


def _announce(place: Location, manifest: Manifest) -> bool:
    """Write the manifest of a new run; False if there is one."""
    return (place / MANIFEST_NAME).create(_bytes_of(manifest))


def _bytes_of(manifest: Manifest) -> bytes:
    with TemporaryDirectory(prefix="traintrace-") as folder:
        replace(manifest, folder=Path(folder)).write()
        return (Path(folder) / MANIFEST_NAME).read_bytes()


def read_manifest(place: Location) -> Manifest:
    """Read the manifest of a run, wherever it lies.

    Raises:
        FileNotFoundError: There is none.
        OSError, RunReadError: It cannot be read.
    """
    content = within(ANSWER_S, place.text, (place / MANIFEST_NAME).read_bytes)
    with TemporaryDirectory(prefix="traintrace-") as folder:
        (Path(folder) / MANIFEST_NAME).write_bytes(content)
        return Manifest.read(Path(folder))


def update_manifest(place: Location, **changes: Any) -> None:
    """Change the manifest of a run, wherever it lies.

    Raises:
        OSError, RunReadError: It cannot be read or written.
    """
    if place.local is not None:
        manifests.update(place.local, **changes)
    else:
        manifest = replace(read_manifest(place), **changes)
        content = _bytes_of(manifest)
        within(ANSWER_S, place.text, lambda: (place / MANIFEST_NAME).write_bytes(content))


def runs_of(run: LaunchedRun) -> list[Location]:
    """Give the runs that a launch made: its own, and each later one of a script that trains again."""
    found = [run.place]
    for number in range(2, _MOST_RUNS):
        place = run.place.parent / f"{run.place.name}-{number}"
        try:
            if read_manifest(place).part_of == run.run_id:
                found.append(place)
        except FileNotFoundError:
            break
        except (OSError, RunReadError):
            continue  # somebody else's
    return found
