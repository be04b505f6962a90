"""Give every Trainer a `TraceCallback`: what `traintrace run train.py` calls once Lightning is loaded.

Nothing heavy is imported here before a Trainer is made.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from traintrace.faults import FaultReporter
from traintrace.patching import replace_attribute
from traintrace.registry import REGISTRY


def attach(**options: Any) -> Callable[[], None]:
    """Add a `TraceCallback(**options)` to each Trainer made from now on that has none; give the undo.

    Covers both of Lightning's names, as far as they are loaded.
    """
    undo = [
        _attach_to(sys.modules[name].Trainer, options)
        for name in ("lightning.pytorch", "pytorch_lightning")
        if hasattr(sys.modules.get(name), "Trainer")
    ]

    def detach() -> None:
        for each in undo:
            each()

    return detach


def _attach_to(trainer_class: Any, options: dict[str, Any]) -> Callable[[], None]:
    original = trainer_class.__init__

    @functools.wraps(original)
    def __init__(trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(trainer, *args, **kwargs)
        with FaultReporter(REGISTRY.raise_faults).guard("the whole trace"):
            _add_callback(trainer, options)

    return replace_attribute(trainer_class, "__init__", __init__)


def _add_callback(trainer: Any, options: dict[str, Any]) -> None:
    from traintrace_lightning import TraceCallback

    if not any(isinstance(callback, TraceCallback) for callback in trainer.callbacks):
        trainer.callbacks.insert(0, TraceCallback(**options))
