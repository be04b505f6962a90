"""A traced job ends with the exit code that it has untraced, however it ends."""

from pathlib import Path

import pytest

from tests.launch.lab import (
    PLAIN,
    PYTHON,
    RUN,
    RUN_2,
    TORCHRUN_2,
    Ended,
    launch,
    two_at_a_time,
)
from traintrace.runs.manifest import Manifest

# (how it is started, how it ends, untraced alike: how that is started)
PLAIN_PYTHON = [(PYTHON, end, PYTHON) for end in ("raises", "exits", "killed")]
UNDER_RUN = [(RUN, end, PYTHON) for end in ("raises", "exits", "killed")]
TORCHRUN_ENDS = [(TORCHRUN_2, end, TORCHRUN_2) for end in ("raises", "exits", "killed")]
RUN_2_ENDS = [(RUN_2, end, TORCHRUN_2) for end in ("raises", "exits", "killed")]
STATUS = {"raises": "failed", "exits": "failed"}
LONG = pytest.mark.long


def as_a_shell_sees_it(code: int) -> int:
    return 128 - code if code < 0 else code


@pytest.mark.parametrize(
    "rows",
    [
        # The plain loop's own tests end it in these ways without a launcher.
        pytest.param(PLAIN_PYTHON, marks=LONG),
        # An exit code and an exception under `run` are compared with their losses, too.
        UNDER_RUN[2:],
        pytest.param(UNDER_RUN[:2], marks=LONG),
        RUN_2_ENDS[2:],
        pytest.param([*TORCHRUN_ENDS, *RUN_2_ENDS[:2]], marks=LONG),
    ],
    ids=["python", "run", "run-more", "two-ranks", "two-ranks-more"],
)
def test_exit_code(
    tmp_path: Path, rows: list[tuple[tuple[str, ...], str, tuple[str, ...]]]
) -> None:
    def both(row: tuple[tuple[str, ...], str, tuple[str, ...]]) -> tuple[Ended, Ended]:
        launcher, end, untraced = row
        folder = tmp_path / f"{end}-{rows.index(row)}"
        automatic = ["--automatic"] if launcher in (RUN, RUN_2) else []
        # What ends a rank is waited for by nobody here: a process group would add errors of its own.
        script = (PLAIN, "--join", "never", "--end", end)
        return (
            launch(folder, (*launcher, *script, *automatic)),
            launch(folder, (*untraced, *script, "--bare")),
        )

    for (launcher, end, _), (traced, bare) in zip(rows, two_at_a_time(both, rows), strict=True):
        assert as_a_shell_sees_it(traced.code) == as_a_shell_sees_it(bare.code), (launcher, end)
        assert bare.code != 0
        assert traced.run.is_dir()
        # A rank that kills itself may do so before rank 0 has announced the run.
        if end in STATUS:
            assert Manifest.read(traced.run).status == STATUS[end], (launcher, end)
            assert set(traced.steps().values()) == {6}, (launcher, end)
        if launcher in (RUN, RUN_2):
            assert Manifest.read(traced.run).exit_code == traced.code, (launcher, end)
