"""The golden of the public schema: keys and null patterns, which no change alters unnoticed.

`golden/public_schema.json` holds them in full. `pins.json` beside the published schema holds, for each
version that ever had a golden, digests of it: so a golden that was deleted or edited by hand is noticed,
and so is one rewritten without a new `SCHEMA_VERSION`.

After an intended change: raise `SCHEMA_VERSION` in reporting/traintrace_reporting/summary.py (and in the
schema), add a line to reporting/CHANGELOG.md, then run `python -m tests.scenarios.golden --update`.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import traintrace_reporting.schema
from tests.scenarios.builds import Build, Builds
from tests.scenarios.shape import keys_of, nulls_of
from traintrace_reporting.summary import SCHEMA_VERSION

Json: TypeAlias = dict[str, Any]

GOLDEN: Final = Path(__file__).parent / "golden" / "public_schema.json"
PINS: Final = Path(traintrace_reporting.schema.__file__).parent / "pins.json"
_NAMED: Final = 3
COMMAND: Final = "python -m tests.scenarios.golden --update"


class Refused(Exception):
    """The golden may not be written; the message says what changed."""


def shape_of(builds: Mapping[str, Build], version: str = SCHEMA_VERSION) -> Json:
    """Give what the golden holds, from the summaries of all scenarios."""
    keys: set[str] = set()
    for build in builds.values():
        keys |= keys_of(build.summary)
    return {
        "schema_version": version,
        "keys": sorted(keys),
        "null": {name: nulls_of(build.summary) for name, build in sorted(builds.items())},
    }


def pin_of(shape: Json) -> Json:
    """Give the digests of a shape: one of its keys, one of each scenario's nulls."""
    return {
        "keys": _digest(shape["keys"]),
        "null": {name: _digest(paths) for name, paths in shape["null"].items()},
    }


def problems(current: Json, golden: Path = GOLDEN, pins: Path = PINS) -> list[str]:
    """Say what is wrong with the golden and its pin, and what the current shape has changed."""
    version = current["schema_version"]
    pinned = _read(pins) if pins.exists() else {}
    if not golden.exists() and version not in pinned:
        return [f"there is no golden of schema {version} yet: run `{COMMAND}`"]
    if not golden.exists():
        return [f"{golden.name} is missing: take it back from version control"]
    kept = _read(golden)
    if kept["schema_version"] != version:
        return [
            f"the golden is of schema {kept['schema_version']}, the code writes {version}: "
            f"run `{COMMAND}`"
        ]
    if pinned.get(kept["schema_version"]) != pin_of(kept):
        return [
            f"{golden.name} is not the one that {pins.name} was made with: it was edited by hand"
        ]
    return differences(kept, current)


def differences(kept: Json, current: Json) -> list[str]:
    """Give one line for each key and each null that came (+) or went (-), with its scenarios."""
    lines = [f"{sign} key {key}" for sign, key in _changes(kept["keys"], current["keys"])]
    changed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in sorted({*kept["null"], *current["null"]}):
        before, after = kept["null"].get(name), current["null"].get(name)
        if before is None or after is None:
            lines.append(f"{'+' if before is None else '-'} scenario {name}")
            continue
        for change in _changes(before, after):
            changed[change].append(name)
    return lines + [
        f"{sign} null {path} in {_some(names)}" for (sign, path), names in changed.items()
    ]


def update(current: Json, golden: Path = GOLDEN, pins: Path = PINS) -> None:
    """Write the golden and its pin.

    At a version that is pinned already only new scenarios may come, and only without a new key; a
    golden that was lost is written again only if it comes out the same.

    Raises:
        Refused: Keys or nulls changed at an unchanged version, or the pins are lost.
    """
    if not pins.exists():
        raise Refused(f"{pins} is missing: take it back from version control")
    pinned = _read(pins)
    version, pin = current["schema_version"], pin_of(current)
    before = pinned.get(version)
    if before is not None:
        changed = [
            name for name, digest in before["null"].items() if pin["null"].get(name) != digest
        ]
        if before["keys"] != pin["keys"] or changed:
            raise Refused(_why_refused(current, golden, before["keys"] != pin["keys"], changed))
    golden.parent.mkdir(parents=True, exist_ok=True)
    golden.write_text(_text(current), "utf-8")
    pins.write_text(_text({**pinned, version: pin}), "utf-8")


def _why_refused(current: Json, golden: Path, keys: bool, scenarios: Sequence[str]) -> str:
    version = current["schema_version"]
    what = [*(["the public keys"] if keys else [])]
    what += [f"the nulls of {_some(scenarios)}"] if scenarios else []
    lines = [
        f"{' and '.join(what)} changed, and schema {version} is pinned: raise SCHEMA_VERSION first"
    ]
    if golden.exists():
        lines += differences(_read(golden), current)
    return "\n".join(lines)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _changes(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    gone, come = set(before) - set(after), set(after) - set(before)
    return sorted([("-", key) for key in gone] + [("+", key) for key in come], key=lambda c: c[1])


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _read(path: Path) -> Json:
    content = json.loads(path.read_text("utf-8"))
    assert isinstance(content, dict)
    return content


def _text(content: object) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Show what changed, or write the golden anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the golden and its pin")
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as root:
        current = shape_of(Builds(Path(root)).every())
    if not wanted.update:
        found = problems(current)
        print("\n".join(found) or "The golden holds.")
        return int(bool(found))
    try:
        update(current)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    print(f"{GOLDEN} and {PINS} are of schema {current['schema_version']}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
