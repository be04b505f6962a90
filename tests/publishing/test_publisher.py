"""The publisher and what is fetched: nobody waits for a place, and what arrived is what is read."""

import sqlite3
import threading
import time
import warnings
from pathlib import Path

import pytest

from tests.labs.published import STEM, WrittenRank, close, contents, last_steps, publisher_of, until
from traintrace.faults import FaultReporter, TraintraceWarning
from traintrace.publishing.fetch import fetch_run
from traintrace.publishing.location import location
from traintrace.publishing.place import Location, LocationError
from traintrace.runs.folder import rank_files

SOON_S = 30.0


def test_rows_arrive_while_the_rank_is_at_work_and_the_whole_file_at_its_end(
    rank: WrittenRank, place: Location
) -> None:
    faults = FaultReporter()
    publisher = publisher_of(rank, place, faults)
    publisher.start()
    until(lambda: place.files() == [f"segments/{STEM}/00001.sqlite.gz"])
    rank.flush()
    until(lambda: rank.step in last_steps(place))
    close(rank, publisher)
    assert publisher.close()
    assert place.files() == [f"ranks/{STEM}.sqlite"]
    assert contents(fetch_run(place.text) / f"ranks/{STEM}.sqlite") == contents(rank.path)
    assert faults.messages == []


def test_a_killed_rank_is_put_together_from_what_arrived(
    rank: WrittenRank, place: Location
) -> None:
    publisher = publisher_of(rank, place, FaultReporter())
    publisher.start()
    until(lambda: place.files())
    rank.flush()
    until(lambda: rank.step in last_steps(place))
    publisher._given_up.set()  # as if the process were gone
    publisher._ending.set()
    folder = fetch_run(place.text)
    assert rank_files(folder) == [str(folder / f"ranks/{STEM}.sqlite")]
    found, whole = contents(folder / f"ranks/{STEM}.sqlite"), contents(rank.path)
    assert found == whole


def test_small_files_arrive_soon(rank: WrittenRank, place: Location) -> None:
    publisher = publisher_of(rank, place, FaultReporter(), interval_s=60.0)
    publisher.put("manifest.json", b"old")
    publisher.start()
    publisher.put("manifest.json", b"{}")
    until(
        lambda: (
            (place / "manifest.json").exists() and (place / "manifest.json").read_bytes() == b"{}"
        )
    )
    close(rank, publisher)
    publisher.put("manifest.json", b"{1}")
    assert publisher.close()
    assert (place / "manifest.json").read_bytes() == b"{1}"


class Unreliable:
    """Lets writing to a place fail, or hang, until it is told to work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.works = threading.Event()
        self.hangs = False
        self.tried = 0
        kind = type(location("/x"))
        write = kind.write_bytes

        def write_bytes(place: Location, data: bytes) -> None:
            self.tried += 1
            if self.hangs:
                self.works.wait(SOON_S)
            elif not self.works.is_set():
                raise LocationError(f"no route to host (try {self.tried})")
            write(place, data)

        monkeypatch.setattr(kind, "write_bytes", write_bytes)


def test_a_failing_place_gives_one_warning_and_is_tried_again(
    rank: WrittenRank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, faults = Unreliable(monkeypatch), FaultReporter()
    place = location(tmp_path / "run")
    publisher = publisher_of(rank, place, faults)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        publisher.start()
        until(lambda: remote.tried >= 4)
    assert [entry.category for entry in caught] == [TraintraceWarning]
    assert "no route to host" in faults.messages[0]
    assert "it is tried again. If this machine is lost" in faults.messages[0]
    remote.works.set()
    until(lambda: place.files())
    close(rank, publisher)
    assert publisher.close()
    assert len(faults.messages) == 1


@pytest.mark.filterwarnings("ignore::traintrace.faults.TraintraceWarning")
def test_a_place_that_hangs_holds_up_neither_the_writer_nor_the_end(
    rank: WrittenRank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, faults = Unreliable(monkeypatch), FaultReporter()
    remote.hangs = True
    place = location(tmp_path / "run")
    publisher = publisher_of(rank, place, faults)
    publisher.start()
    until(lambda: remote.tried)
    for _ in range(5):
        rank.flush()
    close(rank, publisher)
    began = time.monotonic()
    assert not publisher.close(deadline_s=0.1)
    assert time.monotonic() - began < SOON_S / 2
    assert len(faults.messages) == 1
    assert (
        f"they are in {rank.path}: copy that to {place}/ranks/{STEM}.sqlite" in faults.messages[0]
    )
    assert rank.path.exists()
    remote.works.set()


@pytest.mark.filterwarnings("ignore::traintrace.faults.TraintraceWarning")
@pytest.mark.parametrize("is_ending", [False, True])
def test_what_another_process_published_is_not_touched(
    rank: WrittenRank, place: Location, is_ending: bool
) -> None:
    (place / f"ranks/{STEM}.sqlite").write_bytes(b"theirs")
    faults = FaultReporter()
    publisher = publisher_of(rank, place, faults)
    if is_ending:  # so it is found out with the last rows
        publisher._ending.set()
    publisher.start()
    close(rank, publisher)
    assert not publisher.close()
    assert (place / f"ranks/{STEM}.sqlite").read_bytes() == b"theirs"
    assert len(faults.messages) == 1
    assert f"the rows of this one stay in {rank.path}" in faults.messages[0]


def test_an_answer_that_got_lost_on_the_first_segment_is_not_somebody_else(
    rank: WrittenRank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = location(tmp_path / "run")
    kind = type(place)
    failed: list[Location] = []
    write = kind.write_bytes

    def write_bytes(self: Location, data: bytes) -> None:
        write(self, data)
        if not failed:
            failed.append(self)
            raise LocationError("connection reset")

    monkeypatch.setattr(kind, "write_bytes", write_bytes)
    faults = FaultReporter()
    publisher = publisher_of(rank, place, faults)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        publisher.start()
        until(lambda: failed)
        close(rank, publisher)
        assert publisher.close()
    assert contents(fetch_run(place.text) / f"ranks/{STEM}.sqlite") == contents(rank.path)


def test_rows_in_memory_after_the_disk_failed_are_published_at_the_end(
    rank: WrittenRank, place: Location
) -> None:
    publisher = publisher_of(rank, place, FaultReporter())
    publisher.start()
    until(lambda: place.files())
    rank.writer._continue_in_memory(sqlite3.OperationalError("disk full"))
    rank.flush()
    close(rank, publisher)
    assert publisher.close()
    rank.writer.release()
    assert last_steps(place) == [rank.step]


def test_a_log_that_stayed_beside_the_file_is_published_with_it(
    rank: WrittenRank, place: Location
) -> None:
    publisher = publisher_of(rank, place, FaultReporter())
    publisher.start()
    reader = sqlite3.connect(rank.path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM steps").fetchone()
    rank.flush()
    assert rank.writer.close() is not None
    assert publisher.close()
    reader.close()
    assert last_steps(place) == [rank.step]
    assert place.files() == [f"ranks/{STEM}.sqlite"]


def test_cutting_never_makes_the_writer_wait(rank: WrittenRank, place: Location) -> None:
    """All the while that the publisher reads, flushes get through: its connection holds no lock that counts."""
    publisher = publisher_of(rank, place, FaultReporter(), interval_s=0.001)
    publisher.start()
    rank.writer.run("PRAGMA busy_timeout = 0")
    for _ in range(60):
        rank.flush()
    close(rank, publisher)
    assert publisher.close()
