"""The table of runs: what `traintrace list` shows of every run in a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from traintrace.errors import RunReadError
from traintrace.runfolder import list_manifests
from traintrace_reporting.finish import JSON_NAME, read_summary
from traintrace_reporting.format import clean, dig, finite, moment, number

_STATUS_STYLES: Final = {"completed": "green", "running": "blue"}


def list_runs(root: Path) -> list[dict[str, Any]]:
    """Give one record for each run in `root`, oldest first; null is what has no summary yet.

    Raises:
        RunReadError: `root` is no folder, or a manifest is damaged.
    """
    runs = []
    for manifest in list_manifests(root):
        summary = _summary(manifest.folder)
        runs.append(
            {
                "name": manifest.name,
                "id": manifest.id,
                "folder": manifest.folder.name,
                "status": manifest.status,
                "framework": manifest.framework,
                "started_at": manifest.started_at,
                "steps": dig(summary, "counts", "steps"),
                "verdict": dig(summary, "verdict", "kind"),
                "step_time_median_ms": finite(
                    dig(summary, "step_time", "metrics", "step_time", "median")
                ),
            }
        )
    return runs


def render(runs: Sequence[dict[str, Any]]) -> Table:
    """Give the runs as a table that fits 80 columns."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("run", "status", "started"):
        table.add_column(head, overflow="ellipsis", no_wrap=True)
    for head in ("steps", "step ms"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="ellipsis", no_wrap=True)
    for run in runs:
        step_ms, steps = run["step_time_median_ms"], finite(run["steps"])
        status = clean(run["status"])
        table.add_row(
            Text(clean(run["folder"], 60), "bold"),
            Text(status, _STATUS_STYLES.get(status, "red")),
            Text(moment(run["started_at"]).removesuffix(" UTC")),
            Text("-" if steps is None else f"{steps:,.0f}"),
            Text("-" if step_ms is None else number(step_ms)),
            Text(clean(run["verdict"], 24) or "-"),
        )
    return table


def _summary(folder: Path) -> dict[str, Any] | None:
    try:
        return read_summary(folder / JSON_NAME)
    except RunReadError:
        return None
