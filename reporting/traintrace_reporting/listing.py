"""The table of runs: what `traintrace list` shows of every run in a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from traintrace.errors import RunReadError
from traintrace.runs.folder import Run, list_manifests, open_run
from traintrace.runs.manifest import MANIFEST_NAME
from traintrace_reporting.finish import JSON_NAME, Summary, is_current, read_summary
from traintrace_reporting.format import clean, dig, finite, moment, number
from traintrace_reporting.watch_words import is_watched

_STATUS_STYLES: Final = {"completed": "green", "running": "blue"}


def list_runs(root: Path) -> tuple[list[dict[str, Any]], list[RunReadError]]:
    """Give one record for each run in `root`, oldest first, and the errors of unreadable manifests.

    Null is what has no summary that is up to date. Unreadable runs come last.

    Raises:
        RunReadError: `root` is no folder.
    """
    manifests, errors = list_manifests(root)
    runs = [_record(open_run(manifest.folder)) for manifest in manifests]
    seen = {manifest.folder for manifest in manifests}
    unread = sorted(p.parent for p in root.glob(f"*/{MANIFEST_NAME}") if p.parent not in seen)
    unknown = dict.fromkeys(
        ("id", "framework", "started_at", "steps", "verdict", "step_time_median_ms", "fingerprint")
    )
    runs += [
        {"name": folder.name, "folder": folder.name, "status": "unreadable", **unknown}
        for folder in unread
    ]
    return runs, errors


def _record(run: Run) -> dict[str, Any]:
    manifest, summary = run.manifest, _summary(run)
    return {
        "name": manifest.name,
        "folder": manifest.folder.name,
        "status": run.status,
        "id": manifest.id,
        "framework": manifest.framework,
        "started_at": manifest.started_at,
        "steps": dig(summary, "counts", "steps"),
        "verdict": None if is_watched(summary or {}) else dig(summary, "verdict", "kind"),
        "step_time_median_ms": finite(dig(summary, "step_time", "metrics", "step_time", "median")),
        "fingerprint": dig(summary, "environment", "fingerprint"),
    }


def trends(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Give a sentence on each set of four and more completed runs of equal versions, machine and configuration.

    Args:
        runs: Records as `list_runs` gives them, oldest first.
    """
    alike: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        median = finite(run["step_time_median_ms"])
        if run["status"] == "completed" and run["fingerprint"] and median and median > 0.0:
            alike.setdefault(run["fingerprint"], []).append(run)
    told = []
    for some in alike.values():
        # Only here, since most folders hold no such set.
        from traintrace_analysis.comparison.trend import FEWEST_RUNS, run_trend

        if len(some) >= FEWEST_RUNS:
            trend = run_trend([float(run["step_time_median_ms"]) for run in some])
            told.append(
                f"{clean(some[-1]['folder'], 40)} and {len(some) - 1} like it: {trend.told}"
            )
    return told


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
            Text(moment(run["started_at"]).removesuffix(" UTC") or "-"),
            Text("-" if steps is None else f"{steps:,.0f}"),
            Text("-" if step_ms is None else number(step_ms)),
            Text(clean(run["verdict"], 24) or "-"),
        )
    return table


def _summary(run: Run) -> Summary | None:
    try:
        summary = read_summary(run.folder / JSON_NAME)
    except RunReadError:
        return None
    return summary if is_current(run, summary) else None
