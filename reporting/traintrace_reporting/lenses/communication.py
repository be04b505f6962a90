"""The report's section on communication: traces by device, waits of ranks, the bubble of a pipeline.

What draws is loaded when something is drawn: loading Rich draws a random number, and a summary may be asked
for in the middle of training.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from traintrace_reporting.lenses.communication_json import section

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["rows", "section"]


def rows(summary: Mapping[str, Any], width: int) -> "Iterator[RenderableType]":
    """Give the section's heading and lines; nothing where there is nothing to say."""
    from traintrace_reporting.lenses.communication_rows import rows as drawn

    return drawn(summary, width)
