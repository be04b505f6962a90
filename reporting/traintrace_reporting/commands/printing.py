"""What the commands share: their exit codes, and how they print."""

import json
import sys
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 a file cannot be read, and the message names it; 2 wrong usage."
)


def print_page(page: "RenderableType") -> None:
    """Print a page to standard output, in characters that it can encode."""
    from traintrace_reporting.format import encodable
    from traintrace_reporting.terminal import console_for

    console = console_for(sys.stdout)
    with console.capture() as captured:
        console.print(page)
    click.echo(encodable(captured.get(), console.encoding), nl=False)


def print_json(content: object) -> None:
    """Print strict JSON to standard output."""
    click.echo(json.dumps(content, indent=2, allow_nan=False))
