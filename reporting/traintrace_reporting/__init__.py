"""What people see of a run: the report, its summary files, and the `traintrace` command.

Everything is loaded on first use: a plugin imports this when its run ends, and `traintrace --help`
needs neither the analysis nor the drawing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traintrace_reporting.finish import (
        Summary,
        finish_run,
        read_or_make,
        read_summary,
        summarise_run,
    )
    from traintrace_reporting.terminal import print_report, render
    from traintrace_reporting.text import render_text

__all__ = [
    "Summary",
    "finish_run",
    "print_report",
    "read_or_make",
    "read_summary",
    "render",
    "render_text",
    "summarise_run",
]

_HOMES = {
    "print_report": "terminal",
    "render": "terminal",
    "render_text": "text",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looked up on request: a plain source tree has no metadata
        from importlib.metadata import version

        return version("traintrace-reporting")
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'finish')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
