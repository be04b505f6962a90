"""`traintrace compare`: is the second run slower than the first, and where?"""

import math
import sys
from pathlib import Path
from typing import Any

import click

from traintrace_reporting.commands.printing import print_json, print_page
from traintrace_reporting.commands.sides import WithSides
from traintrace_reporting.commands.trace_sides import TracesOfSides, traces_of_sides

_EPILOG = (
    "Exit codes: 0 done, with a threshold: WITHIN_THRESHOLD or FASTER; 1 a file cannot be used, and the message "
    "names it and the field; 2 wrong usage; 3 INCONCLUSIVE; 4 SLOWER. 3 and 4 only with a threshold.\n\n"
    "A threshold needs a guard in both runs (docs/settings.md): equal declarations and topology, completed training, "
    "one clock, one machine. A change that equals the threshold is within it."
)


def _positive(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value >= 0.0):
        raise click.BadParameter("use a number of percent that is not negative")
    return value


@click.command("compare", cls=WithSides, epilog=_EPILOG)
@click.argument("runs", nargs=-1, metavar="A B | RUN...")
@click.option("--a", "side_a", multiple=True, metavar="RUN...", help="Runs of the reference.")
@click.option("--b", "side_b", multiple=True, metavar="RUN...", help="Runs of the candidate.")
@click.option(
    "--output",
    metavar="BASE",
    help="Write BASE.json and BASE.txt; folders on the way are made.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option(
    "--max-step-time-regression-pct",
    "threshold_pct",
    type=float,
    callback=_positive,
    metavar="P",
    help="Decide: may a step of B take at most P percent longer?",
)
@click.option(
    "--noise",
    "noise_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="How much runs differ on this machine, from `traintrace guard calibrate`.",
)
@traces_of_sides
def compare(
    runs: tuple[str, ...],
    side_a: tuple[str, ...],
    side_b: tuple[str, ...],
    output: str | None,
    as_json: bool,
    threshold_pct: float | None,
    noise_file: Path | None,
    traces: TracesOfSides | None,
) -> None:
    r"""Compare run B with run A, the reference: run folders, URLs or final_summary.json files.

    Several runs a side tell what differs between runs of the same code from what the code changed. More than two
    runs without sides are shown in the order in which they were started, with the trend of the step time.

    \b
    Example: traintrace compare runs/before runs/after
             traintrace compare --a runs/a1 runs/a2 --b runs/b1 runs/b2
             traintrace compare runs/nightly-*
             traintrace compare A B --max-step-time-regression-pct 5 --output out/cmp
             traintrace compare --trace-a before.json.gz --trace-b after.json.gz
    """
    if traces is not None and traces.show(alone=not (runs or side_a or side_b), as_json=as_json):
        return
    if len(runs) > 2 and not (side_a or side_b):
        if noise_file is not None:
            raise click.UsageError(
                "--noise is about two sides: give two runs, or --a RUN... and --b RUN..."
            )
        _show_trend(runs, output, as_json, threshold_pct)
        return
    a, b = _sides(runs, side_a, side_b)
    from traintrace_reporting.comparing import compare_inputs, read_input
    from traintrace_reporting.comparison_content import content_of
    from traintrace_reporting.comparison_files import write_page
    from traintrace_reporting.comparison_page import page
    from traintrace_reporting.noise_file import read_noise

    noise = None if noise_file is None else read_noise(noise_file)
    base = None if output is None else _base(output, (*a, *b))
    read = {place: read_input(place) for place in dict.fromkeys((*a, *b))}
    comparison, answer = compare_inputs(
        [read[place] for place in a],
        [read[place] for place in b],
        threshold_pct=threshold_pct,
        noise=noise,
    )
    content = content_of(comparison, answer)
    if base is not None:
        write_page(base, content, page)
    if as_json:
        print_json(content)
        if answer is not None:
            click.echo(f"traintrace: {answer.line}", err=True)
    else:
        print_page(page(content, _width()))
    if answer is not None:
        sys.stdout.flush()
        sys.exit(answer.exit_code)


def _show_trend(
    runs: tuple[str, ...], output: str | None, as_json: bool, threshold_pct: float | None
) -> None:
    """Show more than two runs in their order, with the trend of the step time."""
    if threshold_pct is not None:
        raise click.UsageError(
            "a threshold decides about two sides: give two runs, or --a RUN... and --b RUN..."
        )
    base = None if output is None else _base(output, runs)
    from traintrace_reporting.comparing import read_input
    from traintrace_reporting.comparison_files import write_page
    from traintrace_reporting.trending import page, trend_of

    content = trend_of([read_input(place) for place in dict.fromkeys(runs)])
    if base is not None:
        write_page(base, content, page)
    if as_json:
        print_json(content)
    else:
        print_page(page(content, _width()))


def _sides(
    runs: tuple[str, ...], side_a: tuple[str, ...], side_b: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if side_a or side_b:
        if runs or not (side_a and side_b):
            raise click.UsageError("give two runs, or --a RUN... and --b RUN...")
        return side_a, side_b
    if len(runs) != 2:
        raise click.UsageError("give two runs, or --a RUN... and --b RUN...")
    return runs[:1], runs[1:]


def _base(output: str, inputs: tuple[str, ...]) -> Path:
    """Give the base of the files to write, which must not be what is read."""
    path = Path(output)
    base = path.with_suffix("") if path.suffix in (".json", ".txt") else path
    if not base.name:
        raise click.UsageError(f"--output {output}: give a name for the files")
    written = {base.with_name(base.name + ending).absolute() for ending in (".json", ".txt")}
    read = {Path(place).absolute() for place in inputs}
    read |= {folder / "final_summary.json" for folder in read}
    if written & read:
        raise click.UsageError(f"--output {output}: that would overwrite a run that is compared")
    return base


def _width() -> int:
    from traintrace_reporting.terminal import WIDEST, console_for

    width: Any = console_for(sys.stdout).width
    return min(int(width), WIDEST)
