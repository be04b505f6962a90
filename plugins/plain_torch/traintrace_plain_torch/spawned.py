"""Trace the processes of `torch.multiprocessing.spawn`: each runs a function, and knows no launcher."""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from traintrace.options import TraceOptions
from traintrace.patching import replace_attribute
from traintrace_plain_torch.functions import Traced

# The package's attribute of this name is the function.
_MODULE: Final = "torch.multiprocessing.spawn"


def trace_spawned(options: TraceOptions) -> Iterator[Callable[[], None]]:
    """Have the functions of spawned processes traced; give what undoes it."""
    module: Any = sys.modules.get(_MODULE)
    original = getattr(module, "start_processes", None)
    if original is None:
        return

    @functools.wraps(original)
    def start_processes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(Traced.here(fn, options), *args, **kwargs)

    yield replace_attribute(module, "start_processes", start_processes)
