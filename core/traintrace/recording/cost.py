"""What one transition costs: the floor by a hot loop, the truth by a stored in-situ measurement.

A transition's price includes its share of what a step costs besides: wrapper frames, thread tests, the
capture and its publication. The hot loop is a step without training in it.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Final

from traintrace.accounts import BACKWARD, FORWARD, INPUT_WAIT, OPTIMIZER
from traintrace.recording.journal import Journal, Segment
from traintrace.recording.steps import StepCapture

# Inside a real step caches are cold, and torch's own hook machinery comes on top: there a transition
# costs this many times its hot price. Measured: explicit marks 6, automatic tracing 10 (see
# benchmarks/README.md); the range that is printed spans 1 to 15.
IN_SITU_FACTOR: Final = 9.0
IN_SITU_WORST_FACTOR: Final = 15.0
# A price measured once in a real step on this machine is good to this share.
IN_SITU_ERROR: Final = 0.3

_STEPS: Final = 60
_REPEATS: Final = 4
_PRICE_FILE: Final = "transition_price.json"


def hot_transition_ns() -> float:
    """Measure one transition in a hot loop in this process [ns]; takes about a millisecond."""
    published: deque[Segment] = deque()
    journal = Journal(get_ident(), published.append)
    calls = [_charged(journal, account) for account in (INPUT_WAIT, FORWARD, BACKWARD, OPTIMIZER)]

    def end(capture: StepCapture, completed: bool) -> None:
        journal.cut(capture)

    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter_ns()
        for _ in range(_STEPS):
            capture = StepCapture()
            capture.on_end = end
            for call in calls:
                call()
            capture.count(1)
            capture.complete()
        best = min(best, time.perf_counter_ns() - start)
        transitions = sum(len(segment.entries) // 2 for segment in published)
        published.clear()
    return best / transitions


def _charged(journal: Journal, account: int) -> Callable[[], None]:
    """Do what the wrapper of a traced call does, around nothing."""
    enter, leave, is_foreign = journal.marker(account), journal.marker(~account), journal.is_foreign

    def call() -> None:
        if is_foreign(get_ident()):
            return
        enter()
        try:
            return
        finally:
            leave()

    return call


def price_path() -> Path:
    """Give where the in-situ price of this machine is kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "traintrace" / _PRICE_FILE


def stored_in_situ_transition_ns() -> float | None:
    """Give the in-situ price as measured once on this machine [ns]; None if it never was."""
    try:
        price = json.loads(price_path().read_text("utf-8"))["transition_ns"]
        return float(price) if price > 0 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
