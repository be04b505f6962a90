"""Make a run's manifest anew from its rank files, where it was lost or is damaged.

Each rank's file says at its head what run it belongs to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from traintrace.errors import RunReadError
from traintrace.facts import Environment
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import MANIFEST_VERSION, Manifest, manifest_from
from traintrace.store.rankfile import NAME
from traintrace.store.ranksigns import head_of, status_of_ranks

_RUN: Final = "run"
_UNKNOWN: Final = "unknown"


def head_of_file(manifest: Manifest, identity: Identity) -> dict[str, Any]:
    """Give what a rank's file says of its run from the first moment on."""
    content = asdict(manifest)
    del content["folder"]
    return {
        "rank": identity.rank,
        "attempt": identity.attempt,
        "node": identity.node,
        _RUN: {"schema_version": MANIFEST_VERSION, **content},
    }


def rebuild_manifest(folder: Path, locations: Sequence[str]) -> Manifest | None:
    """Make the manifest of a run from its rank files; writes nothing.

    Its status is what the ranks say: how they ended if all of them did, else "running", which turns
    into "lost" like that of any run that has not been written to for long.

    Args:
        folder: Folder of the run.
        locations: Its rank files.

    Returns:
        None if no rank file can be read.
    """
    heads = [head for head in map(head_of, locations) if head]
    if not heads:
        return None
    known = [found for head in heads if (found := _manifest(head, folder)) is not None]
    manifest = known[0] if known else _from_names(folder, locations)
    return replace(manifest, status=status_of_ranks(heads, manifest.world_size))


def _manifest(head: Mapping[str, Any], folder: Path) -> Manifest | None:
    try:
        return manifest_from(json.dumps(head[_RUN]).encode(), folder / "its rank files")
    except (KeyError, RecursionError, RunReadError):
        return None


def _from_names(folder: Path, locations: Sequence[str]) -> Manifest:
    """Make one of what names and times say, for files from before they said more."""
    ranks = [int(found[1]) for path in locations if (found := NAME.fullmatch(Path(path).name))]
    return Manifest(
        name=folder.name,
        id=folder.name,
        status="running",
        exit_code=None,
        plugin=_UNKNOWN,
        plugin_version=_UNKNOWN,
        framework=_UNKNOWN,
        framework_version=_UNKNOWN,
        tool_version=_UNKNOWN,
        started_at=min(Path(path).stat().st_mtime for path in locations),
        ended_at=None,
        world_size=max(ranks, default=0) + 1,
        nodes=1,
        environment=Environment(python=_UNKNOWN),
        folder=folder,
    )
