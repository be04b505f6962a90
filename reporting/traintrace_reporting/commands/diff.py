"""`traintrace diff`: what two runs were made of, and what of it explains that they differ."""

import math
import sys

import click

from traintrace_reporting.commands.printing import EXIT_CODES, print_json, print_page


def _share(_: click.Context, __: click.Parameter, value: float) -> float:
    if not (math.isfinite(value) and value >= 0.0):
        raise click.BadParameter("use a number that is not negative")
    return value


@click.command("diff", epilog=EXIT_CODES + " Whether the runs differ makes no difference to it.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--tolerance",
    type=float,
    default=1e-4,
    show_default=True,
    callback=_share,
    metavar="SHARE",
    help="Logged values that differ by less of their size count as the same.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what differs as JSON.")
def diff(a: str, b: str, tolerance: float, as_json: bool) -> None:
    """Show where code, versions, seeds, settings and machine of runs A and B differ.

    Of two run folders it also shows the first step at which what they logged parts. Says which differences could
    explain a change of time or of results, and that nothing can be said where nothing was recorded.

    Example: traintrace diff runs/before runs/after
    """
    from traintrace_reporting.differing import diff_runs
    from traintrace_reporting.differing_page import page
    from traintrace_reporting.terminal import WIDEST, console_for

    content = diff_runs(a, b, tolerance)
    if as_json:
        print_json(content)
    else:
        print_page(page(content, min(console_for(sys.stdout).width, WIDEST)))
