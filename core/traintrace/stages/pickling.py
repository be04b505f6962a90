"""Pickle a followed queue as the user's class does; one that goes to a child process is followed there too.

A spawned child inherits nothing. So what is sent along with a queue is its name and the folder into which
children of the run hand on what they record; without that folder the queue is the user's and nothing else.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traintrace.faults import FaultReporter
from traintrace.registry import REGISTRY
from traintrace.stages.delivery import INBOXES
from traintrace.stages.recorder import StageRecorder

# Makes a queue again, and follows it: its name, the inbox, and what makes it, as pickle says.
Unpickle = Callable[[str, str, Callable[..., Any], tuple[Any, ...]], Any]


def reducer(
    base: type, followed: type, name: str, recorder: StageRecorder, unpickle: Unpickle
) -> Callable[[Any, Any], Any]:
    """Make the `__reduce_ex__` of a class that follows one queue.

    Args:
        base: The user's class.
        followed: The class made of it for one queue.
        name: The name of the queue.
        recorder: What records it here.
        unpickle: What another process calls to get the queue, followed.
    """
    inbox = recorder.inbox if is_shared(base) else None
    reduce: Any = base.__reduce_ex__

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        reduced = reduce(self, protocol)
        if isinstance(reduced, str):
            return reduced
        make, args, *rest = reduced
        # The class made here is nobody's outside this process.
        args = tuple(base if arg is followed else arg for arg in args)
        if inbox is None or not recorder.recording:
            # Pickle takes its own way of making an object for one of the object's own class only.
            return (functools.partial(make, *args), (), *rest)
        return (unpickle, (name, str(inbox), make, args), *rest)

    return __reduce_ex__


def child_recorder(inbox: Path) -> StageRecorder | None:
    """Give what records in this process for the run with that folder; None if the run's session has ended."""
    for recorder in REGISTRY.recorders:
        if recorder.inbox == inbox:
            return recorder if recorder.recording else None
    if not inbox.is_dir():
        return None
    recorder = StageRecorder(FaultReporter(REGISTRY.raise_faults), inbox=inbox, is_child=True)
    REGISTRY.recorders.append(recorder)
    return recorder


def parents_recorder(run_folder: str) -> StageRecorder | None:
    """Give what records in this process for its parent, if that is a rank of the run and records stages."""
    for inbox in Path(run_folder, INBOXES).glob(f"*.{os.getppid()}"):
        return child_recorder(inbox)
    return None


def is_shared(base: type) -> bool:
    """Say whether objects of a class can be one queue in several processes."""
    return is_proxy(base) or any(
        known.__module__ == "multiprocessing.queues" for known in base.__mro__
    )


def is_proxy(base: type) -> bool:
    """Say whether objects of a class stand for a queue that a manager's process holds."""
    managers = sys.modules.get("multiprocessing.managers")
    return managers is not None and issubclass(base, managers.BaseProxy)
