"""Charge autograd's backward to `backward`."""

import functools
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

import torch

from traintrace.accounts import BACKWARD
from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import outside_graphs
from traintrace.recording.counting import CountingJournal
from traintrace.recording.journal import Journal


def trace_backward(journal: Journal) -> Iterator[Callable[[], None]]:
    """Install what charges `loss.backward()` and `torch.autograd.grad`; give what undoes it.

    `Tensor.backward` looks `torch.autograd.backward` up when it is called, so one name sees both, once.
    Not seen: a name imported from `torch.autograd` before tracing, and direct calls of the engine.
    """
    for name in ("backward", "grad"):
        yield replace_attribute(
            torch.autograd, name, _charged(journal, getattr(torch.autograd, name))
        )


def _charged(journal: Journal, original: Callable[..., Any]) -> Callable[..., Any]:
    enter, leave = journal.marker(BACKWARD), journal.marker(~BACKWARD)
    plain, now = journal.plain, journal.now
    is_compiling, is_foreign = torch.compiler.is_compiling, journal.is_foreign
    look = journal.before_backward if isinstance(journal, CountingJournal) else None

    @outside_graphs
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or (get_ident() != journal.owner and is_foreign(get_ident())):
            return original(*args, **kwargs)
        if look is not None:
            look(_roots(*args, **kwargs))
        try:
            enter()
            return original(*args, **kwargs)
        finally:
            if plain is None:
                leave()
            else:
                plain((now(), ~BACKWARD))

    return backward


def _roots(*args: Any, **kwargs: Any) -> object:
    """Give what a call of `backward` or `grad` starts from, however it was passed."""
    return args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
