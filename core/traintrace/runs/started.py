"""The run that this process writes to: its manifest, its publisher, the other ranks, from start to end."""

import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from traintrace import facts
from traintrace.errors import RunReadError
from traintrace.faults import FaultReporter
from traintrace.publishing.published import PublishedRun, is_published_already
from traintrace.publishing.publisher import Publisher
from traintrace.publishing.spool import clear_spool
from traintrace.runs.folder import Run, rank_file, rank_files, wait_for_ranks
from traintrace.runs.gitstate import DirtyCheck
from traintrace.runs.identity import Identity
from traintrace.runs.liveness import describe_process
from traintrace.runs.manifest import Manifest, TelemetryStatus, with_what_is_known
from traintrace.runs.rebuild import head_of_file
from traintrace.store.writer import RankWriter, remove_rank_file


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
        if self.place is not None and is_published_already(self.place, path):
            raise FileExistsError(f"{self.place}: this rank has recorded in this run already")
        head = head_of_file(self.manifest, identity)
        writer = RankWriter(path, head | {"process": describe_process()})
        try:
            if identity.rank == 0:
                self._write_manifest()
        except OSError:
            writer.take_back()
            raise
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
        """Write how the run ended, at this moment; rank 0 alone does. What a launcher wrote meanwhile stays.

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
        self._change(
            identity,
            status=status,
            ended_at=time.time(),
            telemetry_status=telemetry,
            environment=environment,
        )

    def judge_telemetry(self, telemetry: TelemetryStatus, identity: Identity) -> None:
        """Write how much of the record is there, which is known only some time after the end.

        Raises:
            OSError: The folder cannot be written.
        """
        self._change(identity, telemetry_status=telemetry)

    def _change(self, identity: Identity, **changes: Any) -> None:
        if self.place is None:  # else it was read at the start, and nobody else writes it meanwhile
            with suppress(RunReadError):
                self.manifest = with_what_is_known(self.manifest, Manifest.read(self.folder))
        self.manifest = replace(self.manifest, **changes)
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
        remove_rank_file(file)
        if self.is_own and identity.world_size == 1:
            shutil.rmtree(self.folder, ignore_errors=True)
