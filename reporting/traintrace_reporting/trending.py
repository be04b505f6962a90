"""More than two runs: a table in the order in which they were started, and the trend of those that compare."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from traintrace_analysis.comparison.comparability import examine
from traintrace_analysis.comparison.model import ComparedRun
from traintrace_analysis.comparison.trend import run_trend
from traintrace_reporting import format as plain
from traintrace_reporting.comparing import Input
from traintrace_reporting.format import clean, dig, finite, milliseconds, moment
from traintrace_reporting.summary import strict

Json: TypeAlias = dict[str, Any]

SCHEMA_VERSION: Final = "0.1"
_TREND_STYLES: Final = {"slower": "red", "faster": "green"}


def trend_of(inputs: Sequence[Input]) -> Json:
    """Give the runs and their trend as JSON; changes are against the first run that can be compared.

    Raises:
        RunReadError: A summary contradicts itself; the message names file and field.
    """
    runs = [(one, one.as_run(guarded=False)) for one in inputs]
    runs.sort(key=lambda pair: pair[1].started_at)
    reference = next((run for _, run in runs if _mean(run)), None)
    rows: list[Json] = []
    means: list[float] = []
    for one, run in runs:
        mean, left_out = _mean(run), _why_left_out(run, reference)
        if mean is not None and left_out is None:
            means.append(mean)
        rows.append(
            {
                "name": run.name,
                "id": run.id,
                "status": run.status,
                "started_at": run.started_at,
                "steps": run.steps,
                "step_time_mean_ms": mean,
                "change": mean / means[0] - 1.0 if mean and left_out is None else None,
                "samples_per_s": run.throughput.get("samples_per_s.round_trip"),
                "verdict": dig(one.summary, "verdict", "kind"),
                "left_out": left_out,
            }
        )
    content = strict(
        {"schema_version": SCHEMA_VERSION, "runs": rows, "trend": asdict(run_trend(means))}
    )
    assert isinstance(content, dict)
    return content


def _mean(run: ComparedRun) -> float | None:
    step = run.metrics.get("step_time")
    return step.mean_ms if step is not None and step.mean_ms else None


def _why_left_out(run: ComparedRun, reference: ComparedRun | None) -> str | None:
    if reference is None or _mean(run) is None:
        return "it has no step time"
    if run.status != "completed":
        return f"it is {run.status}"
    obstacles = examine((reference,), (run,)).obstacles
    return obstacles[0] if obstacles else None


def page(content: Mapping[str, Any], width: int) -> RenderableType:
    """Give the runs as a page of at most `width` columns."""
    return Constrain(Group(*_page(content, width)), width)


def _page(content: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    rows = content["runs"]
    scale = max((finite(row["step_time_mean_ms"]) or 0.0 for row in rows), default=0.0)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("run", overflow="ellipsis", no_wrap=True)
    table.add_column("started", no_wrap=True)
    for head in ("steps", "step ms", "change"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="ellipsis", no_wrap=True)
    for row in rows:
        change = finite(row["change"])
        table.add_row(
            Text(clean(row["name"], 60), "" if row["left_out"] is None else "dim"),
            moment(row["started_at"]).removesuffix(" UTC") or "-",
            f"{row['steps']:,}",
            milliseconds(row["step_time_mean_ms"], scale),
            "-" if change is None else f"{100.0 * change:+.1f} %",
            clean(row["verdict"], 24) or "-",
        )
    yield table
    yield trend_line(content["trend"], width)
    for row in rows:
        if row["left_out"] is not None:
            told = (
                f"Left out of the trend: {clean(row['name'], 60)}: {clean(row['left_out'], 200)}."
            )
            yield Text(plain.filled(told, width), "yellow")


def trend_line(trend: Mapping[str, Any], width: int) -> Text:
    """Give the trend in one sentence."""
    return Text(plain.filled(trend["told"], width), _TREND_STYLES.get(trend["state"], "dim"))
