"""Sessions without any framework: in this process, and scripts that run them in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traintrace import accounts as A
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.runs.identity import Identity
from traintrace.session import Session

PLUGIN = PluginIdentity("test", "0", "none", "0")


def open_session(folder: Path, identity: Identity | None = None, **options: Any) -> Session:
    """Open a session and begin its span."""
    on_finish = options.pop("on_finish", None)
    ports = options.pop("ports", Ports())
    session = Session(
        TraceOptions(run_dir=folder, **options),
        PLUGIN,
        ports,
        on_finish=on_finish,
        identity=identity,
    )
    session.begin()
    return session


def step(session: Session, count: int = 1) -> None:
    """Make steps that wait for nothing."""
    for _ in range(count):
        session.journal.write(A.INPUT_WAIT)
        session.journal.write(~A.INPUT_WAIT)
        session.capture.complete()


_HEAD = """
import os, sys, time
from pathlib import Path
from tests.labs.coresessions import open_session, step
from traintrace.runs.identity import Identity
from traintrace.registry import REGISTRY
folder = Path(sys.argv[1])
"""


def start(script: str, folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start a script in a process of its own; it has `folder`, `open_session` and `step`."""
    root = Path(__file__).parents[2]
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "OMPI_", "TRAINTRACE_", "TORCHELASTIC_"))
        and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    }
    return subprocess.Popen(
        [sys.executable, "-c", _HEAD + script, str(folder), *words],
        env=plain | variables | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str, folder: Path, *words: str, **variables: str) -> str:
    """Run a script to its end; give what it printed."""
    with start(script, folder, *words, **variables) as process:
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return printed


def slurm(rank: int, world: int, job: str = "123", step: str = "0") -> Mapping[str, str]:
    """Give what srun tells one task of a step on one machine."""
    return {
        "SLURM_JOB_ID": job,
        "SLURM_STEP_ID": step,
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(world),
        "SLURM_NTASKS": str(world),
        "SLURM_NODEID": "0",
    }
