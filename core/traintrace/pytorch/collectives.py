"""Charge collectives that are called from the training thread to `communication`.

In a collective a rank waits for the slowest one; left where it happens, that wait would look like the rank's
own work. Seen are torch's public functions, by whatever name the loop, Lightning or accelerate calls them,
and the broadcast of buffers with which DDP begins a forward. Not seen: the wait for a collective that
was started with `async_op=True`, functional collectives, and what DDP does once to rebuild its buckets.

Nearly all of these functions are closures of torch, over the function that does the work. What the
closure holds is replaced and not the function: so it stays the same object for who imported it before,
for pickles, and for compiled functions, which are not compiled again.
"""

import functools
from collections.abc import Callable, Iterator
from threading import get_ident
from types import CellType, FunctionType
from typing import Any, Final

import torch
from torch.nn.parallel import DistributedDataParallel

from traintrace.accounts import COMMUNICATION
from traintrace.patching import replace_attribute, replace_content
from traintrace.pytorch.graphs import graphs_exist, outside_graphs
from traintrace.pytorch.strategy import has_other_processes
from traintrace.recording.journal import Journal
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
    "recv",
    "recv_object_list",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
)


def trace_collectives(session: Session) -> Iterator[Callable[[], None]]:
    """Install what charges collectives, in a job of several processes; give what undoes it."""
    if not has_other_processes():
        return
    journal = session.journal
    sync_buffers = getattr(DistributedDataParallel, "_sync_buffers", None)
    if sync_buffers is not None:  # private: without it this wait stays in forward
        yield replace_attribute(
            DistributedDataParallel, "_sync_buffers", _charged(journal, sync_buffers)
        )
    for name in _COLLECTIVES:
        function = getattr(torch.distributed, name, None)
        inner = _cell_below(function)
        if inner is not None:
            yield replace_content(inner, _charged(journal, inner.cell_contents))
        elif function is not None and not graphs_exist():
            # A compiled function that calls it would be compiled again, hence not after that.
            yield replace_attribute(torch.distributed, name, _charged(journal, function))
        elif function is not None and name != "monitored_barrier":
            session.unmeasured["communication"] = "the model was compiled before tracing began"


def _cell_below(function: Any) -> CellType | None:
    """Give the cell in which torch's logger of exceptions holds what it was put over; None without it."""
    if isinstance(function, FunctionType) and function.__code__.co_freevars == ("func",):
        (cell,) = function.__closure__ or ()
        if isinstance(cell.cell_contents, FunctionType):
            return cell
    return None


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
