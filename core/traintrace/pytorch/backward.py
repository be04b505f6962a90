"""Charge autograd's backward to `backward`, and mark where this rank's own part of it ends."""

import functools
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Final

import torch
from torch import nn

from traintrace.accounts import BACKWARD
from traintrace.journal import OWN_WORK_DONE, Journal
from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import outside_graphs
from traintrace.pytorch.strategy import strategy_of

_WAITS_ALL_ALONG: Final = ("fsdp", "fsdp2", "deepspeed")


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

    @outside_graphs
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or (get_ident() != journal.owner and is_foreign(get_ident())):
            return original(*args, **kwargs)
        try:
            enter()
            return original(*args, **kwargs)
        finally:
            if plain is None:
                leave()
            else:
                plain((now(), ~BACKWARD))

    return backward


def mark_own_work(journal: Journal, model: nn.Module) -> Iterator[Callable[[], None]]:
    """Mark the end of this rank's own backward work, where other ranks take part.

    Autograd's engine runs queued callbacks in order, and DDP queues the one that waits for the other
    ranks only when its last bucket is ready. A callback queued from the last parameter therefore runs
    when this rank's own work is done. Nothing is installed in a process on its own, nor where
    the model is sharded: there ranks wait for each other all through the backward.
    """
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    if distributed.get_world_size() < 2 or strategy_of(model) in _WAITS_ALL_ALONG:
        return
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    engine: Any = getattr(torch.autograd.Variable, "_execution_engine", None)
    if not parameters or not hasattr(engine, "queue_callback"):
        return
    own_work_done = journal.marker(OWN_WORK_DONE)
    ddp: Any = getattr(model, "_orig_mod", model)

    def queue_mark(parameter: torch.Tensor) -> None:
        # Under DDP's `no_sync` nobody waits; without the wrapper at hand the wait is marked as nothing.
        if journal.owner != -1 and getattr(ddp, "require_backward_grad_sync", True):
            engine.queue_callback(own_work_done)

    # The last parameter's gradient comes first, so ours is queued before DDP's own callback.
    last: Any = parameters[-1]
    yield last.register_post_accumulate_grad_hook(queue_mark).remove
