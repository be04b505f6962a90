"""Trace what one function does in a process that no launcher of ours started."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from traintrace.faults import FaultReporter
from traintrace.launch.importhook import attach_on_import
from traintrace.options import TraceOptions
from traintrace.registry import REGISTRY
from traintrace.runs.identity import RUN_VARIABLE
from traintrace.session import Session


@dataclass(frozen=True, slots=True)
class Traced:
    """Calls a function as a script is run under `traintrace run`; can be sent to another process.

    Attributes:
        shared_run: The run to join, as the process that made this was told; None if it was not.
        launched: A launcher of ours waits for all of this and makes the report.
    """

    function: Callable[..., Any]
    options: TraceOptions
    shared_run: str | None
    launched: bool

    @classmethod
    def here(cls, function: Callable[..., Any], options: TraceOptions) -> "Traced":
        """Make one that belongs to the same run as this process."""
        return cls(function, options, os.environ.get(RUN_VARIABLE), REGISTRY.launched)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; what is traced ends with it."""
        if self.shared_run is not None:
            os.environ.setdefault(RUN_VARIABLE, self.shared_run)
        REGISTRY.launched = self.launched
        faults = FaultReporter(REGISTRY.raise_faults)
        detach: Callable[[], None] | None = None
        with faults.guard("the whole trace"):
            detach = attach_on_import(self.options, faults)
        try:
            return self.function(*args, **kwargs)
        except BaseException as error:
            session = REGISTRY.current()
            if isinstance(session, Session):
                with faults.guard("how training ended"):
                    session.close_at_exit(error)
            raise
        finally:
            if detach is not None:
                with faults.guard("the end of the run"):
                    detach()
