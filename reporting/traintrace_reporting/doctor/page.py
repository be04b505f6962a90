"""The page that `traintrace doctor` prints."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from traintrace_analysis.wording import quantity, size
from traintrace_reporting.format import clean, joined, number


def render(found: Mapping[str, Any]) -> RenderableType:
    """Give what `examine` found as a page for the terminal."""
    packages = {name: version or "not installed" for name, version in found["packages"].items()}
    plugins = {
        entry["trigger"]: f"{entry['distribution']} {entry['version'] or ''}"
        for entry in found["plugins"]
    }
    sections: list[RenderableType] = [
        *_section("Machine", _machine(found)),
        *_section("Run folder", _run_folder(found["run_folder"])),
        *_section("Packages", packages),
        *_section("Plugins, by the module that triggers them", plugins or {"none": ""}),
    ]
    if found["torch"] is not None:
        sections += _section("Accelerator", _torch(found["torch"]))
        sections += _section("Seams, by the module that triggers them", _seams(found["seams"]))
    for family, limits in _by_family(found.get("thresholds", {})).items():
        sections += _section(f"Thresholds: {family}", limits)
    return Group(*sections[:-1])


def _section(title: str, rows: Mapping[str, object]) -> list[RenderableType]:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(Text(f"  {clean(name)}", "dim"), Text(clean(value)))
    return [Text(title, "bold"), table, Text()]


def _machine(found: Mapping[str, Any]) -> dict[str, str]:
    mark, cpu, memory = found["transition_ns"], found["cpu"], found["memory"]
    in_situ, quota, limit = mark["in_situ"], cpu["quota_cores"], memory["limit_bytes"]
    return {
        "Python": found["python"],
        "CPUs": joined(
            (
                f"{cpu['usable']} usable of {cpu['count']}",
                "no quota" if quota is None else f"cgroup quota of {number(quota)} cores",
            ),
            ", ",
        ),
        "Memory": "no cgroup limit"
        if limit is None
        else f"cgroup limit of {size(limit)}"
        + ("" if memory["used_bytes"] is None else f", {size(memory['used_bytes'])} used"),
        "Clock": _clock(found["clock"]),
        "System clock": _clock(found["system_clock"]),
        "One transition": f"{number(mark['hot_loop'])} ns in a hot loop, "
        + (f"{number(in_situ)} ns in a step" if in_situ else "in a step: see doctor --measure"),
    }


def _clock(clock: Mapping[str, Any]) -> str:
    return f"{clock['name']}, steps of {number(clock['smallest_difference_ns'])} ns"


def _run_folder(folder: Mapping[str, Any]) -> dict[str, str]:
    network, flush_ms = folder["network_file_system"], folder["flush_ms"]
    if folder["url"]:
        kind = "a URL: ranks write locally and publish"
    elif network:
        kind = f"on a network file system ({network}): ranks write locally and publish"
    else:
        kind = "on a local file system"
    rows = {
        "Place": f"{folder['place']}, {kind}",
        "Writable": "yes" if folder["writable"] else f"no ({folder['reason']})",
        "One flush": "" if flush_ms is None else f"{number(flush_ms)} ms",
        "Settings": folder["settings_error"] or folder["settings_file"] or "no traintrace.yaml",
        "SQLite": folder["sqlite"],
    }
    return {name: value for name, value in rows.items() if value}


def _torch(torch: Mapping[str, Any]) -> dict[str, str]:
    if torch["error"] is not None:
        return {"torch": torch["error"]}
    events = torch["events"]
    shortest = events["shortest_us"]
    timing = "" if shortest is None else f", shortest time {number(shortest)} us"
    return {
        "torch": f"{torch['version']}, imported in {number(torch['import_s'])} s",
        "Devices": ", ".join(torch["devices"]) or "none: steps are timed on the host",
        "Events": f"trusted to time the device{timing}"
        if events["state"] == "trusted"
        else str(events["reason"]),
        "Distributed": ", ".join(torch["distributed"]) or "not available",
    }


def _seams(seams: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {seam["trigger"]: _state(seam) for seam in seams}


def _state(seam: Mapping[str, Any]) -> str:
    version = f"{seam['version']}, " if seam.get("version") else ""
    missing: Mapping[str, str] = seam.get("missing") or {}
    if seam["error"] is not None:
        return f"broken: {seam['error']}"
    if missing:
        names = ", ".join(f"{name} ({lost})" for name, lost in missing.items())
        return f"{version}incomplete: without {names}"
    if seam["state"] == "ready":
        return f"{version}ready" + (f", {seam['seams']} seams" if seam.get("seams") else "")
    return version + str(seam["state"])


def _by_family(thresholds: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Give a line for each limit: value, unit and source, under the family that it belongs to."""
    families: dict[str, dict[str, str]] = {}
    for name, entry in thresholds.items():
        line = f"{quantity(entry['value'], entry['unit'])}: {entry['source']}"
        families.setdefault(entry["family"], {})[name] = line
    return families
