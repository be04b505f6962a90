"""What a guarded run declares: the workload, and which of its steps are measured.

The `guard` section of traintrace.yaml. Two runs may be compared under a guard only if their declarations,
normalised, are equal: same name, same parameters with the same types, same steps. Nobody checks that
training really used what it declares.
"""

import hashlib
import json
import math
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from traintrace.errors import UsageError

Scalar: TypeAlias = str | int | float | bool

SCHEMA_VERSION: Final = 1
LONGEST_NAME: Final = 128
LONGEST_KEY: Final = 64
LONGEST_TEXT: Final = 256
MOST_PARAMETERS: Final = 32
LARGEST: Final = 2**63 - 1

_TYPES: Final[Mapping[type, str]] = {
    str: "a text",
    bool: "a truth value",
    int: "a whole number",
    float: "a decimal number",
    dict: "a mapping",
    list: "a list",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a declaration.

    Attributes:
        place: Keys that lead to it, from the declaration down; empty for the declaration itself.
        value: What stands there, as PyYAML typed it.
        told: What to do instead.
    """

    place: tuple[str, ...]
    value: object
    told: str


@dataclass(frozen=True, slots=True)
class Contract:
    """A declaration that was checked.

    Attributes:
        workload: Its name.
        parameters: What materially changes the work, by key.
        start_step: First measured step, counted from 1.
        completed_steps: How many steps are measured from there on.
    """

    workload: str
    start_step: int
    completed_steps: int
    parameters: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def end_step(self) -> int:
        """Give the last measured step."""
        return self.start_step + self.completed_steps - 1

    @property
    def content(self) -> dict[str, Any]:
        """Give the normalised declaration, with every key and the parameters in order."""
        return {
            "schema_version": SCHEMA_VERSION,
            "workload": {
                "name": self.workload,
                "parameters": dict(sorted(self.parameters.items())),
            },
            "measurement": {
                "start_step": self.start_step,
                "completed_steps": self.completed_steps,
            },
        }

    @property
    def digest(self) -> str:
        """Give the SHA-256 of the declaration as canonical JSON: 1, 1.0, true and "1" all differ."""
        canonical = json.dumps(
            self.content, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def sentence(self) -> str:
        """Give what is said once the declaration is captured, in one line."""
        given = json.dumps(dict(self.parameters), ensure_ascii=False)
        shown = given if len(given) <= 160 else f"{len(self.parameters)} parameters"
        return (
            f"guard: measurement contract captured: {self.workload} {shown}, "
            f"steps {self.start_step} to {self.end_step}, digest {self.digest[:12]}"
        )


def first_problem(guard: object) -> Problem | None:
    """Say what is wrong with a declaration as PyYAML gave it; None if it can be used."""
    return next(_problems(guard), None)


def contract_of(guard: Any) -> Contract:
    """Make a contract of a declaration, as a settings file or a manifest holds it.

    Raises:
        UsageError: It cannot be used; the message names the key.
    """
    problem = first_problem(guard)
    if problem is not None:
        name = ".".join(("guard", *problem.place))
        raise UsageError(f"{name}: {shown(problem.value)}: {problem.told}")
    workload, measurement = guard["workload"], guard["measurement"]
    return Contract(
        workload["name"],
        measurement["start_step"],
        measurement["completed_steps"],
        dict(workload.get("parameters", {})),
    )


def shown(value: object) -> str:
    """Give a value and its type, as in `'1e-3' (a text)`; in one line that disturbs no terminal."""
    kind = _TYPES.get(type(value), type(value).__name__)
    try:
        text = ascii(value)
    except ValueError:  # a number of more digits than Python writes
        text = "..."
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({kind})"


def _problems(guard: object) -> Iterator[Problem]:
    yield from _mapping(
        guard, (), required=("schema_version", "workload", "measurement"), optional=()
    )
    assert isinstance(guard, dict)  # else a problem was given, and nobody asks for a second
    version = guard["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        yield Problem(("schema_version",), version, f"use {SCHEMA_VERSION}")
    workload, measurement = guard["workload"], guard["measurement"]
    yield from _mapping(workload, ("workload",), required=("name",), optional=("parameters",))
    yield from _text(workload["name"], ("workload", "name"), LONGEST_NAME, trimmed=True)
    yield from _parameters(workload.get("parameters", {}), ("workload", "parameters"))
    yield from _mapping(
        measurement, ("measurement",), required=("start_step", "completed_steps"), optional=()
    )
    for name in ("start_step", "completed_steps"):
        value = measurement[name]
        if type(value) is not int or not 1 <= value <= LARGEST:
            yield Problem(
                ("measurement", name), value, f"use a whole number from 1 to {LARGEST}, unquoted"
            )
    if measurement["start_step"] + measurement["completed_steps"] - 1 > LARGEST:
        yield Problem(
            ("measurement", "completed_steps"),
            measurement["completed_steps"],
            f"the last measured step would be beyond {LARGEST}",
        )


def _mapping(
    value: object,
    place: tuple[str, ...],
    *,
    required: tuple[str, ...],
    optional: tuple[str, ...],
) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(place, value, f"use a mapping with {', '.join(required)}")
        return
    known = (*required, *optional)
    for key in value:
        if not isinstance(key, str):
            yield Problem(place, value, f"the key {shown(key)} in it is no text: quote it")
        elif key not in known:
            yield Problem((*place, key), value[key], f"no such field; there are {', '.join(known)}")
    for key in required:
        if key not in value:
            yield Problem(place, value, f"{key} is missing")


def _parameters(value: object, place: tuple[str, ...]) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(place, value, "use a mapping of names to single values")
        return
    if len(value) > MOST_PARAMETERS:
        yield Problem(place, value, f"it has {len(value)} entries: use at most {MOST_PARAMETERS}")
    for key, item in value.items():
        if not isinstance(key, str):
            yield Problem(place, value, f"the key {shown(key)} in it is no text: quote it")
            continue
        for problem in _text(key, (*place, key), LONGEST_KEY, trimmed=True):
            yield Problem(problem.place, key, f"as a key: {problem.told}")
        yield from _scalar(item, (*place, key))


def _scalar(value: object, place: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(value, str):
        yield from _text(value, place, LONGEST_TEXT, trimmed=False)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem(place, value, "use a finite number")
    elif isinstance(value, int):  # truth values are, too
        if not -LARGEST - 1 <= value <= LARGEST:
            yield Problem(place, value, "use a whole number that fits into 64 bits")
    else:
        wanted = "use a text, a number or a truth value"
        told = wanted if isinstance(value, dict | list | None) else f"{wanted}: quote it"
        yield Problem(place, value, told)


def _text(
    value: object, place: tuple[str, ...], longest: int, *, trimmed: bool
) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield Problem(place, value, "use a text: quote it")
        return
    if not value:
        yield Problem(place, value, "use a text that is not empty")
    if trimmed and value != value.strip():
        yield Problem(place, value, "use a text without blanks around it")
    if len(value) > longest:
        yield Problem(place, value, f"it has {len(value)} characters: use at most {longest}")
    odd = next((char for char in value if unicodedata.category(char).startswith("C")), None)
    if odd is not None:
        yield Problem(
            place, value, f"the character U+{ord(odd):04X} in it is a control or format character"
        )
