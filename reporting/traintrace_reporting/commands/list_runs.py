"""`traintrace list`: the table of runs."""

from pathlib import Path

import click

from traintrace_reporting.commands.printing import EXIT_CODES, print_json, print_page


@click.command("list", epilog=EXIT_CODES)
@click.argument("run_dir", type=click.Path(path_type=Path), default="runs")
@click.option("--json", "as_json", is_flag=True, help="Print the runs as JSON.")
def list_runs(run_dir: Path, as_json: bool) -> None:
    """List the runs in RUN_DIR (default: runs), oldest first.

    A run whose manifest cannot be read is listed as such, and the exit code is 1. Four and more completed runs of
    equal versions, machine and configuration get a line on the trend of their step time.

    Example: traintrace list runs
    """
    from traintrace_reporting import listing

    runs, errors = listing.list_runs(run_dir)
    if as_json:
        print_json(runs)
    elif runs:
        print_page(listing.render(runs))
        for told in listing.trends(runs):
            click.echo(told)
    else:
        click.echo(f"No runs in {run_dir}.")
    if errors:
        raise click.ClickException("; ".join(map(str, errors)))
