"""The `traintrace` command. Its help loads neither the analysis nor NumPy nor Rich."""

import contextlib
import os
import sys
from typing import Any

import click

from traintrace.errors import TraintraceError
from traintrace_reporting.commands.compare import compare
from traintrace_reporting.commands.diff import diff
from traintrace_reporting.commands.doctor import doctor
from traintrace_reporting.commands.guard import guard
from traintrace_reporting.commands.list_runs import list_runs
from traintrace_reporting.commands.printing import EXIT_CODES
from traintrace_reporting.commands.report import report
from traintrace_reporting.commands.run import run
from traintrace_reporting.commands.watch import watch


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

    Example: traintrace run train.py
    """


for _command in (run, watch, report, list_runs, compare, guard, diff, doctor):
    main.add_command(_command)
