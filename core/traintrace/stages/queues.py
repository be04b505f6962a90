"""Follow a queue without replacing it: the object stays the same and gets a class of its own under its old one.

    class Queue(queue.Queue):        # same name, same module, no slots: only these two are new
        get = ...                    # mark, call the old one, mark
        put = ...

A subclass made for one object costs nothing elsewhere: `isinstance`, attributes, iteration, `repr` and all other
methods are those of the user's class, and undoing it gives the class back. Only `queue.SimpleQueue` is written in
C and does not allow it; see `simplequeue`.
"""

import functools
import inspect
import math
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from traintrace.faults import FaultReporter
from traintrace.registry import REGISTRY
from traintrace.stages.marks import GOT, PLACED, queue_code
from traintrace.stages.midway import Midway, is_for_threads, size_of
from traintrace.stages.operations import awaited, immediate, operation
from traintrace.stages.pickling import child_recorder, is_proxy, is_shared, reducer
from traintrace.stages.recorder import StageRecorder
from traintrace.stages.simplequeue import FollowedSimpleQueue, is_simple
from traintrace.stages.worker import Worker

AnyQueue = TypeVar("AnyQueue")

# What an object of a class made here says of it: the name of the queue.
NAME: Final = "__traintrace_queue__"


def name_queue(queue: AnyQueue, name: str, find: Callable[[], StageRecorder | None]) -> AnyQueue:
    """Do as `follow_queue` does, and let the sessions to come follow the queue too.

    Args:
        queue: Any.
        name: Its name.
        find: Gives what records it now; None where no run is traced.
    """
    if queue is None:
        return queue
    # Before looking for a session: one that begins meanwhile finds the queue.
    is_kept = REGISTRY.named.add_queue(queue, str(name))
    recorder = find()
    followed = follow_queue(queue, name, recorder)
    if followed is not queue:
        REGISTRY.named.remove_queue(queue)
        REGISTRY.named.add_queue(followed, str(name))
    elif recorder is None and not is_kept:
        REGISTRY.named.lose(str(name))
    return followed


def follow_queue(queue: AnyQueue, name: str, recorder: StageRecorder | None) -> AnyQueue:
    """Count what goes through a queue under `name`; give the queue to be used from now on.

    It is the same object, but for a `queue.SimpleQueue`. What cannot be followed is given back as it is, and the
    user is told.
    """
    if recorder is None or not recorder.recording or queue is None:
        return queue
    followed: Any = queue
    with recorder.faults.guard(f"what goes through the queue {name}"), recorder.naming:
        known = followed_as(queue)
        if known is None:
            capacity, held = capacity_of(queue), size_of(queue)
            number = _number(queue, str(name), recorder)
            attached = None if number is None else _attached(queue, str(name), number, recorder)
            if number is not None and attached is not None:
                followed = attached
                recorder.add_queue(number, capacity, held)
        elif known != name:
            recorder.faults.warn(f"the queue {known} is followed already; it is not {name} besides")
    return followed  # type: ignore[no-any-return]


def follow_midway(
    queue: object, name: str, recorder: StageRecorder, workers: Mapping[int, Worker]
) -> None:
    """Follow a queue that was named before the session began; not one that another session follows.

    Args:
        queue: No `SimpleQueue`, unless it is a followed one.
        name: Its name.
        recorder: What records it.
        workers: Threads that are workers of this recorder, by their identity.
    """
    with recorder.naming:
        number = _number(queue, name, recorder) if followed_as(queue) is None else None
        if number is None:
            return
        capacity, since = capacity_of(queue), recorder.now()
        midway = Midway(number, recorder, capacity) if is_for_threads(queue) else None
        held = size_of(queue) if midway is None else 0
        if _attached(queue, name, number, recorder, midway) is None:
            return
        if midway is None:
            recorder.add_queue(number, capacity, held)
        else:
            midway.settle(queue, since, workers)


def _number(queue: Any, name: str, recorder: StageRecorder) -> int | None:
    """Give the number of a queue's name; None if it cannot be followed."""
    base = type(queue)
    if not callable(getattr(base, "get", None)) or not callable(getattr(base, "put", None)):
        recorder.faults.warn(
            f"{base.__name__} has no get and put: what goes through the queue {name} is not recorded"
        )
        return None
    return recorder.number_of_queue(name)


