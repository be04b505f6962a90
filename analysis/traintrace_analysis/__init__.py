"""Turn recorded training steps into findings with evidence, cost and gain.

One door, `analyse`, from typed facts to an `Analysis`: no files, no database, no printing.
Everything is loaded on first use: who only wants a number in words needs no NumPy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traintrace_analysis.columns import REQUIRED_COLUMNS
    from traintrace_analysis.model import Analysis
    from traintrace_analysis.pipeline import analyse

__all__ = ["REQUIRED_COLUMNS", "Analysis", "analyse"]

_HOMES = {"REQUIRED_COLUMNS": "columns", "Analysis": "model", "analyse": "pipeline"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
