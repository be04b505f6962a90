"""Run folders: their names, what lies in them, and how a run is opened for reading.

runs/<run-name>/
  manifest.json                 identity, topology, versions, status
  ranks/rank-00003.sqlite       one file per rank (attempt n > 0: rank-00003.a1.sqlite)
  final_summary.json  final_summary.txt
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.facts import RunFacts, RunStatus
from traintrace.runs.claims import (
    claim_folder,
    create_emergency_folder,
    create_folder,
    id_of,
    safe_name,
)
from traintrace.runs.identity import Identity
from traintrace.runs.liveness import is_dead
from traintrace.runs.losses import End, settle
from traintrace.runs.manifest import MANIFEST_NAME, Manifest, list_manifests
from traintrace.runs.rebuild import rebuild_manifest
from traintrace.store.rankfile import NAME, before_latest, read_rank
from traintrace.store.ranksigns import (
    has_died,
    has_ended,
    head_of,
    is_running,
    status_of_ranks,
    written_at,
)
from traintrace.store.reader import LAST_POSSIBLE

__all__ = [
    "Run",
    "claim_folder",
    "create_emergency_folder",
    "create_folder",
    "list_manifests",
    "open_run",
    "rank_file",
    "rank_files",
    "safe_name",
    "wait_for_ranks",
]

# A run that says it is running but has not written for this long has died: the drain writes at
# least every two seconds.
SILENT_AFTER_S: Final = 15.0
# A run without any rank's file is starting, or was left by its launcher.
STARTING_S: Final = 120.0
_POLL_S: Final = 0.05


def rank_file(folder: Path, rank: int, attempt: int) -> Path:
    """Give the path of a rank's file in one attempt."""
    suffix = f".a{attempt}" if attempt else ""
    return folder / "ranks" / f"rank-{rank:05d}{suffix}.sqlite"


def rank_files(folder: Path) -> list[str]:
    """Give the paths of the rank files of the run in `folder`, in order."""
    files = (folder / "ranks").glob("*.sqlite")
    return sorted(str(file) for file in files if NAME.fullmatch(file.name))


