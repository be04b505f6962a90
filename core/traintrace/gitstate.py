"""The commit of the code, read from files, and whether there are changes that are in no commit.

The second is git's to say, and git may take long: a huge repository, one on a network file system. So a
thread asks, training never waits for it, and a repository that does not answer in time costs nothing
but the answer. git runs no program of the repository's, takes no lock and writes nothing.
"""

import os
import re
import subprocess
import threading
from pathlib import Path
from typing import Final

# Longer than git needs for 100,000 files on a local disk.
DEADLINE_S: Final = 5.0
# Files of git are small; what is larger is something else.
_MOST_BYTES: Final = 1 << 22
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
    """Asks git, on a thread, whether files that it knows differ from the commit."""

    def __init__(self, folder: Path, deadline_s: float = DEADLINE_S) -> None:
        self._folder = folder
        self._deadline_s = deadline_s
        self._answer: bool | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="traintrace-git", daemon=True)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def close(self) -> bool | None:
        """Give the answer, None if there is none by now, and ask no more."""
        with self._lock:
            self._closed = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
        self._thread.join(0.2)
        return self._answer

    def _run(self) -> None:
        try:
            with self._lock:
                if self._closed:
                    return
                self._process = subprocess.Popen(
                    _COMMAND,
                    cwd=self._folder,
                    env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # a Ctrl-C is for training
                )
            with self._process as process:
                try:
                    changed, _ = process.communicate(timeout=self._deadline_s)
                except subprocess.TimeoutExpired:
                    process.kill()
                    return
            if process.returncode == 0:
                self._answer = bool(changed)
        except (OSError, ValueError, subprocess.SubprocessError):
            return  # no git here, or no process to be had: the answer stays open
