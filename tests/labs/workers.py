"""Which of pytest-xdist's workers runs which tests: what shares a costly fixture stays together, slow files come first."""

from typing import Any, Final

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

# Folders whose files look at the same trained runs: a second worker would have to train them again.
TOGETHER: Final = ("tests/cases/ranks/", "tests/ranks/", "tests/scenarios/", "tests/unchanged/")
# The longest, longest first: begun at the end, one of them would leave the other workers without work.
SLOWEST: Final = (
    "tests/launch/test_launchers.py",
    "tests/conformance/test_conformance.py",
    "tests/unchanged/",
    "tests/cases/ranks/",
    "tests/ranks/",
    "tests/launch/test_launchers_frameworks.py",
    "tests/scenarios/",
    "tests/survival/test_faults.py",
    "tests/cases/lightning/test_l01_to_l10.py",
    "tests/plugins/lightning/test_processes.py",
    "tests/plugins/plain_torch/test_faults.py",
    "tests/plugins/plain_torch/test_processes.py",
    "tests/plugins/huggingface/test_ranks.py",
    "tests/launch/",
    "tests/reporting/",
)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives each worker a file at a time, or a folder whose files belong together."""

    def _split_scope(self, nodeid: str) -> str:
        whole = (folder for folder in TOGETHER if nodeid.startswith(folder))
        return next(whole, super()._split_scope(nodeid))


def schedule(config: Any, log: Any) -> Scheduling:
    """Make the scheduler; the order of work is that of `turn`, not the number of tests in a file."""
    config.option.loadscopereorder = False
    return Scheduling(config, log)


def turn(nodeid: str) -> int:
    """Give the place of a test among those that are slow."""
    places = (place for place, slow in enumerate(SLOWEST) if nodeid.startswith(slow))
    return next(places, len(SLOWEST))
