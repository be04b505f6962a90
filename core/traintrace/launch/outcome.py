"""How training ended on each node: one small record a node, and what they say together.

The launcher of a node writes its record into the run, where node 0 collects all of them. A record says
nothing of hosts, paths or arguments.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from traintrace.launch.supervise import Ended
from traintrace.publishing.location import location
from traintrace.publishing.place import Location
from traintrace.runs.manifest import NodeExit, TrainingOutcome

SCHEMA_VERSION: Final = 1
MAX_BYTES: Final = 64 * 1024

# Public words, in the order in which they are given.
MISSING: Final = "node_outcome_missing"
INVALID: Final = "node_outcome_invalid"
CONFLICT: Final = "node_outcome_conflict"
FAILED: Final = "node_training_failed"
NOT_COLLECTED: Final = "node_outcome_collection_failed"
REASONS: Final = (MISSING, INVALID, CONFLICT, FAILED, NOT_COLLECTED)

_LOOK_EVERY_S: Final = 0.2
_TEXTS: Final = ("run", "run_id", "contract")
_OPTIONAL: Final = ("run_id", "contract", "nproc_per_node", "signal")
# Smallest and largest number that can be meant.
_RANGES: Final = {
    "node_rank": (0, 1_000_000),
    "nodes": (1, 1_000_000),
    "nproc_per_node": (1, 1_000_000),
    "exit_code": (0, 255),
    "signal": (1, 127),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutcome:
    """How training ended on one node.

    Attributes:
        run: Name of the run.
        run_id: Its id; None where this node's launcher does not know it.
        nodes: How many nodes the job has.
        nproc_per_node: Processes on each; None if torchrun chose the number.
        contract: Digest of what the regression guard declared; None without a guard.
        exit_code: Training's exit code, 128 + n for signal n.
        signal: That signal; None if there was none.
        ended_at: Unix seconds.
    """

    run: str
    run_id: str | None = None
    node_rank: int = 0
    nodes: int = 1
    nproc_per_node: int | None = None
    contract: str | None = None
    exit_code: int
    signal: int | None = None
    ended_at: float = field(default_factory=time.time)

    @property
    def status(self) -> Literal["completed", "failed"]:
        """What the exit code says."""
        return "completed" if self.exit_code == 0 else "failed"

    @property
    def ended(self) -> Ended:
        """Training's end as a launch gives it."""
        return Ended(self.exit_code, self.signal)

    def to_json(self) -> str:
        """Give the record as it is written."""
        content = {"schema_version": SCHEMA_VERSION, **asdict(self), "status": self.status}
        return json.dumps(content, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: bytes) -> "NodeOutcome":
        """Read a record, and nothing that merely resembles one.

        Raises:
            ValueError: It is too large, no JSON, of another version, or a key is missing, unknown or
                impossible.
        """
        if len(data) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        try:
            content = json.loads(data, parse_constant=_refuse_constant)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(content, dict):
            raise ValueError("not an object")
        names = {each.name for each in fields(cls)}
        if content.keys() != names | {"schema_version", "status"}:
            raise ValueError(f"keys are {sorted(content)}")
        version, status = content.pop("schema_version"), content.pop("status")
        if type(version) is not int or version != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {version!r}")
        for name in names:
            _check(name, content)
        outcome = cls(**content)
        if status != outcome.status:
            raise ValueError(f"status is {status!r} with exit code {outcome.exit_code}")
        return outcome


def write_outcome(place: str | Path, outcome: NodeOutcome) -> None:
    """Write `outcome` into the run at `place` (a folder or its URL), in one step.

    Raises:
        OSError: The place cannot be written.
    """
    _place_of(location(place), outcome.node_rank).write_bytes(outcome.to_json().encode())


def collect_outcomes(
    place: str | Path, nodes: int, deadline_s: float, expected: NodeOutcome | None = None
) -> TrainingOutcome:
    """Read what all `nodes` wrote into the run at `place`, and wait for it up to `deadline_s` seconds.

    Args:
        place: The folder of the run, or its URL.
        nodes: How many nodes should have written.
        deadline_s: What has not come by then counts as missing.
        expected: A record that the others must fit in run, topology and contract; None takes that of
            node 0.

    Returns:
        What they say together. It never raises: what fails here is one of its reasons.
    """
    reasons: set[str] = set()
    found: dict[int, NodeOutcome] = {}
    try:
        _collect(location(place), nodes, time.monotonic() + deadline_s, found, reasons)
    except Exception:  # noqa: BLE001 - named in the result; training's own exit code stands
        reasons.add(NOT_COLLECTED)
    reference = expected or found.get(0)
    for rank, outcome in list(found.items()):
        if reference is not None and not _fits(outcome, rank, nodes, reference):
            reasons.add(CONFLICT)
            del found[rank]
    if any(outcome.exit_code != 0 for outcome in found.values()):
        reasons.add(FAILED)
    return TrainingOutcome(
        status="incomplete" if reasons else "completed",
        nodes_expected=nodes,
        nodes_observed=len(found),
        reasons=tuple(reason for reason in REASONS if reason in reasons),
        nodes=tuple(NodeExit(rank, found[rank].exit_code) for rank in sorted(found)),
    )


def _collect(
    run: Location, nodes: int, deadline: float, found: dict[int, NodeOutcome], reasons: set[str]
) -> None:
    waited_for: Mapping[int, str] = dict.fromkeys(range(nodes), MISSING)
    while True:
        still: dict[int, str] = {}
        for rank in waited_for:
            try:
                found[rank] = NodeOutcome.from_json(_read(_place_of(run, rank)))
            except FileNotFoundError:
                still[rank] = MISSING
            except OSError:  # a shared file system may be back in a moment
                still[rank] = INVALID
            except ValueError:  # records are written in one step: it stays as it is
                reasons.add(INVALID)
        waited_for = still
        remaining_s = deadline - time.monotonic()
        if not waited_for or remaining_s <= 0:
            break
        time.sleep(min(_LOOK_EVERY_S, remaining_s))
    reasons.update(waited_for.values())


def _place_of(run: Location, node_rank: int) -> Location:
    return run / f"nodes/node-{node_rank:03d}/outcome.json"


def _read(place: Location) -> bytes:
    if place.local is None:
        return place.read_bytes()
    with open(place.local, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _fits(outcome: NodeOutcome, rank: int, nodes: int, reference: NodeOutcome) -> bool:
    same_id = None in (outcome.run_id, reference.run_id) or outcome.run_id == reference.run_id
    return (
        same_id
        and outcome.run == reference.run
        and outcome.node_rank == rank
        and outcome.nodes == nodes
        and outcome.nproc_per_node == reference.nproc_per_node
        and outcome.contract == reference.contract
    )


def _check(name: str, content: dict[str, Any]) -> None:
    value = content[name]
    if value is None:
        right = name in _OPTIONAL
    elif name in _TEXTS:
        right = isinstance(value, str) and value != ""
    elif name == "ended_at":
        right = type(value) in (int, float) and 0 < value < float("inf")
    else:
        least, most = _RANGES[name]
        right = type(value) is int and least <= value <= most
    if not right:
        raise ValueError(f"{name} is {value!r}")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
