"""Spans in a notebook or at a prompt: a cell that raised leaves its span open, and is run again."""

import sys
from collections.abc import Iterator

from traintrace.registry import REGISTRY
from traintrace_plain_torch.loopsession import LoopSession, LoopTracer


def is_interactive() -> bool:
    """Say whether a person types at this interpreter: a prompt, or IPython's kernel."""
    if hasattr(sys, "ps1"):
        return True
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def forgotten_tracers(beginning: LoopTracer) -> Iterator[LoopTracer]:
    """Give the tracers whose spans stand in the way of `beginning`'s and that nobody will end.

    In a script a span that `start()` began is taken to be meant, as is one that a `with` block ends.
    """
    if not is_interactive():
        return
    current = REGISTRY.current()
    tracer = current.tracer if isinstance(current, LoopSession) else None
    for candidate in (tracer, beginning):
        if candidate is not None and candidate.is_manual and candidate.is_active:
            yield candidate
