"""The callback that no Trainer lists: it traces those that list none of ours."""

from collections.abc import Callable
from typing import Any

from traintrace.registry import REGISTRY
from traintrace_huggingface.callback import TraceCallback


class Everywhere(TraceCallback):
    """Traces a Trainer as if it listed this callback; one that lists its own is left to that."""

    def trace(self, trainer: Any, train: Callable[[], Any]) -> Any:
        """Call `train`, traced unless the script turned tracing off for this Trainer."""
        handler = getattr(trainer, "callback_handler", None)
        for callback in getattr(handler, "callbacks", ()):
            if isinstance(callback, TraceCallback):  # one that is enabled has been asked already
                REGISTRY.make_way()
                return train()
        return super().trace(trainer, train)
