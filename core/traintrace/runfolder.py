"""Run folders: their names, what lies in them, and how a run is opened for reading.

runs/<run-name>/
  manifest.json                 identity, topology, versions, status
  ranks/rank-00003.sqlite       one file per rank (attempt n > 0: rank-00003.a1.sqlite)
  final_summary.json  final_summary.txt
"""

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, cast

from traintrace.errors import RunReadError
from traintrace.facts import (
    Level,
    LoaderSetup,
    RankFacts,
    RunFacts,
    RunStatus,
    Setup,
    TracerCost,
)
from traintrace.identity import Identity
from traintrace.manifest import MANIFEST_NAME, Manifest
from traintrace.reader import RankReader

# A run that says it is running but has not written for this long has died: the drain writes at
# least every two seconds.
SILENT_AFTER_S: Final = 15.0
# How long rank 0 waits for the others before it makes the report without them.
WAIT_FOR_RANKS_S: Final = 10.0
_POLL_S: Final = 0.05
# File systems allow names of 255 bytes; some room stays for a number.
_NAME_BYTES: Final = 200
_RANK_FILE: Final = re.compile(r"rank-(\d{5})(?:\.a(\d+))?\.sqlite")


def safe_name(name: str) -> str:
    """Give `name` without the characters that no file system likes, and no longer than they allow."""
    text = re.sub(r"[^\w.+=-]+", "-", name).strip(".-")
    return text.encode()[:_NAME_BYTES].decode(errors="ignore") or "run"


