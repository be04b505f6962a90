"""`traintrace doctor`: what this machine and this installation offer."""

import click

from traintrace_reporting.commands.printing import print_json, print_page


@click.command(
    epilog="Exit codes: 0 tracing works here; 1 something makes it impossible, and is named; 2 wrong usage."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option(
    "--thresholds", is_flag=True, help="Add the limits that findings rest on, each with its source."
)
@click.option(
    "--measure",
    is_flag=True,
    help="Measure the cost of tracing on this machine first (ten seconds).",
)
@click.option(
    "--run-dir",
    metavar="DIR",
    help="The folder for runs to look at (default: what traintrace.yaml says, else runs).",
)
@click.option(
    "--light", is_flag=True, help="Do not ask torch and the frameworks: that takes seconds."
)
def doctor(
    as_json: bool, thresholds: bool, measure: bool, run_dir: str | None, light: bool
) -> None:
    """Examine this machine: versions, clocks, devices, limits, the run folder, and each framework's seams.

    torch and the frameworks are asked in a process of their own.

    Example: traintrace doctor --run-dir runs
    """
    from traintrace_reporting.doctor import examine, measure_price, obstacles, render

    if measure:
        measure_price()
    found = examine(thresholds=thresholds, run_dir=run_dir, imports=not light)
    if as_json:
        print_json(found)
    else:
        print_page(render(found))
    impossible = obstacles(found)
    if impossible:
        raise click.ClickException("; ".join(impossible))
