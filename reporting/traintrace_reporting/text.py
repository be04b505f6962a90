"""The report as `final_summary.txt`: what the terminal shows, without colour and 80 columns wide."""

from collections.abc import Mapping
from io import StringIO
from typing import Any, Final

from rich.console import Console, RenderableType

from traintrace_reporting.terminal import render

TEXT_WIDTH: Final = 80


def render_text(summary: Mapping[str, Any]) -> str:
    """Give the report as plain text in 80 columns; the same summary always gives the same text."""
    return as_text(render(summary, TEXT_WIDTH))


def as_text(content: RenderableType) -> str:
    """Give a page as plain text in 80 columns."""
    page = StringIO()
    console = Console(
        file=page,
        width=TEXT_WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        legacy_windows=False,
    )
    console.print(content)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()).strip("\n") + "\n"
