"""Start a run: agree on its place, open this rank's file, announce the run; fall back where that fails."""

import sqlite3
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from traintrace import facts
from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.ports import Agreement, PluginIdentity
from traintrace.publishing.claims import notice_of
from traintrace.publishing.location import is_url, location
from traintrace.publishing.spool import spool_folder
from traintrace.runs.earlier import is_over
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import Manifest, with_what_is_known
from traintrace.runs.places import RunPlace, find_places, instead, read_manifest
from traintrace.runs.started import StartedRun
from traintrace.store.writer import RankWriter

TOOL_VERSION: Final = "0.1.0"
# Places in which this rank has recorded already before it gives up.
_MOST_PLACES: Final = 100


def start_run(
    options: TraceOptions,
    plugin: PluginIdentity,
    identity: Identity,
    environment: facts.Environment,
    agree: Agreement | None,
    faults: FaultReporter,
    number: int,
) -> tuple[StartedRun, RankWriter]:
    """Make (or join) the run, and open this rank's file in it.

    A folder that cannot be written is replaced by one for temporary files, with one warning.

    Args:
        options: Where the run goes and what it is called.
        plugin: Who traces.
        identity: Who this process is.
        environment: Versions and provenance.
        agree: Asks a store that all ranks know for the place; None without one.
        faults: Told what is not as it should be.
        number: How many runs this process has made before.

    Raises:
        OSError, sqlite3.Error: Not even temporary files can be written.
    """
    for doubt in identity.doubts:
        faults.warn(doubt)
    places = find_places(options, plugin.plugin, identity, agree, faults, number)
    for place in islice(places, _MOST_PLACES):
        known = None if place.is_own else read_manifest(place.text)
        if is_over(place.text, known, identity):
            continue  # an earlier launch's, which had fewer ranks
        manifest = _described(place, known, plugin, identity, environment)
        try:
            place, run, writer = _open(place, manifest, identity)
        except FileExistsError:
            continue  # another job was here, or is
        _tell(place, identity, faults)
        run.publish(writer, identity, faults, options.publish_interval_s)
        if identity.rank == 0:
            run.look_at_code()
        return run, writer
    raise FileExistsError("this rank has recorded in every folder that its run could have")


def _open(
    place: RunPlace, manifest: Manifest, identity: Identity
) -> tuple[RunPlace, StartedRun, RankWriter]:
    """Open this rank's file at a place, or at one for temporary files if a database cannot lie there.

    Raises:
        FileExistsError: This rank has recorded there already.
        OSError, sqlite3.Error: Not even temporary files can be written.
    """
    try:
        run = _started(place, manifest)
        return place, run, run.open_writer(identity)
    except FileExistsError:
        raise
    except (OSError, sqlite3.Error) as error:
        if place.instead_of is not None:
            raise
        other = instead(place.text, place.name, place.id, OSError(str(error)))
        run = _started(other, manifest)
        return other, run, run.open_writer(identity)


def _tell(place: RunPlace, identity: Identity, faults: FaultReporter) -> None:
    place.tell(faults)
    notice = notice_of(place.text)
    if notice and identity.rank == 0:
        faults.warn(
            notice, recorded="the run's folder is on a network file system: it was published"
        )


def _started(place: RunPlace, manifest: Manifest) -> StartedRun:
    is_published = is_url(place.text) or bool(notice_of(place.text))
    folder = spool_folder(location(place.text)) if is_published else Path(place.text)
    (folder / "ranks").mkdir(parents=True, exist_ok=True)
    manifest = replace(manifest, folder=folder)
    return StartedRun(folder, manifest, place.text if is_published else None, is_own=place.is_own)


def _described(
    place: RunPlace,
    known: Manifest | None,
    plugin: PluginIdentity,
    identity: Identity,
    environment: facts.Environment,
) -> Manifest:
    manifest = Manifest(
        name=place.name,
        id=place.id,
        status="running",
        exit_code=None,
        plugin=plugin.plugin,
        plugin_version=plugin.plugin_version,
        framework=plugin.framework,
        framework_version=plugin.framework_version,
        tool_version=TOOL_VERSION,
        started_at=time.time(),
        ended_at=None,
        world_size=identity.world_size,
        nodes=identity.nodes,
        environment=environment,
        folder=Path(),
        launcher=identity.launcher,
        part_of=place.part_of,
    )
    return manifest if known is None else with_what_is_known(manifest, known)
