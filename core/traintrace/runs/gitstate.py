"""The commit of the code, read from files, and whether there are changes that are in no commit.

The second is git's to say, and git may take long: a huge repository, one on a network file system. So a
thread asks, training never waits for it, and a repository that does not answer in time costs nothing
but the answer. git runs no program of the repository's, takes no lock and writes nothing.
"""

import os
import re
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Final

# Longer than git needs for 100,000 files on a local disk.
DEADLINE_S: Final = 5.0
_SHORTEST_LOOK_S: Final = 0.002
_LONGEST_LOOK_S: Final = 0.1
# Files of git are small; what is larger is something else.
_MOST_BYTES: Final = 1 << 22
# The readings of a rank leave out processes of other ranks: git is no worker of its loader.
_NO_RANK: Final = "none"
_HASH: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_COMMAND: Final = (
    "git",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false"),
    *("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"),
)


def commit_of(folder: Path) -> str | None:
    """Read the commit of the repository around `folder` from its files, without running git.

    Returns:
        None if there is no repository, or it has no commit, or it is of no known form.
    """
    for place in (folder, *folder.parents):
        entry = place / ".git"
        try:
            if entry.is_dir():
                return _commit_in(entry)
            if entry.is_file():  # a worktree or a submodule: its own files lie elsewhere
                return _commit_in(place / _text(entry).removeprefix("gitdir:").strip())
        except (OSError, ValueError):
            return None
    return None


def _commit_in(git: Path) -> str | None:
    head = _text(git / "HEAD")
    if not head.startswith("ref:"):
        return _checked(head)
    name = head.removeprefix("ref:").strip()
    shared = git / "commondir"
    common = git / _text(shared) if shared.is_file() else git
    for folder in (git, common):
        if (folder / name).is_file():
            return _checked(_text(folder / name))
    for line in _text(common / "packed-refs").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return _checked(commit)
    return None


def _text(path: Path) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read(_MOST_BYTES).strip()


def _checked(text: str) -> str | None:
    return text if _HASH.fullmatch(text) else None


class DirtyCheck:
    """Asks git, on a thread, whether files that it knows differ from the commit.

    There is no pipe to git: a loader's worker that training forks while git starts would hold the other end
    open, and whoever reads from it would wait for that worker.
    """

    def __init__(self, folder: Path, deadline_s: float = DEADLINE_S) -> None:
        self._folder = folder
        self._deadline_s = deadline_s
        self._answer: bool | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traintrace-git", daemon=True)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def close(self) -> bool | None:
        """Give the answer, None if there is none by now, and ask no more."""
        self._closed.set()
        self._thread.join(0.2)
        return self._answer

    def _run(self) -> None:
        try:
            with tempfile.TemporaryFile() as output:
                if not self._closed.is_set() and self._succeeds(output):
                    self._answer = bool(output.seek(0, os.SEEK_END))
        except (OSError, ValueError, AttributeError):
            return  # no git here, no process to be had, no such call: the answer stays open

    def _succeeds(self, output: IO[bytes]) -> bool:
        """Run git to its end, its output into a file; False if it fails or is ended by us."""
        process = os.posix_spawnp(
            _COMMAND[0],
            [_COMMAND[0], "-C", str(self._folder), *_COMMAND[1:]],
            {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "LOCAL_RANK": _NO_RANK},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,  # a Ctrl-C is for training
        )
        deadline, pause_s = time.monotonic() + self._deadline_s, _SHORTEST_LOOK_S
        while True:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return status == 0
            if self._closed.wait(pause_s) or time.monotonic() > deadline:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return False
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
