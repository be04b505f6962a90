"""Record where every second of a PyTorch training run went, and read it back.

Training is traced by a plugin (`traintrace_plain_torch`, `traintrace_lightning`,
`traintrace_huggingface`). This package is what they share, and what reads a run without torch.
"""

from traintrace.access import log, region
from traintrace.errors import NewerSchemaError, RunReadError, TraintraceError, UsageError
from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions
from traintrace.runs.folder import Run, list_manifests, open_run

__all__ = [
    "NewerSchemaError",
    "Run",
    "RunReadError",
    "TraceOptions",
    "TraintraceError",
    "TraintraceWarning",
    "UsageError",
    "list_manifests",
    "log",
    "open_run",
    "region",
]


def __getattr__(name: str) -> str:
    if name == "__version__":  # looked up on request: a plain source tree has no metadata
        from importlib.metadata import version

        return version("traintrace")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
