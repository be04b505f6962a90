"""Trace every Trainer of a script that names no callback: what `traintrace run` calls.

The entry point is looked up when `transformers.trainer` is imported; this module imports no framework.
"""

from collections.abc import Callable
from typing import Any


def attach(**options: Any) -> Callable[[], None]:
    """Trace each `Trainer.train()` from now on; a Trainer's own `TraceCallback` goes first.

    Args:
        **options: Options of `TraceCallback`.

    Returns:
        What ends this again.
    """
    from traintrace_huggingface.callback import TraceCallback
    from traintrace_huggingface.shim import hold_shim

    callback = TraceCallback(**options)
    shim = hold_shim(callback)
    shim.everywhere = callback

    def detach() -> None:
        shim.everywhere = None

    return detach
