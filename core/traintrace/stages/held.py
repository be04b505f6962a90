"""Locks that nobody waits for long for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_S: Final = 5.0


@contextmanager
def held(lock: threading.Lock, *, wait: bool) -> Iterator[bool]:
    """Hold a lock if it can be had; a Ctrl-C may have left it with its thread, so nobody waits for long."""
    free = lock.acquire(timeout=PATIENCE_S if wait else 0.0)
    try:
        yield free
    finally:
        if free:
            lock.release()