def _attached(
    queue: Any, name: str, number: int, recorder: StageRecorder, midway: Midway | None = None
) -> Any:
    """Give the queue as it is followed; None if its class does not allow that."""
    base = type(queue)
    try:
        return attach(queue, name, number, recorder, midway)
    except TypeError as error:  # a class of C, or one that says what may be derived from it
        recorder.faults.warn(
            f"{base.__name__} cannot be followed ({error}): what goes through the queue {name} is not recorded"
        )
        return None


def followed_as(queue: object) -> str | None:
    """Give the name under which a queue is followed; None if it is not."""
    if isinstance(queue, FollowedSimpleQueue):
        return queue.followed_as if queue.recorder.recording else None
    return getattr(type(queue), NAME, None)


def attach(
    queue: Any, name: str, number: int, recorder: StageRecorder, midway: Midway | None = None
) -> Any:
    """Let operations on `queue` be written under `number`; `midway` sees those of its methods of before."""
    if isinstance(queue, FollowedSimpleQueue):
        queue.follow(name, number, recorder)  # an earlier run's, which has ended
        return queue
    if is_simple(queue):
        return FollowedSimpleQueue(queue, name, number, recorder)
    base = type(queue)
    members: dict[str, Any] = {
        "__slots__": (),
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        NAME: name,
    }
    for method, make in _methods(base, number):
        members[method] = make(getattr(base, method), recorder)
    if midway is not None:
        midway.add_to(members, base)
    metaclass: Any = type(base)
    followed: Any = metaclass(base.__name__, (base,), members)
    followed.__reduce_ex__ = reducer(base, followed, name, recorder, follow_unpickled)
    restore = _undo_at_end(queue, base, followed, recorder)
    queue.__class__ = followed
    if not recorder.recording:  # it has ended meanwhile, maybe before it knew of this queue
        restore()
    return queue


def follow_unpickled(name: str, inbox: str, make: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Make a queue again, and follow it for the run whose children hand on through `inbox`."""
    queue = make(*args)
    faults = FaultReporter(REGISTRY.raise_faults)
    with faults.guard(f"what goes through the queue {name} in this process"):
        if is_shared(type(queue)):
            _follow_in_child(queue, name, Path(inbox))
    return queue


def _follow_in_child(queue: Any, name: str, inbox: Path) -> None:
    recorder = child_recorder(inbox)
    if recorder is None or followed_as(queue) is not None:
        return
    number = recorder.number_of_queue(name)
    if number is not None:
        attach(queue, name, number, recorder)


def _methods(base: type, number: int) -> list[tuple[str, Callable[..., Any]]]:
    """Give the methods of a class that are followed, each with what makes the new one of the old one.

    Those of the standard library without waiting call the others, but for asyncio and for a manager's proxies.
    What is no coroutine method stays none: who calls it awaits nothing.
    """
    got, placed = queue_code(number) + GOT, queue_code(number) + PLACED
    asyncio = sys.modules.get("asyncio.queues")
    is_asyncios = asyncio is not None and issubclass(base, asyncio.Queue)
    methods: list[tuple[str, Callable[..., Any]]] = []
    for method, succeeded in (("get", got), ("put", placed)):
        if inspect.iscoroutinefunction(getattr(base, method)):
            methods.append((method, awaited(succeeded, tells=not is_asyncios)))
        elif not is_asyncios:
            methods.append((method, operation(succeeded)))
    if is_asyncios:
        methods += [("get_nowait", immediate(got)), ("put_nowait", immediate(placed))]
    elif is_proxy(base):
        methods += [("get_nowait", operation(got)), ("put_nowait", operation(placed))]
    return methods


def _undo_at_end(
    queue: Any, base: type, followed: type, recorder: StageRecorder
) -> Callable[[], None]:
    undo, key = recorder.undo, id(queue)
    reference: Callable[[], Any]
    try:
        reference = weakref.ref(queue, lambda _: undo.pop(key, None))
    except TypeError:
        reference = functools.partial(_same, queue)  # it lives as long as the session

    def restore() -> None:
        alive = reference()
        if alive is not None and type(alive) is followed:
            alive.__class__ = base

    undo[key] = restore
    return restore


def _same(queue: Any) -> Any:
    return queue


def capacity_of(queue: Any) -> int | None:
    """Give how many items a queue holds at most; None if it is not bounded or does not say."""
    for name in ("maxsize", "_maxsize"):
        size = getattr(queue, name, None)
        if isinstance(size, (int, float)):
            return math.ceil(size) if 0 < size < _unbounded() else None
    return None


def _unbounded() -> int:
    synchronize = sys.modules.get("multiprocessing.synchronize")
    return sys.maxsize if synchronize is None else int(synchronize.SEM_VALUE_MAX)
