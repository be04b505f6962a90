"""`traintrace watch`: look at a program from outside, with nothing put into it."""

import sys
from dataclasses import replace
from typing import Any

import click

from traintrace.errors import UsageError
from traintrace.launch.plan import Target
from traintrace_reporting.commands.target import as_flag, target_arguments
from traintrace_reporting.commands.torchrun_flags import given_flags, torchrun_options
from traintrace_reporting.settings import load_settings, with_flags

_EPILOG = (
    "Exit codes: the program's own (128 + n if signal n ended it); 1 the settings file cannot be used; "
    "2 wrong usage, or the run name is taken.\n\n"
    "Options stand before SCRIPT; all that follows belongs to the script. Each node is watched by its own "
    "launcher, as a run of its own."
)


@click.command(context_settings={"allow_interspersed_args": False}, epilog=_EPILOG)
@target_arguments
@click.option(
    "--run-name",
    metavar="NAME",
    help="Name of the run, which must be new (default: the script's name and the time).",
)
@click.option("--run-dir", metavar="DIR", help="Folder that holds runs (default: runs).")
@click.option(
    "--interval", type=float, metavar="SECONDS", help="Time between readings of the machine."
)
@torchrun_options
def watch(
    target: Target,
    run_name: str | None,
    run_dir: str | None,
    interval: float | None,
    **torchrun: Any,
) -> None:
    """Run a program and read the machine meanwhile: CPU, memory, disk, network, GPUs.

    Nothing is imported into the program, so there are no steps, and no cause is named. The report says what its
    processes used.

    Example: traintrace watch train.py --lr 0.1
    """
    from traintrace_reporting.watching import watch_program

    # What a guard measures are steps, and nothing here knows any.
    unguarded = replace(load_settings(), guard=None)
    settings = with_flags(unguarded, run_dir=run_dir, interval=interval)
    try:
        options = settings.options(run_name)
        code = watch_program(target, given_flags(torchrun), settings, options)
    except UsageError as error:
        raise click.UsageError(as_flag(str(error))) from error
    sys.exit(code)
