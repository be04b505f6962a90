"""A place or a job's id that was used before: what is over is never written into by ranks that are new."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.test_runfolder import make_manifest
from tests.labs.coresessions import open_session, slurm, start, step
from traintrace import open_run
from traintrace.faults import TraintraceWarning
from traintrace.ports import Ports
from traintrace.registry import REGISTRY
from traintrace.runs.claims import claim_folder
from traintrace.runs.earlier import is_over
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import Manifest
from traintrace.store import writer

RUN = """
session = open_session(folder, print_report=False, wait_for_ranks_s=60.0)
step(session, 3)
session.flush()
if "die" in sys.argv:
    os.kill(os.getpid(), 9)
session.finish("completed")
"""


@pytest.fixture(autouse=True)
def first_run_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "started", 0)


def ranks_of(folder: Path) -> list[int]:
    return [rank.rank for rank in open_run(folder).facts([]).ranks]


def by_hand(rank: int, world: int, place: Path) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(world), "TRAINTRACE_RUN": str(place)}


@pytest.mark.parametrize("end", ["ends", "die"])
@pytest.mark.parametrize("shared", ["place", "job"])
def test_more_ranks_than_an_earlier_launch_had_do_not_land_in_its_record(
    tmp_path: Path, end: str, shared: str
) -> None:
    for world in (1, 3) if shared == "place" else (2, 3):
        variables = [
            by_hand(rank, world, tmp_path / "mine") if shared == "place" else slurm(rank, world)
            for rank in range(world)
        ]
        started = [start(RUN, tmp_path, end, **each) for each in variables]
        for one in started:
            one.communicate(timeout=60)
        time.sleep(0.2)  # starts of processes are told in hundredths of a second
    first = "mine" if shared == "place" else "test-slurm-123.0"
    assert ranks_of(tmp_path / first) == list(range(1 if shared == "place" else 2))
    assert ranks_of(tmp_path / f"{first}-2") == [0, 1, 2]


def test_a_requeued_job_goes_on_with_its_run(tmp_path: Path) -> None:
    for variables in ({}, {"SLURM_RESTART_COUNT": "1"}):
        ranks = [start(RUN, tmp_path, "ends", **slurm(r, 2), **variables) for r in range(2)]
        for rank in ranks:
            rank.communicate(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["test-slurm-123.0"]
    found = open_run(tmp_path / "test-slurm-123.0").facts([]).ranks
    assert sorted((rank.attempt, rank.rank) for rank in found) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_rank_that_comes_when_the_others_have_ended_joins_them(tmp_path: Path) -> None:
    """All ranks of one launch began before its first one ended."""
    late = start("sys.stdin.readline()" + RUN, tmp_path, **by_hand(1, 2, tmp_path / "mine"))
    first = start(RUN.replace("60.0", "0.1"), tmp_path, **by_hand(0, 2, tmp_path / "mine"))
    first.communicate(timeout=60)
    assert Manifest.read(tmp_path / "mine").status == "completed"
    late.communicate(timeout=60)
    assert ranks_of(tmp_path / "mine") == [0, 1]


def test_a_run_that_a_launcher_has_just_made_is_not_over(tmp_path: Path) -> None:
    folder = claim_folder(tmp_path, "run", "abc")
    running = make_manifest(folder, status="running", ended_at=None, started_at=1.0)
    assert not is_over(str(folder), running, Identity())
    assert not is_over(str(folder), None, Identity())
    assert is_over(str(folder), make_manifest(folder), Identity())
    assert not is_over(str(folder), make_manifest(folder), Identity(attempt=1))


@pytest.mark.parametrize(
    ("place", "runs"), [("file/mine", 2), ("file", 1), ("nowhere://user:secret@host/mine", 2)]
)
def test_a_place_that_cannot_be_written_costs_no_trace(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    faults_are_reported: None,
    place: str,
    runs: int,
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TRAINTRACE_RUN", place if "://" in place else str(tmp_path / place))
    for _ in range(runs):
        with pytest.warns(TraintraceWarning, match="cannot write a run") as caught:
            session = open_session(tmp_path)
        step(session, 2)
        session.finish("completed")
        (message,) = [str(one.message) for one in caught]
        assert str(session.folder) in message
        assert "secret" not in message
        (rank,) = open_run(session.folder).facts([]).ranks
        assert rank.totals.steps == 2


def test_a_place_with_characters_that_no_name_has_is_a_run_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a\nb\x1b[31m"
    monkeypatch.setenv("TRAINTRACE_RUN", str(place))
    open_session(tmp_path).finish("completed")
    assert os.listdir(tmp_path) == [place.name]
    assert Manifest.read(place).name == "a-b-[31m"


@pytest.mark.parametrize("what", ["database", "manifest"])
def test_a_folder_that_can_hold_no_database_or_no_manifest_costs_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults_are_reported: None, what: str
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    connect, write = writer._connect_for_writing, Manifest.write

    def refuse_database(location: str) -> sqlite3.Connection:
        if str(tmp_path / "runs") in location:
            raise sqlite3.OperationalError("locking protocol")
        return connect(location)

    def refuse_manifest(manifest: Manifest) -> None:
        if manifest.folder.is_relative_to(tmp_path / "runs"):
            raise OSError(28, "No space left on device")
        write(manifest)

    if what == "database":
        monkeypatch.setattr(writer, "_connect_for_writing", refuse_database)
    else:
        monkeypatch.setattr(Manifest, "write", refuse_manifest)
    with pytest.warns(TraintraceWarning, match="cannot write a run"):
        session = open_session(tmp_path / "runs")
    step(session, 2)
    session.finish("completed")
    assert session.folder.is_relative_to(tmp_path / "tmp")
    (rank,) = open_run(session.folder).facts([]).ranks
    assert (rank.status, rank.totals.steps) == ("completed", 2)
    assert not list((tmp_path / "runs").rglob("rank-*"))


def test_ranks_that_torchrun_starts_anew_without_counting_it_meet_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since a node came: there are more of them, and the store has told the run of before."""
    told: dict[int, str] = {}

    def agree(number: int, own_mark: str, make: Callable[[], str]) -> str:
        if number not in told:
            told[number] = make()
        return told[number]

    monkeypatch.setattr("traintrace.runs.earlier.age_of_process_s", lambda: 0.0)
    for world in (2, 3):
        sessions = []
        for rank in range(world):
            monkeypatch.setattr(REGISTRY, "started", 0)
            who = Identity(rank, world_size=world, launcher="torchrun")
            ports = Ports(agree_on_run=agree)
            sessions.append(open_session(tmp_path, who, name="run", ports=ports))
            REGISTRY.remove(sessions[-1])
        for session in reversed(sessions):
            session.finish("interrupted")
    assert ranks_of(tmp_path / "run") == [0, 1]
    assert ranks_of(tmp_path / "run-2") == [0, 1, 2]
