"""Versions and provenance of a run; never a host name, a path or an argument."""

import platform
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from traintrace.facts import Environment


def describe_environment(packages: Sequence[str]) -> Environment:
    """Read versions of Python and `packages`, and the git commit of the working directory."""
    versions = {name: found for name in packages if (found := _version(name))}
    return Environment(
        python=platform.python_version(),
        torch=versions.get("torch"),
        packages=versions,
        git_commit=_git_commit(Path.cwd()),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git_commit(folder: Path) -> str | None:
    """Read the commit of the repository around `folder` from its files, without running git."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        if git.is_dir():
            try:
                head = (git / "HEAD").read_text("utf-8").strip()
                if head.startswith("ref: "):
                    head = (git / head[5:]).read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError):
                return None
            return head if re.fullmatch(r"[0-9a-f]{40}", head) else None
    return None
