"""A session begins: it takes up the queues that have a name and the blocks of stages that are open, and tells of the rest."""

import sys
from typing import Any, Final

from traintrace.stages.named import Named
from traintrace.stages.pickling import is_shared
from traintrace.stages.queues import follow_midway
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.simplequeue import is_simple

_HINT: Final = "inside `with trace(model, optimizer) as tracer:`, or in a hook of the Trainer once training has begun"


def take_up(named: Named, recorder: StageRecorder) -> None:
    """Record from this instant on what was named before; of what cannot be, say so."""
    for block in named.blocks():
        with recorder.faults.guard(f"the stage {block.stage}"):
            recorder.take_up(block)
    # Of blocks inside each other the innermost, which comes last.
    held = [worker for block in named.blocks() if (worker := block.worker) is not None]
    workers = {
        worker.owner: worker
        for worker in held
        if worker.recorder is recorder and worker.task is None
    }
    simple: list[str] = []
    shared: list[str] = []
    for queue, name in named.queues():
        if is_simple(queue):
            simple.append(name)
            continue
        with recorder.faults.guard(f"what goes through the queue {name}"):
            follow_midway(queue, name, recorder, workers)
        if is_shared(type(queue)):
            shared.append(name)
    _tell(simple, list(named.lost), shared if _has_children() else [], recorder)
    named.lost.clear()


def _tell(simple: list[str], lost: list[str], shared: list[str], recorder: StageRecorder) -> None:
    for name in simple:
        recorder.faults.warn(
            f"what goes through the queue {name} is not recorded: a queue.SimpleQueue that was named before the "
            f"trace began cannot be followed; use a queue.Queue, or name it {_HINT}"
        )
    for name in lost:
        recorder.faults.warn(
            f"what goes through the queue {name} is not recorded if it was named before the trace began: its class "
            f'allows no weak reference; add "__weakref__" to its __slots__, or name it {_HINT}'
        )
    for name in shared:
        recorder.faults.warn(
            f"what child processes that were started before the trace began do with the queue {name} is not "
            f"recorded, and neither are their stages; start them {_HINT}"
        )


def _has_children() -> bool:
    """Say whether there are processes of `multiprocessing` that were not joined; asking it would join them."""
    processes: Any = sys.modules.get("multiprocessing.process")
    children = list(getattr(processes, "_children", ()))
    # The process of a manager works for nobody but the queues that it holds.
    return any("Manager-" not in child.name for child in children)
