"""Compilations of `torch.compile`, as torch's own callbacks tell them.

torch._dynamo is private and takes a second to import: it is never imported here, only found once
someone else has. The drain looks for it, so a compilation of the first half second is found in the
list that dynamo keeps itself.
"""

import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from traintrace.ports import COMPILATION
from traintrace.recording.occurrences import Occurrence, OccurrenceQueue

_MAX_DETAIL: Final = 200
# Dynamo's own list holds 64.
_REMEMBERED: Final = 1_000
_NO_CALLBACKS: Final = "this version of torch does not tell when it compiles"
_FRAME: Final = re.compile(r"^\[?\d+/\d+[^:]*:\s*")
_PATH: Final = re.compile(r"\S*[/\\]\S*")


class CompilationWatch:
    """Sees every outermost compilation of this process; its detail is dynamo's id, e.g. "0/0".

    An id that ends in /0 is the first compilation of its code; later ones are recompilations, with
    the reason where dynamo gives one.

    Attributes:
        unmeasured: Why compilations cannot be seen; None while they can.
    """

    kind = COMPILATION

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self._process = os.getpid()
        self._queue = OccurrenceQueue()
        self._reported: deque[Occurrence] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()  # between `look` and `close`
        self._is_closed = self._missed_one = False
        self._handler: Any = None
        self._began: int | None = None
        self._span_start = 0
        self.unmeasured: str | None = None

        def started(*call: Any) -> None:
            self._began = now()

        def ended(*call: Any) -> None:
            began, self._began = self._began, None
            if began is None:  # it was running when the callbacks came on
                self._missed_one = True
            elif os.getpid() == self._process:
                self._queue.add(Occurrence(COMPILATION, began, now() - began, _name(call)))

        self._hooks = started, ended

    def begin(self) -> None:
        """The span begins: compilations count from now on."""
        self._span_start = self._now()
        self._attach()

    def close(self) -> None:
        """Take the callbacks off."""
        with self._lock:
            self._is_closed = True
            started, ended = self._hooks
            if self._handler is None or started not in self._handler.start_callbacks:
                self._missed_one = True  # imported, or reset, since the last look
            if self._handler is not None:
                if started in self._handler.start_callbacks:
                    self._handler.remove_start_callback(started)
                if ended in self._handler.end_callbacks:
                    self._handler.remove_end_callback(ended)

    def look(self) -> Sequence[Occurrence]:
        """Give the compilations since the last look; attach to dynamo if it has been imported."""
        with self._lock:
            is_new = self._attach()
        seen = self._queue.take()
        self._reported += seen
        if is_new or self._missed_one:
            self._missed_one = False
            seen += self._missed()
        return [_with_reason(one) for one in seen]

    def _attach(self) -> bool:
        """Put the callbacks on unless they are; say whether compilations may have been missed."""
        module: Any = sys.modules.get("torch._dynamo.callback")
        if self._is_closed or self.unmeasured is not None:
            return False
        if module is None or _is_loading(module):
            return False
        handler: Any = getattr(module, "callback_handler", None)
        started, ended = self._hooks
        try:
            if started in handler.start_callbacks:
                return False
            # Again after `torch._dynamo.reset()`, which forgets everybody's callbacks.
            handler.register_start_callback(started)
            handler.register_end_callback(ended)
        except AttributeError:
            self.unmeasured = _NO_CALLBACKS
            return False
        self._handler = handler
        return True

    def _missed(self) -> list[Occurrence]:
        """Give the compilations of the span that dynamo has noted and the callbacks have not."""
        offset = time.time_ns() - self._now()
        missed = []
        for metrics in _compilation_metrics():
            if metrics.start_time_us is None or metrics.duration_us is None:
                continue
            start, length = metrics.start_time_us * 1000 - offset, metrics.duration_us * 1000
            found = Occurrence(COMPILATION, start, length, _id(metrics.compile_id))
            if start >= self._span_start and not any(_overlap(found, o) for o in self._reported):
                missed.append(found)
        self._reported += missed
        return missed


def _overlap(one: Occurrence, other: Occurrence) -> bool:
    first, second = sorted((one, other), key=lambda occurrence: occurrence.start_ns)
    return second.start_ns < first.start_ns + (first.duration_ns or 0)


def _is_loading(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _id(text: object) -> str:
    return str(text).strip("[]") if text else ""


def _name(call: tuple[Any, ...]) -> str:
    """Give the id that the callback was called with; "" from versions of torch that give none."""
    name = _id(getattr(call[0], "compile_id", None)) if call else ""
    trigger = getattr(getattr(call[0], "callback_trigger", None), "name", "DYNAMO") if call else ""
    return name if trigger in ("", "DYNAMO") else f"{name} {trigger.lower()}".strip()


def _compilation_metrics() -> Sequence[Any]:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    read = getattr(utils, "get_compilation_metrics", None)
    if read is None:
        return ()
    found: Sequence[Any] = read()
    fields = ("compile_id", "start_time_us", "duration_us", "recompile_reason")
    return [one for one in found if all(hasattr(one, field) for field in fields)]


def _with_reason(occurrence: Occurrence) -> Occurrence:
    """Add why dynamo compiled again, without paths; unchanged for a first compilation."""
    if not occurrence.detail or occurrence.detail.endswith("/0"):
        return occurrence
    for metrics in reversed(_compilation_metrics()):
        if _id(metrics.compile_id) == occurrence.detail and metrics.recompile_reason:
            first_line = str(metrics.recompile_reason).splitlines()[0].split("  #")[0]
            reason = _PATH.sub("...", _FRAME.sub("", first_line)).strip()
            detail = f"{occurrence.detail} recompilation: {reason}"[:_MAX_DETAIL]
            return Occurrence(COMPILATION, occurrence.start_ns, occurrence.duration_ns, detail)
    return Occurrence(
        COMPILATION,
        occurrence.start_ns,
        occurrence.duration_ns,
        f"{occurrence.detail} recompilation",
    )
