"""Versions and provenance of a run; never a host name, a path or an argument."""

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from traintrace.facts import Environment
from traintrace.ports import Runtime
from traintrace.runs.gitstate import commit_of
from traintrace.runs.surroundings import processor_name, speed_flags


def describe_environment(
    packages: Sequence[str], runtime: Callable[[], Runtime] | None = None
) -> Environment:
    """Read versions of Python and `packages`, the git commit of the working directory, and the seeds.

    Args:
        packages: Names of distributions.
        runtime: Tells what only the framework knows; None where nothing does.
    """
    versions = {name: found for name in packages if (found := _version(name))}
    known = Runtime() if runtime is None else runtime()
    return Environment(
        python=platform.python_version(),
        torch=versions.get("torch"),
        cuda=known.cuda,
        packages=versions,
        git_commit=_commit(),
        seeds=dict(known.seeds),
        cpu=processor_name(),
        flags=speed_flags(),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    try:
        folder = Path.cwd()
    except OSError:  # it was removed
        return None
    return commit_of(folder)
