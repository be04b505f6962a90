"""What one journal mark costs: the floor by a hot loop, the truth by a stored in-situ measurement."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Final

from traintrace.journal import Journal

_MARKS: Final = 500
_PRICE_FILE: Final = "mark_price.json"


def hot_mark_ns() -> float:
    """Measure one mark in a hot loop in this process [ns]; takes about a millisecond.

    Inside a real step the caches are cold and a mark costs several times this, so it is a floor.
    """
    journal = Journal(threading.get_ident(), lambda segment: None)
    mark = journal.marker(0)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter_ns()
        for _ in range(_MARKS):
            mark()
        best = min(best, (time.perf_counter_ns() - start) / _MARKS)
        journal.cut(None)
    return best


def price_path() -> Path:
    """Give where the in-situ price of this machine is kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "traintrace" / _PRICE_FILE


def stored_in_situ_mark_ns() -> float | None:
    """Give the in-situ price of a mark as measured once on this machine [ns]; None if it never was."""
    try:
        price = json.loads(price_path().read_text("utf-8"))["mark_ns"]
        return float(price) if price > 0 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
