"""Start a run: agree on its place, open this rank's file, announce the run; fall back where that fails."""

import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from traintrace import facts
from traintrace.errors import RunReadError
from traintrace.faults import FaultReporter
from traintrace.gitstate import DirtyCheck
from traintrace.identity import Identity
from traintrace.liveness import describe_process
from traintrace.manifest import Manifest, TelemetryStatus
from traintrace.options import TraceOptions
from traintrace.ports import Agreement, PluginIdentity
from traintrace.publishing.claims import notice_of
from traintrace.publishing.location import is_url, location
from traintrace.publishing.published import PublishedRun
from traintrace.publishing.publisher import Publisher
from traintrace.publishing.spool import clear_spool, spool_folder
from traintrace.rebuild import head_of_file
from traintrace.runfolder import (
    Run,
    rank_file,
    rank_files,
    wait_for_ranks,
)
from traintrace.runplaces import RunPlace, find_places, read_manifest
from traintrace.store import RankWriter

TOOL_VERSION: Final = "0.1.0"
# Places in which this rank has recorded already before it gives up.
_MOST_PLACES: Final = 100


@dataclass(slots=True)
class StartedRun:
    """The run that this process writes to.

    Attributes:
        folder: Where this process writes, absolute: training may change the working directory.
        manifest: What is known of the run; rank 0 writes it.
        place: The URL or path where the run is published; None if that is `folder`.
        published: Sends this rank's rows there; None if that is not needed.
        is_own: This process alone knows the folder, and made it.
    """

    folder: Path
    manifest: Manifest
    place: str | None = None
    published: PublishedRun | None = None
    is_own: bool = False
    _dirty: DirtyCheck | None = field(default=None, repr=False)

    def open_writer(self, identity: Identity) -> RankWriter:
        """Open this rank's file, and let rank 0 announce the run once that has worked.

        Raises:
            FileExistsError: This rank has recorded in this attempt already.
            OSError, sqlite3.Error: The folder cannot be written.
        """
        path = rank_file(self.folder, identity.rank, identity.attempt)
        head = head_of_file(self.manifest, identity)
        writer = RankWriter(path, head | {"process": describe_process()})
        if identity.rank == 0:
            self._write_manifest()
        return writer

    def publish(
        self, writer: RankWriter, identity: Identity, faults: FaultReporter, interval_s: float
    ) -> None:
        """Prepare what sends this rank's rows to the run's place, if that is elsewhere."""
        if self.place is not None:
            self.published = PublishedRun(
                self.place, self.folder, writer, identity, faults, interval_s
            )
            if identity.rank == 0:
                self._write_manifest()

    def look_at_code(self) -> None:
        """Find out meanwhile whether the code has changes that are in no commit; rank 0 alone does."""
        if self.manifest.environment.git_commit is not None:
            self._dirty = DirtyCheck(Path.cwd())
            self._dirty.start()

    def finish(
        self,
        status: facts.RunStatus,
        identity: Identity,
        telemetry: TelemetryStatus = "unknown",
    ) -> None:
        """Write how the run ended; rank 0 alone does. What a launcher wrote meanwhile stays.

        Args:
            status: How training ended.
            identity: Who says so.
            telemetry: How much of the record is there.

        Raises:
            OSError: The folder cannot be written.
        """
        environment = self.manifest.environment
        if self._dirty is not None:
            environment = replace(environment, git_dirty=self._dirty.close())
        if self.place is None:  # else it was read at the start, and nobody else writes it meanwhile
            with suppress(RunReadError):
                self.manifest = _with_what_is_known(self.manifest, Manifest.read(self.folder))
        self.manifest = replace(
            self.manifest,
            status=status,
            ended_at=time.time(),
            telemetry_status=telemetry,
            environment=environment,
        )
        if identity.rank == 0:
            self._write_manifest()

    def _write_manifest(self) -> None:
        if self.place is None:
            self.manifest.write()
        elif self.published is not None:
            self.published.put_manifest(self.manifest)

    @property
    def publisher(self) -> Publisher | None:
        """What sends this rank's rows to the run's place; None if that is not needed."""
        return None if self.published is None else self.published.publisher

    def not_publishing(self) -> AbstractContextManager[None]:
        """Keep the publisher away from this rank's file, so that its writer can close it as one file."""
        return nullcontext() if self.publisher is None else self.publisher.not_reading()

    def close_publisher(self) -> None:
        """Send what has not been sent, for some seconds."""
        if self.published is not None:
            self.published.close()

    def publish_summary(self) -> None:
        """Send the summary beside the ranks' files."""
        if self.published is not None:
            self.published.send_report()

    def wait_for_ranks(self, identity: Identity, deadline_s: float) -> Sequence[int]:
        """Wait until the other ranks have ended, for some seconds; give those that have not."""
        if self.published is None:
            return wait_for_ranks(self.folder, identity, deadline_s)
        return self.published.wait_for_ranks(identity, deadline_s)

    def read(self) -> Run:
        """Give the run for reading, with the manifest as this process knows it.

        One that is published is read here while it lasts, and so are this machine's ranks if what the
        others published cannot be had.
        """
        fetched = self.published.fetch() if self.published and self.published.has_arrived else None
        if fetched is None:
            return Run(self.folder, self.manifest, rank_files(self.folder))
        manifest = replace(self.manifest, folder=fetched)
        return Run(fetched, manifest, rank_files(fetched), place=self.place)

    def discard(self, identity: Identity) -> None:
        """Take back what this process has made of the run: its own file, and a folder that only it knows."""
        if self._dirty is not None:
            self._dirty.close()
        file = rank_file(self.folder, identity.rank, identity.attempt)
        if self.place is not None:
            clear_spool(self.folder, file)
        for ending in ("", "-wal", "-shm", "-journal"):
            file.with_name(file.name + ending).unlink(missing_ok=True)
        if self.is_own and identity.world_size == 1:
            shutil.rmtree(self.folder, ignore_errors=True)


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
        run = _started(place, plugin, identity, environment, faults)
        try:
            writer = run.open_writer(identity)
        except FileExistsError:
            continue  # another job was here, or is
        run.publish(writer, identity, faults, options.publish_interval_s)
        if identity.rank == 0:
            run.look_at_code()
        return run, writer
    raise FileExistsError("this rank has recorded in every folder that its run could have")


def _started(
    place: RunPlace,
    plugin: PluginIdentity,
    identity: Identity,
    environment: facts.Environment,
    faults: FaultReporter,
) -> StartedRun:
    notice = notice_of(place.text)
    if notice and identity.rank == 0:
        faults.warn(
            notice, recorded="the run's folder is on a network file system: it was published"
        )
    is_published = bool(notice) or is_url(place.text)
    folder = spool_folder(location(place.text)) if is_published else Path(place.text)
    (folder / "ranks").mkdir(parents=True, exist_ok=True)
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
        folder=folder,
        launcher=identity.launcher,
        part_of=place.part_of,
    )
    known = read_manifest(place.text) if identity.rank == 0 and not place.is_own else None
    if known is not None:
        manifest = _with_what_is_known(manifest, known)
    return StartedRun(folder, manifest, place.text if is_published else None, is_own=place.is_own)


def _with_what_is_known(manifest: Manifest, known: Manifest) -> Manifest:
    """Take over what a launcher or an earlier attempt wrote and only they know."""
    return replace(
        manifest,
        name=known.name,
        id=known.id,
        started_at=known.started_at,
        launcher=known.launcher,
        part_of=known.part_of,
        guard=known.guard,
        training=known.training,
        exit_code=known.exit_code,
    )
