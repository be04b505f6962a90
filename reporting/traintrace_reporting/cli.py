"""The `traintrace` command. Its help loads neither the analysis nor NumPy nor Rich."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traintrace.errors import TraintraceError

if TYPE_CHECKING:
    from rich.console import RenderableType

EXIT_CODES = "Exit codes: 0 done; 1 a file cannot be read, and the message names it; 2 wrong usage."


class _Commands(click.Group):
    """A group that prints the errors meant for people as one sentence, and ends with code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for, and see that what it printed arrived."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except TraintraceError as error:
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            raise  # the reader has seen enough: click ends quietly
        except OSError as error:
            if error.filename is not None:
                raise click.ClickException(f"{error.filename}: {error.strerror}") from error
            _drop_output()
            raise click.ClickException(f"output cannot be written ({error})") from error
        return result


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail on it once more."""
    with contextlib.suppress(OSError, ValueError):  # standard output may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from importlib import metadata

    try:
        version = metadata.version("traintrace-reporting")
    except metadata.PackageNotFoundError:
        version = "from a source tree"
    click.echo(f"traintrace {version}")
    ctx.exit()


@click.group(cls=_Commands, epilog=EXIT_CODES)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Say why a PyTorch training run is slow.

    Example: traintrace report runs/digits
    """


@main.command(epilog=EXIT_CODES)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option(
    "--width", type=click.IntRange(40, 400), metavar="N", help="Columns of the report, 40 to 400."
)
@click.option("--no-color", is_flag=True, help="Print without colours.")
@click.option(
    "--window",
    "window_steps",
    type=click.IntRange(1),
    metavar="N",
    help="Look at the latest N steps one by one (default: 10000); totals are of the whole run. Writes no files.",
)
def report(
    path: Path, as_json: bool, width: int | None, no_color: bool, window_steps: int | None
) -> None:
    """Print the report of a run.

    PATH is a run folder or a final_summary.json. A folder's missing report files are made.

    Example: traintrace report runs/digits --window 500
    """
    from traintrace_reporting.finish import read_or_make, summarise_run

    if window_steps is None:
        summary = read_or_make(path)
    elif path.is_file():
        raise click.UsageError(
            f"{path} is a summary, whose window is fixed: give the run's folder with --window"
        )
    else:
        summary = summarise_run(path, window_steps=window_steps)
    if as_json:
        _print_json(summary)
        return
    from traintrace_reporting.terminal import print_report

    print_report(summary, file=sys.stdout, width=width, color=not no_color)


@main.command("list", epilog=EXIT_CODES)
@click.argument("run_dir", type=click.Path(path_type=Path), default="runs")
@click.option("--json", "as_json", is_flag=True, help="Print the runs as JSON.")
def list_(run_dir: Path, as_json: bool) -> None:
    """List the runs in RUN_DIR (default: runs), oldest first.

    A run whose manifest cannot be read is listed as such, and the exit code is 1.

    Example: traintrace list runs
    """
    from traintrace_reporting import listing

    runs, errors = listing.list_runs(run_dir)
    if as_json:
        _print_json(runs)
    elif runs:
        _print(listing.render(runs))
    else:
        click.echo(f"No runs in {run_dir}.")
    if errors:
        raise click.ClickException("; ".join(map(str, errors)))


@main.command(epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option(
    "--thresholds", is_flag=True, help="Add the limits that findings rest on, each with its source."
)
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the cost of tracing on this machine first (ten seconds).",
)
def doctor(as_json: bool, thresholds: bool, measure: bool) -> None:
    """Show versions, plugins, clock and what a transition costs.

    Example: traintrace doctor --thresholds
    """
    from traintrace_reporting.doctor import examine, measure_price, render

    if measure:
        measure_price()
    found = examine(thresholds=thresholds)
    if as_json:
        _print_json(found)
    else:
        _print(render(found))


def _print(page: "RenderableType") -> None:
    from traintrace_reporting.format import encodable
    from traintrace_reporting.terminal import console_for

    console = console_for(sys.stdout)
    with console.capture() as captured:
        console.print(page)
    click.echo(encodable(captured.get(), console.encoding), nl=False)


def _print_json(content: object) -> None:
    click.echo(json.dumps(content, indent=2, allow_nan=False))
