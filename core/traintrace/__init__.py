"""Record where every second of a PyTorch training run went, and read it back.

Training is traced by a plugin (`traintrace_plain_torch`, `traintrace_lightning`,
`traintrace_huggingface`). This package is what they share, and what reads a run without torch.
"""

from typing import TYPE_CHECKING, Any

from traintrace.access import log, queue, region, stage
from traintrace.errors import NewerSchemaError, RunReadError, TraintraceError, UsageError
from traintrace.faults import TraintraceWarning
from traintrace.options import TraceOptions

if TYPE_CHECKING:
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
    "queue",
    "region",
    "stage",
]


def __getattr__(name: str) -> Any:
    # What reads runs is loaded on first use: a process that trains starts without it.
    if name in ("Run", "list_manifests", "open_run"):
        from traintrace.runs import folder

        return getattr(folder, name)
    if name == "__version__":  # looked up on request: a plain source tree has no metadata
        from importlib.metadata import version

        return version("traintrace")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
