"""The registry of active sessions, which threads share."""

import sys
import threading
import time
from typing import Any

from traintrace.registry import Registry


def test_sessions_of_many_threads_begin_and_end_at_once() -> None:
    registry, errors = Registry(), []
    until = time.monotonic() + 0.3

    def trace_again_and_again() -> None:
        session: Any = object()  # the registry only hands it on
        try:
            while time.monotonic() < until:
                registry.add(session)
                found: Any = registry.current()
                assert found is session
                registry.remove(session)
                found = registry.current()
                assert found is None
        except Exception as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=trace_again_and_again) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
