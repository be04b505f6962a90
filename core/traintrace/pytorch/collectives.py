"""Charge collectives that are called from the training thread to `communication`.

In a collective a rank waits for the slowest one; left where it happens, that wait would look like the rank's
own work. Seen are torch's public functions, called as `torch.distributed.all_reduce(...)` by the loop, by
Lightning and by accelerate, and the broadcast of buffers with which DDP begins a forward. Not seen: the
wait for a collective that was started with `async_op=True`, and what DDP does once to rebuild its buckets.
"""

import functools
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, Final

import torch
from torch.nn.parallel import DistributedDataParallel

from traintrace.accounts import COMMUNICATION
from traintrace.journal import Journal
from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import graphs_exist, outside_graphs
from traintrace.pytorch.strategy import has_other_processes
from traintrace.session import Session

_COLLECTIVES: Final = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
)


def trace_collectives(session: Session) -> Iterator[Callable[[], None]]:
    """Install what charges collectives, in a job of several processes; give what undoes it.

    A compiled function that itself calls a collective is compiled again where that has been replaced: so
    if graphs exist already, only DDP's broadcast is seen. One more graph may be made after tracing ends.
    """
    if not has_other_processes():
        return
    journal = session.journal
    sync_buffers = getattr(DistributedDataParallel, "_sync_buffers", None)
    if sync_buffers is not None:  # private: without it this wait stays in forward
        yield replace_attribute(
            DistributedDataParallel, "_sync_buffers", _charged(journal, sync_buffers)
        )
    if graphs_exist():
        session.unmeasured["communication"] = "the model was compiled before tracing began"
        return
    for name in _COLLECTIVES:
        original = getattr(torch.distributed, name, None)
        if original is not None:
            yield replace_attribute(torch.distributed, name, _charged(journal, original))


def _charged(journal: Journal, original: Callable[..., Any]) -> Callable[..., Any]:
    enter, leave = journal.marker(COMMUNICATION), journal.marker(~COMMUNICATION)
    is_compiling = torch.compiler.is_compiling

    @outside_graphs
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or get_ident() != journal.owner:
            return original(*args, **kwargs)
        try:
            enter()
            return original(*args, **kwargs)
        finally:
            leave()

    return collective
