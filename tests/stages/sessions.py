"""The end of a session that records stages and nothing else, and what it says then; `conftest` begins one."""

from traintrace.registry import REGISTRY
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.records import QueueUpdate, Update


def end(recorder: StageRecorder) -> Update:
    """Let a session end, and give what it recorded since it was asked last."""
    if recorder in REGISTRY.recorders:
        REGISTRY.recorders.remove(recorder)
    recorder.end()
    REGISTRY.named.forget(recorder)
    return recorder.take()


def record_of(update: Update, name: str) -> QueueUpdate:
    """Give the record of a queue."""
    (record,) = (one for one in update.queues if one.name == name)
    return record
