"""What is read of a published run: whatever arrived, and what this machine has itself."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.labs.published import STEM, WrittenRank, close, contents, publisher_of, until
from traintrace.errors import RunReadError
from traintrace.faults import FaultReporter
from traintrace.publishing.fetch import fetch_run
from traintrace.publishing.leftovers import publish_leftovers, spooled_ranks
from traintrace.publishing.location import location
from traintrace.publishing.place import Location
from traintrace.publishing.publisher import Publisher
from traintrace.publishing.spool import clear_spool, own_folder, spool_folder
from traintrace.publishing.waiting import silent_ranks
from traintrace.runs.identity import Identity
from traintrace.store.writer import RankWriter


def test_a_run_of_this_machine_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "run/ranks").mkdir(parents=True)
    assert fetch_run(tmp_path / "run") == tmp_path / "run"


@pytest.mark.parametrize("url", ["memory://nothing/here", "file:///no/such/run", "/no/such/run"])
def test_no_run_is_named(url: str) -> None:
    with pytest.raises(RunReadError, match=r"no run here|no such run folder"):
        fetch_run(url)


def test_what_did_not_change_is_not_fetched_again(rank: WrittenRank) -> None:
    place = location("memory://runs/run")
    close_into(rank, place)
    (place / "manifest.json").write_bytes(b"{}")
    folder = fetch_run(place.text)
    before = (folder / "manifest.json").stat()
    assert fetch_run(place.text) == folder
    assert (folder / "manifest.json").stat().st_ino == before.st_ino
    (place / "manifest.json").write_bytes(b"{1}")
    (place / f"ranks/{STEM}.sqlite").remove()
    fetch_run(place.text)
    assert (folder / "manifest.json").read_bytes() == b"{1}"
    assert not list((folder / "ranks").iterdir())


def test_what_another_process_is_fetching_stays_and_what_a_killed_one_left_goes(
    rank: WrittenRank,
) -> None:
    place = location("memory://runs/run")
    close_into(rank, place)
    folder = fetch_run(place.text)
    young, old = (folder / f"ranks/.{STEM}.sqlite.{pid}.tmp" for pid in (1, 2))
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (1.0, 1.0))
    fetch_run(place.text)
    assert young.exists()
    assert not old.exists()


def test_a_spool_of_another_user_is_not_read(
    rank: WrittenRank, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = location("memory://runs/run")
    (spool_folder(place) / f"ranks/{STEM}.sqlite").write_bytes(b"theirs")
    assert list(spooled_ranks(place)) == [STEM]
    user = os.getuid()
    folder = own_folder()
    monkeypatch.setattr("traintrace.publishing.spool._user_folder", lambda: folder)
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert list(spooled_ranks(place)) == []


def close_into(rank: WrittenRank, place: Location) -> None:
    publisher = publisher_of(rank, place, FaultReporter())
    publisher.start()
    close(rank, publisher)
    assert publisher.close()


def test_a_rank_between_two_segments_does_not_look_dead(rank: WrittenRank, tmp_path: Path) -> None:
    place = location(tmp_path / "run")
    publisher = publisher_of(rank, place, FaultReporter(), interval_s=60.0)
    publisher.start()
    until(lambda: place.files())
    segment = tmp_path / f"run/segments/{STEM}/00001.sqlite.gz"
    ages = {}
    for age_s in (5.0, 50.0, 100.0):
        moment = time.time() - age_s
        os.utime(segment, (moment, moment))
        file = fetch_run(place.text) / f"ranks/{STEM}.sqlite"
        ages[age_s] = round(time.time() - file.stat().st_mtime)
    close(rank, publisher)
    assert publisher.close()
    assert ages == {5.0: 0, 50.0: 0, 100.0: 40}


def test_ranks_that_have_not_published_in_time_are_named(place: Location) -> None:
    for name in ("ranks/rank-00001.sqlite", "ranks/rank-00002.a1.sqlite"):
        (place / name).write_bytes(b"")
    first = Identity(rank=0, world_size=4)
    assert silent_ranks(place, first, 0.0) == [2, 3]
    assert silent_ranks(place, Identity(rank=2, world_size=4, attempt=1), 0.0) == [0, 1, 3]


def test_the_last_rank_of_a_machine_removes_the_spool(place: Location) -> None:
    spool = spool_folder(place)
    files = [spool / f"ranks/rank-0000{rank}.sqlite" for rank in (0, 1)]
    for file in files:
        RankWriter(file).close()
    (spool / "manifest.json").write_text("{}")
    clear_spool(spool, files[0])
    assert files[1].exists()
    assert (spool / "manifest.json").exists()
    clear_spool(spool, files[1])
    assert not spool.parent.parent.exists()


def test_the_folder_for_temporary_files_is_nobody_elses_to_read() -> None:
    assert own_folder().stat().st_mode & 0o077 == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.labs.published import WrittenRank
from traintrace.publishing.location import location
from traintrace.publishing.spool import spool_folder
from traintrace.runs.liveness import describe_process

rank = WrittenRank(spool_folder(location(sys.argv[1])) / "ranks")
rank.described = {"process": describe_process()}
rank.flush()
rank.flush()
os.kill(os.getpid(), signal.SIGKILL if sys.argv[2] == "killed" else signal.SIGSTOP)
"""


def start_rank(place: Location, tmp_path: Path, how: str) -> "subprocess.Popen[bytes]":
    root = Path(__file__).parents[2]
    environment = {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": f"{root}:{root}/core"}
    command = [sys.executable, "-c", KILLED, place.text, how]
    return subprocess.Popen(command, env=os.environ | environment)


def test_what_a_killed_rank_left_on_its_machine_is_read_there_and_sent_by_who_outlives_it(
    place: Location, rank: WrittenRank, tmp_path: Path
) -> None:
    start_rank(place, tmp_path, "killed").wait()
    (left,) = spooled_ranks(place).values()
    (place / f"segments/{STEM}/00001.sqlite.gz").write_bytes(b"older")
    fetched = fetch_run(place.text) / f"ranks/{STEM}.sqlite"
    assert [row[0] for row in contents(fetched)["steps"]] == list(range(1, 15))
    other = Publisher(
        place, rank.path.rename(rank.path.with_name("rank-00004.sqlite")), lambda: other_file, FaultReporter(), 0.05
    )  # fmt: skip
    other_file = str(rank.path.with_name("rank-00004.sqlite"))
    rank.writer.close()
    other.start()
    assert other.close()
    assert place.files() == [f"ranks/{STEM}.sqlite", "ranks/rank-00004.sqlite"]
    assert not left.parents[1].exists()
    assert [
        row[0] for row in contents(fetch_run(place.text) / f"ranks/{STEM}.sqlite")["steps"]
    ] == list(range(1, 15))


def test_a_rank_that_lives_is_left_alone(place: Location, tmp_path: Path) -> None:
    process = start_rank(place, tmp_path, "stopped")
    try:
        until(lambda: has_stopped(process.pid))
        assert publish_leftovers(place) == []
        assert list(spooled_ranks(place)) == [STEM]
        assert place.files() == []
    finally:
        process.kill()
        process.wait()
    assert publish_leftovers(place) == []
    assert place.files() == [f"ranks/{STEM}.sqlite"]


def has_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"
