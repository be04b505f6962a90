"""Give every Trainer a `TraceCallback`: what `traintrace run train.py` calls once Lightning is loaded.

Nothing heavy is imported here before a Trainer is made.
"""

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.patching import replace_attribute
from traintrace.registry import REGISTRY
from traintrace_lightning.children import trace_children


def attach(options: TraceOptions) -> Callable[[], None]:
    """Add a `TraceCallback` to each Trainer made from now on that has none; give the undo.

    Covers both of Lightning's names, as far as they are loaded, and the processes that Lightning
    starts by itself.
    """
    undo = ExitStack()
    for name in ("lightning.pytorch", "pytorch_lightning"):
        trainer_class = getattr(sys.modules.get(name), "Trainer", None)
        if trainer_class is not None:
            undo.callback(_attach_to(trainer_class, options))
    for each in trace_children(options):
        undo.callback(each)
    return undo.close


def _attach_to(trainer_class: Any, options: TraceOptions) -> Callable[[], None]:
    original = trainer_class.__init__

    @functools.wraps(original)
    def __init__(trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(trainer, *args, **kwargs)
        with FaultReporter(REGISTRY.raise_faults).guard("the whole trace"):
            _add_callback(trainer, options)

    return replace_attribute(trainer_class, "__init__", __init__)


def _add_callback(trainer: Any, options: TraceOptions) -> None:
    from traintrace_lightning import TraceCallback

    if not any(isinstance(callback, TraceCallback) for callback in trainer.callbacks):
        trainer.callbacks.insert(0, TraceCallback.from_options(options))
