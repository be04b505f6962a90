"""How reading and analysing grow with the length of a run and with its ranks.

    python -m benchmarks.scale            # or --json; about two minutes
    python -m benchmarks.scale --plot     # draws benchmarks/scale.svg as well (needs matplotlib)

Runs are written by the real store, with its retention, then read and summarised as `traintrace report`
does it, each in a fresh process: time without the start of the interpreter, peak memory with it.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from benchmarks.made_runs import WIDE_STEPS, make_wide_run, write_long_run
from traintrace import open_run
from traintrace_analysis import REQUIRED_COLUMNS, analyse

LENGTHS: Final = (10_000, 30_000, 100_000, 300_000, 1_000_000)
WIDTHS: Final = (64, 128, 256, 512, 1024)
ORDINARY_STEPS: Final = 10_000
PLOT: Final = Path(__file__).with_name("scale.svg")

Figures = dict[str, Any]


def measure_long(folder: Path, lengths: Sequence[int]) -> list[Figures]:
    """Summarise one-rank runs of some lengths; seconds and MB of each."""
    figures = []
    for steps in lengths:
        run = write_long_run(folder / f"long-{steps}", steps)
        figures.append({"steps": steps, **_in_fresh_process("summarise", run)})
    return figures


def measure_wide(folder: Path, widths: Sequence[int]) -> list[Figures]:
    """Analyse runs of some numbers of ranks with `WIDE_STEPS` steps: from facts, and from files."""
    run = make_wide_run(folder / "wide", max(widths))
    figures = []
    for ranks in widths:
        once = {"ranks": ranks, **_in_fresh_process("analyse", run, ranks)}
        figures.append(once)
    return figures


def measure_finalise(folder: Path) -> float:
    """Give the seconds that the end of an ordinary run takes: its report, written and printed."""
    run = write_long_run(folder / "ordinary", ORDINARY_STEPS)
    return float(_in_fresh_process("finish", run)["seconds"])


def _in_fresh_process(what: str, run: Path, *arguments: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.scale", "--child", what, str(run)]
    done = subprocess.run(
        [*command, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def _child(what: str, run: Path, ranks: int) -> Figures:
    """Do one piece of work in this process; time starts when everything is imported."""
    from traintrace_reporting import schema, summary, text  # noqa: F401  (load what the end of a run loads)
    from traintrace_reporting.finish import finish_run, summarise_run

    start = time.perf_counter()
    figures: Figures = {}
    if what == "summarise":
        summarise_run(run)
    elif what == "finish":
        with open("/dev/null", "w", encoding="utf-8") as nowhere:
            finish_run(run, print_report=True, stream=nowhere)
    else:
        opened = open_run(run)
        opened = replace(opened, locations=opened.locations[:ranks])
        facts = opened.facts(REQUIRED_COLUMNS, latest=10_000)
        facts = replace(facts, world_size=ranks)
        figures["read_s"] = time.perf_counter() - start
        start = time.perf_counter()
        analyse(facts)
    figures["seconds"] = time.perf_counter() - start
    figures["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Give the exponent b of seconds = a sizes^b, by least squares on logarithms; 1 is linear."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure() -> Figures:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        long, wide = measure_long(folder, LENGTHS), measure_wide(folder, WIDTHS)
        finalise_s = measure_finalise(folder)
    return {
        "rows_1m_s": long[-1]["seconds"],
        "rows_1m_mb": long[-1]["mb"],
        "ranks_1024_s": wide[-1]["seconds"],
        "ranks_1024_read_s": wide[-1]["read_s"],
        "ranks_1024_mb": wide[-1]["mb"],
        "ranks_growth": growth([w["ranks"] for w in wide], [w["seconds"] for w in wide]),
        "finalise_s": finalise_s,
        "steps": WIDE_STEPS,
        "series": {"rows": long, "ranks": wide},
    }


def plot(figures: Figures) -> None:
    """Draw both series into `benchmarks/scale.svg`."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(9, 3.6), layout="constrained")
    rows, ranks = drawing.subplots(1, 2)
    series = figures["series"]
    for axes, points, size, title in (
        (rows, series["rows"], "steps", "summary of one rank, by length of the run"),
        (ranks, series["ranks"], "ranks", f"analysis of {figures['steps']} steps, by ranks"),
    ):
        axes.loglog([p[size] for p in points], [p["seconds"] for p in points], "o-")
        axes.set(xlabel=size, ylabel="seconds", title=title)
        axes.grid(True, which="both", alpha=0.3)
    drawing.savefig(PLOT, metadata={"Date": None})


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--plot", "draw", is_flag=True, help="Draw benchmarks/scale.svg.")
@click.option("--child", hidden=True)
@click.argument("arguments", nargs=-1)
def main(as_json: bool, draw: bool, child: str | None, arguments: tuple[str, ...]) -> None:
    """Measure how reading and analysing grow.

    Example: python -m benchmarks.scale --json
    """
    if child is not None:
        run, *rest = arguments
        click.echo(json.dumps(_child(child, Path(run), int(rest[0]) if rest else 0)))
        return
    figures = measure()
    if draw:
        plot(figures)
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        if isinstance(value, float):
            click.echo(f"{name:20} {value:8.2f}")


if __name__ == "__main__":
    main()
