"""Trace every Trainer of a script that names no callback: what `traintrace run` calls.

The entry point is looked up when `transformers.trainer` is imported; this module imports no framework
before.
"""

from collections.abc import Callable

from traintrace.options import TraceOptions


def attach(options: TraceOptions) -> Callable[[], None]:
    """Trace each `Trainer.train()` from now on; a Trainer's own `TraceCallback` goes first.

    Args:
        options: Options of every run.

    Returns:
        What ends this again.
    """
    from traintrace_huggingface.everywhere import Everywhere
    from traintrace_huggingface.shim import hold_shim

    callback = Everywhere.from_options(options)
    shim = hold_shim(callback)
    shim.everywhere = callback

    def detach() -> None:
        shim.everywhere = None

    return detach
