"""Start a program through the launch door in a process of its own, and see what it leaves.

Run as a file, this is the smallest launcher there can be: it ends as the program did.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from traintrace import TraceOptions
from traintrace.launch import LaunchPlan, Target, launch

PYTHON: Final = sys.executable
# What would change the programs that are started: launchers' variables, and flags of the interpreter.
_LEFT_OUT: Final = (
    *("SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "PET_", "TRAINTRACE_"),
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS"),
)

# A program that stays until it is told to go.
SLEEPS = """
    import os, time
    print("ready", os.getpid(), flush=True)
    time.sleep(600)
"""


class Outcome(NamedTuple):
    code: int
    output: str
    error: str


def launcher(
    *words: str,
    torchrun: Sequence[str] = (),
    disable: bool = False,
    run: str | None = None,
    interpreter: Sequence[str] = (),
) -> list[str]:
    """Give a command that launches `python WORDS`, `["-m", "name", ...]` or `["script", ...]`."""
    plan = {"words": words, "torchrun": list(torchrun), "disable": disable, "run": run}
    return [PYTHON, *interpreter, __file__, json.dumps(plan)]


def variables(*path: Path) -> dict[str, str]:
    """Give the environment of a job without traces of a launcher, with folders to import from."""
    root = str(Path(__file__).parents[2])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_LEFT_OUT)}
    places = [*map(str, path), root, os.environ.get("PYTHONPATH", "")]
    return inherited | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}


def start(folder: Path, command: Sequence[str], **options: Any) -> "subprocess.Popen[str]":
    """Start a command as the leader of a process group of its own."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    settings = {"env": variables(), "start_new_session": True, **streams, **options}
    return subprocess.Popen(command, cwd=folder, text=True, **settings)


def end_of(process: "subprocess.Popen[str]", text: str = "") -> Outcome:
    """Wait for a command, and leave nobody behind."""
    try:
        output, error = process.communicate(text, timeout=120)
    finally:
        for member in group_of(process.pid):
            os.kill(member, signal.SIGKILL)
    return Outcome(process.returncode, output, error)


def run(folder: Path, command: Sequence[str], text: str = "", **options: Any) -> Outcome:
    """Run a command to its end."""
    return end_of(start(folder, command, **options), text)


def lay_out(folder: Path, source: str) -> None:
    """Write a program in every form that Python runs: file, link, package, module of one, zip file."""
    text = textwrap.dedent(source).strip() + "\n"
    (folder / "app").mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / "app" / "__init__.py").touch()
    for name in ("train.py", "app/__main__.py", "app/part.py"):
        (folder / name).write_text(text, "latin-1" if "latin-1" in text else "utf-8")
    (folder / "sub" / "link.py").symlink_to("../train.py")
    with zipfile.ZipFile(folder / "app.zip", "w") as archive:
        archive.write(folder / "train.py", "__main__.py")


def script(folder: Path, source: str) -> str:
    """Write a script into a folder, which is made; give its name."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(textwrap.dedent(source), "utf-8")
    return "train.py"


def ready(job: "subprocess.Popen[str]") -> int:
    """Wait until the program runs; give its process."""
    assert job.stdout is not None
    word, pid = job.stdout.readline().split()
    assert word == "ready"
    return int(pid)


def group_of(leader: int) -> list[int]:
    """Give the processes of a group that still run."""
    return [
        pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_in(pid, leader)
    ]


def _is_in(pid: int, leader: int) -> bool:
    fields = _stat(pid)
    return fields is not None and fields[2] == str(leader) and fields[0] not in "ZX"


def lives(pid: int) -> bool:
    """Tell whether a process runs: one that has ended and waits for its parent does not."""
    fields = _stat(pid)
    return fields is not None and fields[0] not in "ZX"


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None


def in_one_of_three(folder: Path, attempt: Callable[[Path], None]) -> None:
    """Let an attempt pass, each in a folder of its own: what is sent at once may arrive apart on a busy machine."""
    for number in range(3):
        place = folder / str(number)
        place.mkdir()
        try:
            return attempt(place)
        except AssertionError:
            if number == 2:
                raise


def eventually(holds: Callable[[], bool], within_s: float = 60) -> bool:
    """Wait until something holds; False if it never did."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def _main() -> None:
    asked = json.loads(sys.argv[1])
    words = asked["words"]
    kind, words = ("module", words[1:]) if words[0] == "-m" else ("script", words)
    plan = LaunchPlan(
        target=Target(kind, words[0], tuple(words[1:])),  # type: ignore[arg-type]  # one of two words
        options=TraceOptions(),
        torchrun=tuple(asked["torchrun"]),
        run=asked["run"],
        disable=asked["disable"],
    )
    ended = launch(plan)
    print("ended", ended.exit_code, ended.signal, file=sys.stderr)
    sys.exit(ended.exit_code)


if __name__ == "__main__":
    _main()
