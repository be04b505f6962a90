"""Start many jobs of several ranks at one instant, each rank a process that does next to nothing.

`light_jobs.py RUN_DIR JOBS RANKS [NAME]`: each rank is told its place as srun would, and the clock's minute
changes between the ranks of every job, so that no two of them would make the same name.
"""

import os
import sys
import time
from typing import Any

from tests.launch.lab import srun_variables
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.runs.identity import Identity
from traintrace.session import Session

STEPS = 3


def rank(root: str, name: str | None, job: int, number: int, size: int) -> None:
    edge: Any = lambda *arguments: f"20261130-1159-{number}"  # noqa: E731 - stands for strftime
    time.strftime = edge
    os.environ.update(srun_variables(number, size, job=str(job)))
    session = Session(
        TraceOptions(run_dir=root, name=name, print_report=False),
        PluginIdentity("light", "0", "none", "0"),
        Ports(),
        identity=Identity.from_environment(),
    )
    session.begin()
    for _ in range(STEPS):
        session.current_capture().complete()
    session.finish("completed")


def main(root: str, jobs: int, ranks: int, name: str | None = None) -> None:
    # All wait until the last of them is there: the ranks of a job begin before its first one ends.
    gate, opened = os.pipe()
    children = []
    for job in range(jobs):
        for number in range(ranks):
            child = os.fork()
            if not child:
                os.close(opened)
                os.read(gate, 1)  # ends when nobody can write any more
                rank(root, name, job, number, ranks)
                os._exit(0)
            children.append(child)
    os.close(opened)
    codes = [os.waitpid(child, 0)[1] for child in children]
    assert not any(codes), codes


if __name__ == "__main__":
    assert "torch" not in sys.modules
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
