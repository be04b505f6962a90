"""Trace a script that names no model and no loop: what `traintrace run` calls once torch is loaded."""

from collections.abc import Callable

from traintrace.options import TraceOptions
from traintrace_plain_torch.automatic import Automatic


def attach(options: TraceOptions) -> Callable[[], None]:
    """Trace the loop that trains in this process, if any does; give what ends this again.

    The span begins when a torch optimizer exists and the thread that made it asks a DataLoader for
    an iterator, or else with the first backward. It ends with the script. A trace that anybody asked
    for, or a framework's own, goes first.
    """
    automatic = Automatic(options)
    if options.enabled:
        automatic.watch()
    return automatic.close
