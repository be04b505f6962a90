"""Ends of processes, several from one start: Python and torch are imported once, for all of them.

A script calls `go_on_in_a_process_each` before it imports anything of ours; from there on it is a process
of its own, and ends as any interpreter does.
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HEAD = """
    import os, sys, time, torch
    from tests.labs.forked import go_on_in_a_process_each
    torch.optim.SGD([torch.zeros(1)])  # loads as much again as torch itself
    folder = go_on_in_a_process_each(sys.argv[1], sys.argv[2:])
"""


class Ended(NamedTuple):
    """How one of the processes ended; a negative code is a signal."""

    folder: Path
    code: int
    error: str


def run_each(folder: Path, body: str, names: Sequence[str]) -> list[Ended]:
    """Run a script once for each name, which it finds as the last part of its `folder`.

    Standard error is that of each by itself; standard output is nobody's.
    """
    script = folder / "script.py"
    script.write_text(textwrap.dedent(HEAD) + textwrap.dedent(body), "utf-8")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), str(folder), *names],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        cwd=folder,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads((folder / "codes.json").read_text("utf-8"))
    return [
        Ended(folder / name, codes[name], (folder / name / "stderr").read_text("utf-8"))
        for name in names
    ]


def go_on_in_a_process_each(parent: str, names: Sequence[str]) -> str:
    """Return once for each name, each time in a process of its own, with a folder of that name.

    The process that calls it never returns: it waits for each, writes down how it ended, and is gone.
    """
    codes: dict[str, int] = {}
    for name in names:
        folder = os.path.join(parent, name)
        os.makedirs(folder)
        child = os.fork()
        if child == 0:
            error = os.open(os.path.join(folder, "stderr"), os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(error, 2)
            return folder
        codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(parent, "codes.json").write_text(json.dumps(codes), "utf-8")
    os._exit(0)
