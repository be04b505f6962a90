"""Where a run comes from: the commit, changes that are in no commit, and processes that are gone."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from traintrace.runs.gitstate import DirtyCheck, commit_of
from traintrace.runs.liveness import describe_process, is_dead
from traintrace.runs.surroundings import processor_name, speed_flags

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git here")


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        ["git", *name, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "feature/x")
    (folder / "train.py").write_text("pass\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def is_dirty(folder: Path) -> bool | None:
    check = DirtyCheck(folder)
    check.start()
    check._thread.join(20)
    return check.close()


@needs_git
def test_the_commit_is_read_from_files_in_every_form(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "deep" / "down").mkdir(parents=True)
    assert commit_of(repository / "deep" / "down") == commit
    git(repository, "pack-refs", "--all")
    assert commit_of(repository) == commit
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert commit_of(tmp_path / "tree") == commit
    git(repository, "checkout", "-q", "--detach")
    assert commit_of(repository) == commit


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none", "nonsense", "\0"])
def test_a_broken_repository_has_no_commit(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert commit_of(tmp_path) is None
    assert is_dirty(tmp_path) is None


@needs_git
def test_changes_that_are_in_no_commit_are_seen(repository: Path) -> None:
    assert is_dirty(repository) is False
    (repository / "new.txt").write_text("git does not know this")
    assert is_dirty(repository) is False
    (repository / "train.py").write_text("changed\n")
    assert is_dirty(repository) is True


@needs_git
def test_no_program_of_the_repository_runs(repository: Path) -> None:
    hook = repository / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {repository}/was-run\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    assert is_dirty(repository) is False
    assert not (repository / "was-run").exists()


def test_a_git_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    check = DirtyCheck(tmp_path)
    check.start()
    until = time.monotonic() + 50
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.005)
    began = time.monotonic()
    assert check.close() is None
    assert time.monotonic() - began < 10
    check._thread.join(10)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_process_is_dead_once_it_has_ended_and_not_before() -> None:
    code = "from traintrace.runs.liveness import describe_process as d; print(d(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        record = eval(process.stdout.readline())
        assert not is_dead(record)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(record), "a zombie is dead"
    assert is_dead(record)


def test_another_process_with_the_same_number_does_not_bring_it_back() -> None:
    record = describe_process()
    assert record is not None
    assert not is_dead(record)
    assert is_dead(record | {"started": int(record["started"]) - 1})


def test_of_another_machine_nothing_is_known() -> None:
    record = describe_process()
    assert record is not None
    elsewhere = record | {"started": 1, "machine": "0123456789abcdef"}
    for unknown in (elsewhere, None, {}, {"pid": 1}, "text", {"pid": "1"}):
        assert not is_dead(unknown)


@needs_git
def test_git_is_asked_without_a_pipe(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A loader's worker that is forked while git starts would inherit it, and training would wait for
    # that worker at its end.
    def pipe() -> NoReturn:
        raise AssertionError("a pipe was opened")

    monkeypatch.setattr(os, "pipe", pipe)
    assert is_dirty(repository) is False


def test_the_processor_has_its_name_and_other_systems_none_that_hurts(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: AMD  EPYC 7763\nmodel name\t: no\n", "utf-8")
    assert processor_name(cpuinfo) == "AMD EPYC 7763"
    found = processor_name(tmp_path / "none")
    assert found is None or found


def test_only_variables_of_the_list_are_recorded_and_no_path() -> None:
    around = {
        "OMP_NUM_THREADS": "4",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "NCCL_DEBUG": "/home/me/secret",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    assert speed_flags(around) == {
        "OMP_NUM_THREADS": "4",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "NCCL_DEBUG": "set",
    }
