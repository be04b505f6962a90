"""Trace a Hugging Face Trainer: `Trainer(..., callbacks=[TraceCallback()])`."""

from typing import TYPE_CHECKING, Any

from traintrace import log, region

if TYPE_CHECKING:
    from traintrace_huggingface.callback import TraceCallback

__all__ = ["TraceCallback", "log", "region"]


def __getattr__(name: str) -> Any:
    if name == "TraceCallback":  # on request: `attach` must be importable before the framework is
        # First: its import may call `attach`, which must not find a half-made module of ours.
        import transformers.trainer  # noqa: F401

        from traintrace_huggingface.callback import TraceCallback

        return TraceCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
