"""The manifest of a run: what the run says of itself, in one JSON file."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, get_args

from traintrace import atomic
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.facts import Environment, RunStatus

MANIFEST_NAME: Final = "manifest.json"
MANIFEST_VERSION: Final = 1
_STATUSES: Final = get_args(RunStatus)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run says of itself.

    Attributes:
        started_at: Unix seconds. ended_at: the same, None while it runs.
        folder: Where the run lies; not part of the file.
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

    def write(self) -> None:
        """Write manifest.json in one step.

        Raises:
            OSError: The folder cannot be written.
        """
        content = asdict(self)
        del content["folder"]
        text = json.dumps(
            {"schema_version": MANIFEST_VERSION, **content}, indent=2, allow_nan=False
        )
        atomic.write_text(self.folder / MANIFEST_NAME, text + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of the run in `folder`.

        Raises:
            RunReadError: There is none, or it is damaged; the message names the file.
            NewerSchemaError: It was written by a newer traintrace.
        """
        path = folder / MANIFEST_NAME
        try:
            content = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise RunReadError(f"{folder}: no run here ({MANIFEST_NAME} is missing)") from None
        except (OSError, ValueError) as error:
            raise RunReadError(f"{path}: cannot be read ({error})") from error
        return _manifest_from(content, path)


def _manifest_from(content: object, path: Path) -> Manifest:
    if not isinstance(content, dict):
        raise RunReadError(f"{path}: not a manifest")
    version = content.pop("schema_version", None)
    if not isinstance(version, int):
        raise RunReadError(f"{path}: schema_version is {version!r}, expected a number")
    if version > MANIFEST_VERSION:
        raise NewerSchemaError(
            f"{path}: written with schema {version}, this traintrace reads up to "
            f"{MANIFEST_VERSION}; upgrade traintrace"
        )
    try:
        if content["status"] not in _STATUSES:
            raise ValueError(f"status is {content['status']!r}")
        environment = Environment(**content.pop("environment"))
        return Manifest(**content, environment=environment, folder=path.parent)
    except (KeyError, TypeError, ValueError) as error:
        raise RunReadError(f"{path}: damaged ({error})") from error
