"""What this machine and this installation offer to tracing; imports no torch and no framework."""

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from traintrace.cost import hot_transition_ns, stored_in_situ_transition_ns
from traintrace.errors import TraintraceError
from traintrace_reporting.format import clean, number

PLUGIN_GROUP: Final = "traintrace.plugins"
_OURS: Final = (
    "traintrace",
    "traintrace-analysis",
    "traintrace-reporting",
    "traintrace-plain-torch",
    "traintrace-lightning",
    "traintrace-huggingface",
)
_MEASURES: Final = "traintrace-plain-torch"
_FRAMEWORKS: Final = (
    "torch",
    "lightning",
    "pytorch-lightning",
    "transformers",
    "accelerate",
    "numpy",
)


def examine(*, thresholds: bool = False) -> dict[str, Any]:
    """Give versions, plugins, processors, clock and the price of one transition.

    Args:
        thresholds: Add the limits that findings rest on.
    """
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _OURS + _FRAMEWORKS},
        "plugins": _plugins(),
        "cpu": {"count": os.cpu_count(), "usable": _usable_cpus()},
        "clock": {
            "name": "perf_counter",
            "resolution_ns": time.get_clock_info("perf_counter").resolution * 1e9,
            "smallest_difference_ns": _smallest_difference_ns(),
        },
        "transition_ns": {
            "hot_loop": hot_transition_ns(),
            "in_situ": stored_in_situ_transition_ns(),
        },
    }
    if thresholds:
        found["thresholds"] = _thresholds()
    return found


def measure_price() -> None:
    """Measure what a transition costs inside a real step, once for this machine; about ten seconds.

    Raises:
        TraintraceError: The plugin that can train is not installed, or measuring failed.
    """
    if _version(_MEASURES) is None:
        raise TraintraceError(f"measuring needs a step to train: pip install {_MEASURES}")
    command = [sys.executable, "-m", f"{_MEASURES.replace('-', '_')}.price"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise TraintraceError(f"measuring failed: {last[0]}")


def render(found: Mapping[str, Any]) -> RenderableType:
    """Give what `examine` found as a page for the terminal."""
    clock, mark, cpu = found["clock"], found["transition_ns"], found["cpu"]
    in_situ = mark["in_situ"]
    machine = {
        "Python": found["python"],
        "CPUs": f"{cpu['usable']} usable of {cpu['count']}",
        "Clock": f"{clock['name']}, steps of {number(clock['smallest_difference_ns'])} ns",
        "One transition": f"{number(mark['hot_loop'])} ns in a hot loop, "
        + (f"{number(in_situ)} ns in a step" if in_situ else "in a step: see doctor --measure"),
    }
    packages = {name: version or "not installed" for name, version in found["packages"].items()}
    plugins = {
        entry["trigger"]: f"{entry['distribution']} {entry['version'] or ''}"
        for entry in found["plugins"]
    }
    sections: list[RenderableType] = [
        *_section("Machine", machine),
        *_section("Packages", packages),
        *_section("Plugins, by the module that triggers them", plugins or {"none": ""}),
    ]
    for family, limits in _by_family(found.get("thresholds", {})).items():
        sections += _section(f"Thresholds: {family}", limits)
    return Group(*sections[:-1])


def _section(title: str, rows: Mapping[str, object]) -> list[RenderableType]:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(Text(f"  {clean(name)}", "dim"), Text(clean(value)))
    return [Text(title, "bold"), table, Text()]


def _version(distribution: str) -> str | None:
    """Give the installed version; None if there is none (also in a plain source tree)."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _plugins() -> list[dict[str, str | None]]:
    points: Iterable[metadata.EntryPoint] = metadata.entry_points(group=PLUGIN_GROUP)
    return [
        {
            "trigger": point.name,
            "attach": point.value,
            "distribution": point.dist.name if point.dist else "unknown",
            "version": point.dist.version if point.dist else None,
        }
        for point in sorted(points, key=lambda point: (point.name, point.value))
    ]


def _usable_cpus() -> int | None:
    """Give the CPUs that this process may use, which a container or Slurm makes fewer."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _smallest_difference_ns() -> float:
    """Give the smallest step that the clock was seen to make [ns]."""
    smallest = math.inf
    last = time.perf_counter_ns()
    for _ in range(2_000):
        now = time.perf_counter_ns()
        if now > last:
            smallest = min(smallest, now - last)
        last = now
    return smallest if math.isfinite(smallest) else 0.0


def _thresholds() -> dict[str, dict[str, Any]]:
    from traintrace_analysis.thresholds import BY_FAMILY

    return {
        name: {
            "value": entry.value,
            "unit": entry.unit,
            "family": family,
            "source": entry.source,
        }
        for family, limits in BY_FAMILY.items()
        for name, entry in limits.items()
    }


def _by_family(thresholds: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Give a line for each limit: value, unit and source, under the family that it belongs to."""
    from traintrace_analysis.wording import quantity

    families: dict[str, dict[str, str]] = {}
    for name, entry in thresholds.items():
        line = f"{quantity(entry['value'], entry['unit'])}: {entry['source']}"
        families.setdefault(entry["family"], {})[name] = line
    return families