@dataclass(frozen=True, slots=True)
class Run:
    """A run opened for reading.

    Attributes:
        folder: Where it lies.
        manifest: What it says of itself.
        locations: What to open for each rank file; paths, or in-memory names while a process whose
            disk failed still lives.
        warnings: What a reader must know of how it was opened.
        place: The URL or path where it is published, if `folder` only holds a copy.
    """

    folder: Path
    manifest: Manifest
    locations: Sequence[str]
    warnings: Sequence[str] = ()
    place: str | None = None

    def facts(
        self,
        columns: Sequence[str],
        *,
        latest: int | None = None,
        steps: tuple[int, int] | None = None,
    ) -> RunFacts:
        """Read all ranks, with the named columns of `steps`.

        A file that is damaged, empty or held by another program takes no other one with it: what can be
        read of it is there, and the warnings say what is missing.

        Args:
            columns: Columns of the table.
            latest: Read no older rows, spans, regions and scalars than are needed for so many of the
                latest steps that all ranks reached; None reads all there are. Sums, events and
                readings are read in full.
            steps: Read no rows and spans but those of this first to this last step; not with `latest`.

        Raises:
            NewerSchemaError: A rank file was written by a newer traintrace.
        """
        since, until = 0, LAST_POSSIBLE
        if steps is not None:
            since, until = steps[0] - 1, steps[1]
        elif latest is not None:
            since = before_latest(self.locations, latest)
        files = [read_rank(location, columns, since, until) for location in self.locations]
        status = self.status
        files, told = settle(files, self._end(status))
        ranks = [file.facts for file in files if file.facts is not None]
        all_lost = bool(ranks) and all(rank.status == "lost" for rank in ranks)
        manifest = self.manifest
        starts = [r.totals.start_ns for r in ranks if r.totals.start_ns]
        ends = [r.totals.start_ns + r.totals.wall_ns for r in ranks if r.totals.start_ns]
        return RunFacts(
            name=manifest.name,
            id=manifest.id,
            status="lost" if all_lost and status == "running" else status,
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
            warnings=[*self.warnings, *told],
        )

    def _end(self, status: RunStatus) -> End:
        """Give what is known of the end of the run besides what its ranks say."""
        now = time.time()
        silent = {place for place in self.locations if _is_silent(written_at(place), now)}
        told = status not in ("running", "lost")
        # A launcher writes what it saw when all processes have ended. Without one, a rank that is still
        # at work writes every two seconds.
        over = status == "lost" or (told and self.manifest.training is not None)
        return End(over, told, self.manifest.ended_at, frozenset(silent))

    @property
    def written_at(self) -> float:
        """Unix time of the last write to a rank file; 0.0 if there is none on disk."""
        return max(map(written_at, self.locations), default=0.0)

    @property
    def status(self) -> RunStatus:
        """What the manifest says; if that is "running", how all ranks say that they ended.

        Else "lost" if all that recorded is gone: at once where the processes were of this machine or
        their launchers have left their word, else after nothing was written for long.
        """
        if self.manifest.status != "running":
            return self.manifest.status
        heads = self._heads_if_none_is_at_work()
        told = status_of_ranks(heads, self.manifest.world_size)
        if told != "running":
            return told
        died = any(is_running(head) for head in heads)
        lost = died or self._is_silent() or self._launchers_have_ended()
        return "lost" if lost else "running"

    def _is_silent(self) -> bool:
        now = time.time()
        if self.locations:
            return _is_silent(self.written_at, now)
        # A launcher makes the run before training has imported its frameworks.
        return not _is_written_within(self.folder / MANIFEST_NAME, STARTING_S)

    def _launchers_have_ended(self) -> bool:
        outcomes = (self.folder / "nodes").glob("*/outcome.json")
        return sum(1 for _ in outcomes) >= max(1, self.manifest.nodes)

    def _heads_if_none_is_at_work(self) -> list[Mapping[str, Any]]:
        """Give what the rank files say of their ranks; nothing as soon as one may be at work."""
        heads = []
        for location in sorted(self.locations, key=written_at, reverse=True):
            head = head_of(location)
            if is_running(head) and not is_dead(head.get("process")):
                return []
            heads.append(head)
        return heads


def _is_silent(moment: float, now: float) -> bool:
    """Tell whether a file was last written long ago, or, once the clock was set back, ahead of now."""
    return bool(moment) and abs(now - moment) > SILENT_AFTER_S


def _is_written_within(path: Path, seconds: float) -> bool:
    try:
        return abs(time.time() - path.stat().st_mtime) <= seconds
    except OSError:
        return False


def wait_for_ranks(folder: Path, identity: Identity, deadline_s: float) -> list[int]:
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
        files = {rank: str(rank_file(folder, rank, identity.attempt)) for rank in missing}
        missing = [rank for rank in missing if not has_ended(files[rank])]
        if time.monotonic() >= until or all(has_died(files[rank]) for rank in missing):
            return missing
        time.sleep(_POLL_S)


def open_run(path: str | Path) -> Run:
    """Open the run in folder `path` for reading, finished or not.

    A manifest that is missing or damaged is made anew from the rank files.

    Raises:
        RunReadError: There is no run, or neither its manifest nor a rank file can be read.
        NewerSchemaError: It was written by a newer traintrace.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise RunReadError(f"{folder}: no such run folder")
    locations = rank_files(folder)
    try:
        return Run(folder, Manifest.read(folder), locations)
    except NewerSchemaError:
        raise
    except RunReadError:
        is_there = (folder / MANIFEST_NAME).exists()
        rebuilt = rebuild_manifest(folder, locations)
        if rebuilt is None and not is_there and (locations or id_of(folder) is not None):
            raise RunReadError(
                f"{folder}: this run ended before any of its ranks had written anything (there is no "
                f"{MANIFEST_NAME}, and no rank file that can be read)"
            ) from None
        if rebuilt is None:
            raise
        state = "damaged" if is_there else "missing"
        told = (
            f"the run's manifest is {state}: what the report says of the run is from its rank files"
        )
        return Run(folder, rebuilt, locations, (told,))
