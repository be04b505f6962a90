"""The manifest of a run: what the run says of itself, in one JSON file.

Three states stand apart in it, since each can be fine while another is not: `status` is the
training's as the ranks saw it, `telemetry_status` says how much of the record is there, `guard`
belongs to the regression guard. `training` is what the launchers of all nodes saw, if there were
launchers of ours. It holds no host, user, path, argument or value of the environment.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from traintrace import atomic
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.facts import Environment, RunStatus
from traintrace.runs import manifestvalues as values

MANIFEST_NAME: Final = "manifest.json"
MANIFEST_VERSION: Final = 3

TelemetryStatus = Literal["complete", "partial", "none", "unknown"]
TrainingStatus = Literal["completed", "incomplete"]


@dataclass(frozen=True, slots=True)
class NodeExit:
    """How training ended on one node; `exit_code` is 128 + n for signal n."""

    node_rank: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """How training ended on all nodes, as their launchers saw it.

    Attributes:
        status: "completed" if every node answered, and with 0.
        reasons: Why it is incomplete; words of a closed list.
        nodes: What the nodes that answered said, in their order.
    """

    status: TrainingStatus
    nodes_expected: int
    nodes_observed: int
    reasons: Sequence[str] = ()
    nodes: Sequence[NodeExit] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run says of itself.

    Attributes:
        started_at: Unix seconds at which the first attempt began. ended_at: the same for the end of
            the last one, None while it runs.
        folder: Where the run lies; not part of the file.
        launcher: What started the ranks: "torchrun", "slurm", "mpi", "none", ...
        part_of: Id of the first run of a launch, in every later run of that launch; else None.
        telemetry_status: How much of the record is there: "complete"; "partial" if rows or ranks are
            missing; "none" if no rank recorded; "unknown" while nobody has looked.
        guard: What the regression guard declared; None without one.
        training: What the launchers saw; None where none of ours started it.
    """

    name: str
    id: str
    status: RunStatus
    exit_code: int | None
    plugin: str
    plugin_version: str
    framework: str
    framework_version: str
    tool_version: str
    started_at: float
    ended_at: float | None
    world_size: int
    nodes: int
    environment: Environment
    folder: Path = field(compare=False)
    launcher: str = "none"
    part_of: str | None = None
    telemetry_status: TelemetryStatus = "unknown"
    guard: Mapping[str, Any] | None = None
    training: TrainingOutcome | None = None

    def write(self) -> None:
        """Write manifest.json in one step.

        Raises:
            OSError: The folder cannot be written.
        """
        atomic.write_text(self.folder / MANIFEST_NAME, self.to_text())

    def to_text(self) -> str:
        """Give the text of manifest.json."""
        content = asdict(self)
        del content["folder"]
        content = {"schema_version": MANIFEST_VERSION, **content}
        return json.dumps(content, indent=2, allow_nan=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of the run in `folder`; one of an older version too.

        Raises:
            RunReadError: There is none, or it is damaged; the message names the file.
            NewerSchemaError: It was written by a newer traintrace.
        """
        path = folder / MANIFEST_NAME
        try:
            with open(path, "rb") as file:
                data = file.read(values.MAX_BYTES + 1)
        except FileNotFoundError:
            raise RunReadError(f"{folder}: no run here ({MANIFEST_NAME} is missing)") from None
        except OSError as error:
            raise RunReadError(f"{path}: cannot be read ({error})") from error
        return manifest_from(data, path)


def update(folder: Path, **changes: Any) -> Manifest:
    """Read the manifest of the run in `folder`, change some of it, write and give it.

    Not for two processes at one time: the later one wins.

    Args:
        folder: Folder of the run.
        **changes: New values by attribute.

    Raises:
        RunReadError: There is no manifest, or it is damaged.
        OSError: The folder cannot be written.
    """
    manifest = replace(Manifest.read(folder), **changes)
    manifest.write()
    return manifest


def with_what_is_known(manifest: Manifest, known: Manifest) -> Manifest:
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


def manifest_from(data: bytes, path: Path) -> Manifest:
    """Check what was read from `path`, and make a manifest of it.

    Raises:
        RunReadError: It is none, or it is damaged; the message names the file.
        NewerSchemaError: It was written by a newer traintrace.
    """
    try:
        if len(data) > values.MAX_BYTES:
            raise ValueError(f"larger than {values.MAX_BYTES} bytes")
        content = values.parse(data.decode())
    except ValueError as error:
        raise RunReadError(f"{path}: cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise RunReadError(f"{path}: not a manifest")
    version = content.pop("schema_version", None)
    if type(version) is not int:
        raise RunReadError(f"{path}: schema_version is {version!r}, expected a number")
    if version > MANIFEST_VERSION:
        raise NewerSchemaError(
            f"{path}: written with schema {version}, this traintrace reads up to "
            f"{MANIFEST_VERSION}; upgrade traintrace"
        )
    try:
        return _manifest_of(content, path.parent)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunReadError(f"{path}: damaged ({error})") from error


def _manifest_of(content: dict[str, Any], folder: Path) -> Manifest:
    values.check(content, values.MANIFEST)
    values.check(content["environment"], values.ENVIRONMENT)
    content["environment"] = Environment(**content["environment"])
    content["training"] = _training_from(content.get("training"))
    return Manifest(**content, folder=folder)


def _training_from(content: Any) -> TrainingOutcome | None:
    if content is None:
        return None
    values.check(content, values.TRAINING)
    for node in content["nodes"]:
        values.check(node, values.NODE)
    nodes = tuple(NodeExit(one["node_rank"], one["exit_code"]) for one in content["nodes"])
    return TrainingOutcome(**(content | {"reasons": tuple(content["reasons"]), "nodes": nodes}))


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
