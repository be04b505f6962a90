"""Start a run: agree on its name, make its folder, write its manifest; fall back where that fails."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from traintrace import facts
from traintrace.faults import FaultReporter
from traintrace.identity import Identity
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity
from traintrace.runfolder import (
    Manifest,
    Run,
    create_emergency_folder,
    create_folder,
    open_run,
    rank_file,
    safe_name,
)
from traintrace.store import RankWriter

TOOL_VERSION = "0.1.0"


@dataclass(slots=True)
class StartedRun:
    """The run that this process writes to.

    Attributes:
        folder: Its folder.
        manifest: What is known of it; rank 0 writes it.
    """

    folder: Path
    manifest: Manifest

    def open_writer(self, identity: Identity) -> RankWriter:
        """Open this rank's file.

        Raises:
            OSError, sqlite3.Error: The folder cannot be written.
        """
        return RankWriter(rank_file(self.folder, identity.rank, identity.attempt))

    def finish(self, status: facts.RunStatus, identity: Identity) -> None:
        """Write how the run ended; rank 0 alone does.

        Raises:
            OSError: The folder cannot be written.
        """
        self.manifest = replace(self.manifest, status=status, ended_at=time.time())
        if identity.rank == 0:
            self.manifest.write()

    def read(self) -> Run:
        """Open the run for reading, with the manifest as this process knows it."""
        return replace(open_run(self.folder), manifest=self.manifest)


def start_run(
    options: TraceOptions,
    plugin: PluginIdentity,
    identity: Identity,
    environment: facts.Environment,
    agree: Callable[[str], str] | None,
    faults: FaultReporter,
) -> StartedRun:
    """Make (or join) the run folder and write its manifest.

    A folder that cannot be written is replaced by one for temporary files, with one warning.

    Raises:
        OSError: Not even temporary files can be written.
    """
    folder, run_id = _make_folder(options, plugin, identity, agree, faults)
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
    if identity.rank == 0:
        manifest.write()
    return StartedRun(folder, manifest)


def _make_folder(
    options: TraceOptions,
    plugin: PluginIdentity,
    identity: Identity,
    agree: Callable[[str], str] | None,
    faults: FaultReporter,
) -> tuple[Path, str]:
    if identity.shared_run is not None:
        folder = Path(identity.shared_run)
        (folder / "ranks").mkdir(parents=True, exist_ok=True)
        return folder, folder.name
    run_id = secrets.token_hex(6)
    name = options.name or f"{plugin.plugin}-{time.strftime('%Y%m%d-%H%M%S')}"
    shared = identity.world_size > 1 and agree is not None
    if shared and agree is not None:
        agreed = agree(f"{run_id}/{_free_name(Path(options.run_dir), name)}")
        run_id, _, name = agreed.partition("/")
    root = Path(options.run_dir)
    try:
        folder = create_folder(root, name, shared=shared)
        _probe(folder)
    except OSError as error:
        folder = create_emergency_folder(name)
        faults.warn(
            f"traintrace cannot write a run into {root} ({error.strerror or error}); "
            f"this run is in {folder}"
        )
    if options.name is not None and not shared and folder.name != safe_name(options.name):
        faults.warn(f"the run name {options.name!r} is taken; this run is called {folder.name!r}")
    return folder, run_id


def _free_name(root: Path, name: str) -> str:
    """Give the first of name, name-2, ... that is not taken; the ranks then agree on one proposal."""
    number = 1
    candidate = name
    while (root / candidate).exists():
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _probe(folder: Path) -> None:
    probe = folder / ".probe"
    probe.write_bytes(b"\0" * 4096)
    probe.unlink()
