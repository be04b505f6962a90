"""Trace a Lightning Trainer: `Trainer(callbacks=[TraceCallback()])`.

Works with `lightning.pytorch` and with `pytorch_lightning`; whichever the script uses.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traintrace_lightning.callback import TraceCallback

__all__ = ["TraceCallback"]


def __getattr__(name: str) -> Any:
    # On first use, so that `traintrace_lightning.attach` stays free of torch.
    if name == "TraceCallback":
        from traintrace_lightning.callback import TraceCallback

        return TraceCallback
    if name == "__version__":
        from importlib.metadata import version

        return version("traintrace-lightning")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
