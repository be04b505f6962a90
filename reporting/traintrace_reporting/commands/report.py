"""`traintrace report`: print the report of a run."""

import sys
from pathlib import Path

import click

from traintrace_reporting.commands.amounts import Peak
from traintrace_reporting.commands.printing import EXIT_CODES, print_json


@click.command(epilog=EXIT_CODES)
@click.argument("path", metavar="PATH|URL")
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
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE|FOLDER",
    help="A torch.profiler trace of the run (.json or .json.gz); once for each rank, or a folder of them. "
    "Writes no files.",
)
@click.option(
    "--peak-tflops",
    type=Peak(),
    metavar="N",
    help="What a device can do, in 1e12 operations a second, for MFU (default: as the run says, or by the "
    "device's name). Writes no files.",
)
def report(
    path: str,
    as_json: bool,
    width: int | None,
    no_color: bool,
    window_steps: int | None,
    traces: tuple[Path, ...],
    peak_tflops: float | None,
) -> None:
    """Print the report of a run.

    PATH is a run folder or a final_summary.json; URL is where the ranks of a run published it. A
    folder's missing report files are made.

    A trace that `profile_steps` took lies in the run's folder and is read without being named.

    Example: traintrace report runs/digits --window 500
    """
    from traintrace_reporting.finish import WINDOW_STEPS, read_or_make, summarise_run
    from traintrace_reporting.remote import local_run, send_back

    place = local_run(path)
    if window_steps is None and not traces and peak_tflops is None:
        summary = read_or_make(place)
        if place != Path(path):
            send_back(path)
    elif place.is_file():
        raise click.UsageError(
            f"{path} is a summary, which is fixed: give the run's folder with --window, --trace or "
            "--peak-tflops"
        )
    else:
        summary = summarise_run(
            place,
            window_steps=window_steps or WINDOW_STEPS,
            traces=traces,
            peak_tflops=peak_tflops,
        )
    if as_json:
        print_json(summary)
        return
    from traintrace_reporting.terminal import print_report

    print_report(summary, file=sys.stdout, width=width, color=not no_color)
