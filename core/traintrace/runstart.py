"""Start a run: agree on its folder, write its manifest; fall back where that fails."""

import json
import os
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path

from traintrace import facts
from traintrace.faults import FaultReporter
from traintrace.identity import Identity
from traintrace.manifest import Manifest
from traintrace.options import TraceOptions
from traintrace.ports import Agreement, PluginIdentity
from traintrace.registry import REGISTRY
from traintrace.runfolder import (
    Run,
    create_emergency_folder,
    create_folder,
    rank_file,
    rank_files,
    safe_name,
)
from traintrace.store import RankWriter

TOOL_VERSION = "0.1.0"


@dataclass(slots=True)
class StartedRun:
    """The run that this process writes to.

    Attributes:
        folder: Its folder, absolute: training may change the working directory.
        manifest: What is known of it; rank 0 writes it.
    """

    folder: Path
    manifest: Manifest

    def open_writer(self, identity: Identity) -> RankWriter:
        """Open this rank's file, and let rank 0 announce the run once that has worked.

        Raises:
            OSError, sqlite3.Error: The folder cannot be written.
        """
        writer = RankWriter(rank_file(self.folder, identity.rank, identity.attempt))
        if identity.rank == 0:
            self.manifest.write()
        return writer

    def finish(self, status: facts.RunStatus, identity: Identity) -> None:
        """Write how the run ended; rank 0 alone does.

        Raises:
            OSError: The folder cannot be written.
        """
        self.manifest = replace(self.manifest, status=status, ended_at=time.time())
        if identity.rank == 0:
            self.manifest.write()

    def read(self) -> Run:
        """Give the run for reading, with the manifest as this process knows it."""
        return Run(self.folder, self.manifest, rank_files(self.folder))


def start_run(
    options: TraceOptions,
    plugin: PluginIdentity,
    identity: Identity,
    environment: facts.Environment,
    agree: Agreement | None,
    faults: FaultReporter,
) -> StartedRun:
    """Make (or join) the run folder.

    A folder that cannot be written is replaced by one for temporary files, with one warning.

    Raises:
        OSError: Not even temporary files can be written.
    """
    number, REGISTRY.started = REGISTRY.started, REGISTRY.started + 1
    folder, run_id = _find_folder(options, plugin, identity, agree, faults, number)
    manifest = Manifest(
        name=folder.name,
        id=run_id,
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
    )
    return StartedRun(folder, manifest)


def _find_folder(
    options: TraceOptions,
    plugin: PluginIdentity,
    identity: Identity,
    agree: Agreement | None,
    faults: FaultReporter,
    number: int,
) -> tuple[Path, str]:
    if identity.shared_run is not None:
        folder = Path(identity.shared_run).absolute()
        (folder / "ranks").mkdir(parents=True, exist_ok=True)
        return folder, folder.name
    name = options.name or f"{plugin.plugin}-{time.strftime('%Y%m%d-%H%M%S')}"
    run_id = secrets.token_hex(6)

    def make() -> str:
        return json.dumps([run_id, str(_make_folder(Path(options.run_dir), name, faults))])

    made = None
    if identity.world_size > 1 and agree is not None:
        try:
            made = agree(number, run_id, make)
        except Exception as error:  # noqa: BLE001 - a store that does not answer costs the sharing only
            faults.warn(f"the ranks of this job could not agree on one run ({error})")
    agreed_id, place = json.loads(made or make())
    folder = Path(place)
    (folder / "ranks").mkdir(parents=True, exist_ok=True)
    if options.name is not None and agreed_id == run_id and folder.name != safe_name(options.name):
        faults.warn(f"the run name {options.name!r} is taken; this run is called {folder.name!r}")
    return folder, agreed_id


def _make_folder(root: Path, name: str, faults: FaultReporter) -> Path:
    try:
        folder = create_folder(root.absolute(), name)
        _probe(folder)
        return folder
    except OSError as error:
        folder = create_emergency_folder(name)
        faults.warn(
            f"traintrace cannot write a run into {root} ({error.strerror or error}); "
            f"this run is in {folder}"
        )
        return folder


def _probe(folder: Path) -> None:
    probe = folder / f".probe-{os.getpid()}"
    probe.write_bytes(b"\0" * 4096)
    probe.unlink(missing_ok=True)