def create_folder(root: Path, name: str) -> Path:
    """Make the folder of a new run under `root`; a taken name gets `-2`, `-3`, ...

    Args:
        root: Folder that holds runs; made if missing.
        name: Wanted name; characters that no file system likes are replaced.

    Raises:
        OSError: The folder cannot be made.
    """
    safe = safe_name(name)
    root.mkdir(parents=True, exist_ok=True)
    for number in range(1, 10_000):
        folder = root / (safe if number == 1 else f"{safe}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        (folder / "ranks").mkdir()
        return folder
    raise FileExistsError(f"{root / safe}: this name is taken ten thousand times; clean up {root}")


def create_emergency_folder(name: str) -> Path:
    """Make a run folder where temporary files go; for when the wanted place cannot be written.

    Raises:
        OSError: Not even that can be written.
    """
    return create_folder(Path(tempfile.mkdtemp(prefix="traintrace-")), name)


def rank_file(folder: Path, rank: int, attempt: int) -> Path:
    """Give the path of a rank's file in one attempt."""
    suffix = f".a{attempt}" if attempt else ""
    return folder / "ranks" / f"rank-{rank:05d}{suffix}.sqlite"


def rank_files(folder: Path) -> list[str]:
    """Give the paths of the rank files of the run in `folder`, in order."""
    files = (folder / "ranks").glob("*.sqlite")
    return sorted(str(file) for file in files if _RANK_FILE.fullmatch(file.name))


@dataclass(frozen=True, slots=True)
class Run:
    """A run opened for reading.

    Attributes:
        folder: Where it lies.
        manifest: What it says of itself.
        locations: What to open for each rank file; paths, or in-memory names while a process whose
            disk failed still lives.
    """

    folder: Path
    manifest: Manifest
    locations: Sequence[str]

    def facts(self, columns: Sequence[str], *, latest: int | None = None) -> RunFacts:
        """Read all ranks, with the named columns of `steps`.

        Args:
            columns: Columns of the table.
            latest: Read no older rows, spans, regions and scalars than are needed for so many of the
                latest steps that all ranks reached; None reads all there are. Sums, events and
                readings are read in full.

        Raises:
            RunReadError: A rank file is damaged; the message names it.
        """
        since = 0 if latest is None else _before_latest(self.locations, latest)
        read = (_read_rank(location, columns, since) for location in self.locations)
        ranks = [rank for rank in read if rank is not None]
        manifest = self.manifest
        starts = [r.totals.start_ns for r in ranks if r.totals.start_ns]
        ends = [r.totals.start_ns + r.totals.wall_ns for r in ranks if r.totals.start_ns]
        return RunFacts(
            name=manifest.name,
            id=manifest.id,
            status=self.status,
            exit_code=manifest.exit_code,
            plugin=manifest.plugin,
            plugin_version=manifest.plugin_version,
            framework=manifest.framework,
            framework_version=manifest.framework_version,
            tool_version=manifest.tool_version,
            started_at=manifest.started_at,
            duration_s=(max(ends) - min(starts)) / 1e9 if starts else None,
            world_size=manifest.world_size,
            nodes_expected=manifest.nodes,
            environment=manifest.environment,
            ranks=ranks,
        )

    @property
    def written_at(self) -> float:
        """Unix time of the last write to a rank file; 0.0 if there is none on disk."""
        return max(map(_written_at, self.locations), default=0.0)

    @property
    def status(self) -> RunStatus:
        """What the manifest says, or "lost" if it says "running" and nothing was written for long."""
        if self.manifest.status != "running":
            return self.manifest.status
        newest = self.written_at
        silent = bool(newest) and time.time() - newest > SILENT_AFTER_S
        return "lost" if silent or not self.locations else "running"


def _written_at(location: str) -> float:
    """Give the Unix time of the last write to a rank file or its log; 0 if it is in memory."""
    times = [
        path.stat().st_mtime
        for path in (Path(location), Path(f"{location}-wal"))
        if not location.startswith("file:") and path.exists()
    ]
    return max(times, default=0.0)


def wait_for_ranks(
    folder: Path, identity: Identity, deadline_s: float = WAIT_FOR_RANKS_S
) -> list[int]:
    """Wait until all ranks of this attempt have written their last row; give those that have not.

    No collective: each rank's own file says whether it has ended.

    Args:
        folder: Folder of the run.
        identity: Who waits; its world size says how many ranks there are.
        deadline_s: Seconds to wait at most.
    """
    missing = [rank for rank in range(identity.world_size) if rank != identity.rank]
    until = time.monotonic() + deadline_s
    while True:
        missing = [r for r in missing if not _has_ended(rank_file(folder, r, identity.attempt))]
        if not missing or time.monotonic() >= until:
            return missing
        time.sleep(_POLL_S)


def _has_ended(file: Path) -> bool:
    try:
        reader = RankReader(str(file))
    except RunReadError:
        return False
    try:
        return bool(reader.meta().get("status", "running") != "running")
    except RunReadError:
        return False
    finally:
        reader.close()


def open_run(path: str | Path) -> Run:
    """Open the run in folder `path` for reading, finished or not.

    Raises:
        RunReadError: There is no run, or its manifest is damaged; the message names the file.
        NewerSchemaError: It was written by a newer traintrace.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise RunReadError(f"{folder}: no such run folder")
    manifest = Manifest.read(folder)
    return Run(folder, manifest, rank_files(folder))


def list_manifests(root: str | Path) -> tuple[list[Manifest], list[RunReadError]]:
    """Give the manifests of all runs in `root`, oldest first, and an error for each damaged one.

    Folders without a run are passed over.

    Raises:
        RunReadError: `root` is no folder.
    """
    folder = Path(root)
    if not folder.is_dir():
        raise RunReadError(f"{folder}: no such folder")
    found, damaged = [], []
    for path in sorted(folder.glob(f"*/{MANIFEST_NAME}")):
        try:
            found.append(Manifest.read(path.parent))
        except RunReadError as error:  # a newer schema is one of these
            damaged.append(error)
    return sorted(found, key=lambda manifest: manifest.started_at), damaged


def _before_latest(locations: Sequence[str], latest: int) -> int:
    """Give the step after which at least `latest` common steps of the last attempt have rows.

    A step without a row on one rank is common to none, so such steps are read beyond `latest`.
    """
    reached: dict[int, list[int]] = {}
    without_row = 0
    for location in locations:
        reader = RankReader(location)
        try:
            last, meta = reader.last_step(), reader.meta()
        finally:
            reader.close()
        if last and isinstance(meta.get("attempt"), int):
            reached.setdefault(meta["attempt"], []).append(last)
            counters = meta.get("counters")
            dropped = counters.get("dropped_rows") if isinstance(counters, dict) else None
            without_row += dropped if isinstance(dropped, int) else 0
    if not reached:
        return 0
    return max(0, min(reached[max(reached)]) - latest - without_row)


def _read_rank(location: str, columns: Sequence[str], since: int) -> RankFacts | None:
    """Read one rank's file; None if its process ended before the first flush: nothing is in it."""
    reader = RankReader(location)
    try:
        meta = reader.meta()
        if not meta:
            return None
        return RankFacts(
            rank=int(meta["rank"]),
            attempt=int(meta["attempt"]),
            node=int(meta["node"]),
            status=cast("RunStatus", meta["status"]),
            level=cast("Level", meta["level"]),
            device_clock=meta["device_clock"],
            setup=_setup_from(meta["setup"]),
            cost=TracerCost(**meta["cost"]),
            totals=reader.totals(),
            columns=reader.columns(columns, since=since),
            spans=reader.spans(since=since),
            regions=reader.regions(since=since),
            scalars=reader.scalars(since=since),
            events=reader.events(),
            system=reader.system(),
            process=reader.process(),
            devices=reader.devices(),
            unmeasured=meta["unmeasured"],
            warnings=meta["warnings"],
            process_peak_allocated_bytes=meta.get("process_peak_allocated_bytes"),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, KeyError) and error.args and "column" in str(error.args[0]):
            raise
        raise RunReadError(f"{location}: the meta table is damaged ({error!r})") from error
    finally:
        reader.close()


def _setup_from(content: Mapping[str, Any]) -> Setup:
    """Give the configuration; what a later version knows besides is passed over."""
    loader = LoaderSetup(**_known(LoaderSetup, content.get("loader", {})))
    return replace(Setup(**_known(Setup, content)), loader=loader)


def _known(record: type, content: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(record)}
    return {name: value for name, value in content.items() if name in names and name != "loader"}
