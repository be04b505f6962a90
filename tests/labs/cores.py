"""What other processes take of the cores: no upper bound on a real clock may count it."""

from pathlib import Path
from typing import Final

_OWN_SCHEDULE: Final = Path("/proc/thread-self/schedstat")


def waited_for_a_core_ns() -> int:
    """Give how long this thread was ready to run and did not, so far [ns]; 0 where no kernel counts it."""
    if not _OWN_SCHEDULE.exists():
        return 0
    return int(_OWN_SCHEDULE.read_text(encoding="ascii").split()[1])
