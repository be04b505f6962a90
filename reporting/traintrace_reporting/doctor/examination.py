"""The whole examination, as one dictionary that is printed or given as JSON."""

import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Final

from traintrace.errors import TraintraceError
from traintrace.recording.cost import hot_transition_ns, stored_in_situ_transition_ns
from traintrace_reporting.doctor.machine import clocks, cpus, memory
from traintrace_reporting.doctor.seams import ask_torch_and_plugins
from traintrace_reporting.doctor.storage import run_folder

PLUGIN_GROUP: Final = "traintrace.plugins"
OURS: Final = (
    "traintrace",
    "traintrace-analysis",
    "traintrace-reporting",
    "traintrace-plain-torch",
    "traintrace-lightning",
    "traintrace-huggingface",
)
_MEASURES: Final = "traintrace-plain-torch"
FRAMEWORKS: Final = (
    "torch",
    "lightning",
    "pytorch-lightning",
    "transformers",
    "accelerate",
    "numpy",
    "fsspec",
    "nvidia-ml-py",
)


def examine(
    *, thresholds: bool = False, imports: bool = True, run_dir: str | None = None
) -> dict[str, Any]:
    """Give versions, plugins, processors, clocks, storage, devices, seams and the price of one transition.

    Args:
        thresholds: Add the limits that findings rest on.
        imports: Ask torch and the frameworks, in processes of their own; some seconds for each.
            Without that `torch` is None, and nothing is known of seams.
        run_dir: Folder or URL of the runs; None for what the settings say.
    """
    plugins = _plugins()
    torch, seams = ask_torch_and_plugins(plugins) if imports else (None, None)
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in OURS + FRAMEWORKS},
        "plugins": plugins,
        "cpu": cpus(),
        "memory": memory(),
        **clocks(),
        "transition_ns": {
            "hot_loop": hot_transition_ns(),
            "in_situ": stored_in_situ_transition_ns(),
        },
        "run_folder": run_folder(run_dir),
        "torch": torch,
        "seams": seams,
    }
    if thresholds:
        found["thresholds"] = _thresholds()
    return found


def obstacles(found: Mapping[str, Any]) -> list[str]:
    """Give what makes tracing impossible here, one sentence each; what only costs a part is none of these."""
    told = []
    torch = found["torch"]
    if found["packages"]["torch"] is None and torch is None:
        told.append("torch is not installed: there is nothing to trace")
    elif torch is not None and torch["error"] is not None:
        told.append(f"torch cannot be imported ({torch['error']})")
    has_plugin = any(found["packages"][name] for name in OURS[3:]) or found["plugins"]
    if not has_plugin:
        told.append("no plugin is installed: pip install traintrace-plain-torch")
    folder = found["run_folder"]
    if not folder["writable"] and not folder["temporary_writable"]:
        told.append(
            f"runs can be written neither into {folder['place']} nor into the folder for temporary files "
            f"({folder['reason']})"
        )
    return told


def measure_price() -> None:
    """Measure what a transition costs inside a real step, once for this machine; about ten seconds.

    Raises:
        TraintraceError: The plugin that can train is not installed, or measuring failed.
    """
    if version(_MEASURES) is None:
        raise TraintraceError(f"measuring needs a step to train: pip install {_MEASURES}")
    command = [sys.executable, "-m", f"{_MEASURES.replace('-', '_')}.price"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise TraintraceError(f"measuring failed: {last[0]}")


def version(distribution: str) -> str | None:
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
