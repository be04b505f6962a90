"""Places: the same answers from a folder and through fsspec; and which paths are other machines'."""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import fsspec  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from traintrace.publishing.claims import claim_place, notice_of
from traintrace.publishing.filesystems import network_file_system
from traintrace.publishing.location import is_url, location
from traintrace.publishing.patience import within
from traintrace.publishing.place import Location, LocationError
from traintrace.runs.places import read_manifest


@pytest.fixture(params=["path", "file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    urls = {
        "path": str(tmp_path / "a b"),
        "file": f"file://{tmp_path}/a%20b",
        "memory": f"memory://{tmp_path.name}/a b",
    }
    yield location(urls[request.param])
    fsspec.filesystem("memory").store.clear()


def test_a_file_comes_back(place: Location) -> None:
    file = place / "ranks/one.bin"
    assert not file.exists()
    file.write_bytes(b"1")
    file.write_bytes(b"22")
    assert file.exists()
    assert file.read_bytes() == b"22"
    assert file.modified() or 0 > 1e9
    assert (file.name, file.parent.text) == ("one.bin", (place / "ranks").text)


def test_files_go_up_and_down_whole(place: Location, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 3_000_000)
    (place / "big").upload(source)
    (place / "big").download(target)
    assert target.read_bytes() == source.read_bytes()
    assert place.files() == ["big"]


def test_files_below_are_listed_without_temporary_ones(place: Location) -> None:
    for name in ("b", "a/2", "a/1", ".c.99.tmp"):
        (place / name).write_bytes(b"")
    assert place.files() == ["a/1", "a/2", "b"]
    assert (place / "a").files() == ["1", "2"]
    assert (place / "nothing").files() == []


def test_a_file_is_created_once(place: Location) -> None:
    assert (place / "id").create(b"mine")
    assert not (place / "id").create(b"yours")
    assert (place / "id").read_bytes() == b"mine"


def test_removing_takes_all_below_and_nothing_twice(place: Location) -> None:
    (place / "a/b/c").write_bytes(b"")
    (place / "a").remove()
    (place / "a").remove()
    assert place.files() == []


def test_what_is_not_there_is_an_error_of_files(place: Location) -> None:
    with pytest.raises(FileNotFoundError):
        (place / "nothing").read_bytes()


def test_the_text_gives_the_place_again(place: Location) -> None:
    (place / "x").write_bytes(b"y")
    assert (location(place.text) / "x").read_bytes() == b"y"


def test_a_failed_upload_leaves_the_old_file_and_no_other(place: Location, tmp_path: Path) -> None:
    (place / "f").write_bytes(b"old")
    with pytest.raises(OSError, match=r"."):
        (place / "f").upload(tmp_path / "no such file")
    assert (place / "f").read_bytes() == b"old"
    assert place.files() == ["f"]
    if place.local:
        assert [path.name for path in place.local.iterdir()] == ["f"]


def test_urls_are_told_from_paths() -> None:
    urls = ("s3://b/k", "file:///x", "memory://x", "simplecache::s3://b")
    paths: tuple[str | Path, ...] = ("runs", "/a/b", "./c:/d", "C:\\runs", Path("s3://x"))
    assert [is_url(text) for text in urls] == [True] * len(urls)
    assert [is_url(text) for text in paths] == [False] * len(paths)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(LocationError, match=r"s3://bucket/runs.*pip install s3fs"):
        location("s3://bucket/runs")


def test_an_unknown_scheme_is_named_without_passwords() -> None:
    with pytest.raises(LocationError, match=r"^zzz://host/x: .*zzz"):
        location("zzz://user:secret@host/x")


class MovingFiles(MemoryFileSystem):  # type: ignore[misc]  # untyped
    """A file system on which a half-written file can be seen, and nothing moves over a file."""

    protocol = ("sftp",)
    written: ClassVar[list[str]] = []

    def pipe_file(self, path: str, value: bytes, **options: object) -> None:
        self.written.append(path)
        super().pipe_file(path, value, **options)

    def mv(self, one: str, other: str, **options: object) -> None:
        assert not self.exists(other)
        super().mv(one, other, **options)


def test_where_files_can_be_seen_half_written_they_are_moved() -> None:
    fsspec.register_implementation("sftp", MovingFiles, clobber=True)
    file = location("sftp:///runs/x")
    file.write_bytes(b"1")
    file.write_bytes(b"2")
    assert file.read_bytes() == b"2"
    assert all(path.endswith(".tmp") for path in MovingFiles.written)
    assert file.parent.files() == ["x"]
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(params=["file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    yield location(tmp_path.as_uri() if request.param == "file" else "memory://runs")
    fsspec.filesystem("memory").store.clear()


def test_one_id_gets_one_place_and_another_id_the_next(root: Location) -> None:
    found: dict[str, set[str]] = {}
    for run_id in ["a", "a", "b", "a", "b", "c"] * 2:
        found.setdefault(run_id, set()).add(claim_place(root.text, "my run", run_id))
    assert found == {
        "a": {(root / "my-run").text},
        "b": {(root / "my-run-2").text},
        "c": {(root / "my-run-3").text},
    }


def test_a_folder_that_is_no_run_is_not_joined(root: Location) -> None:
    (root / "run/notes.txt").write_bytes(b"mine")
    assert claim_place(root.text, "run", "a") == (root / "run-2").text


def test_a_place_that_hangs_is_given_up() -> None:
    released = threading.Event()
    with pytest.raises(LocationError, match=r"s3://b did not answer within 0\.05 s"):
        within(0.05, "s3://b", lambda: released.wait(20))
    released.set()


def test_a_run_s_manifest_at_a_place_that_hangs_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()
    place = location("memory://runs/x")
    monkeypatch.setattr(type(place), "read_bytes", lambda self: released.wait(20))
    monkeypatch.setattr("traintrace.runs.places.ANSWER_S", 0.05)
    began = time.monotonic()
    assert read_manifest(place.text) is None
    assert time.monotonic() - began < 15
    released.set()


def test_a_place_may_raise_its_own_error() -> None:
    with pytest.raises(FileNotFoundError):
        within(5, "x", lambda: Path("/no/such").read_bytes())


MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:30 / /scratch rw shared:1 master:2 - lustre 10.0.0.1@tcp:/fs rw
31 30 0:31 / /scratch/local rw - xfs /dev/nvme0n1 rw
32 27 0:32 / /home rw - nfs4 server:/home rw,vers=4.2
33 27 0:33 / /mnt/my\040share rw - cifs //host/share rw
34 27 0:34 / /bucket rw - fuse.s3fs s3fs rw
35 27 0:35 / /usb rw - fuseblk /dev/sdb1 rw
36 27 0:36 /data/x /bind rw - beegfs beegfs_nodev rw
37 27 0:37 / /tank rw - zfs tank rw
38 27 0:38 / /layer rw - overlay overlay rw
39 27 0:39 / /twice rw - nfs a:/b rw
40 39 0:40 / /twice rw - tmpfs tmpfs rw
41 27 0:41 / /jfs rw - fuse.juicefs JuiceFS:x rw
42 27 0:42 / /gcs rw - fuse.gcsfuse bucket rw
43 27 0:43 / /vm rw - 9p share rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/x/runs", None),
        ("/scratch/me/runs", "lustre"),
        ("/scratchy/runs", None),
        ("/scratch/local/runs", None),
        ("/home", "nfs4"),
        ("/home/me/not/there/yet", "nfs4"),
        ("/mnt/my share/runs", "cifs"),
        ("/bucket/runs", "fuse.s3fs"),
        ("/usb/runs", None),
        ("/bind/runs", "beegfs"),
        ("/tank/runs", None),
        ("/layer/runs", None),
        ("/twice/runs", None),
        ("/jfs/runs", "fuse.juicefs"),
        ("/gcs/runs", "fuse.gcsfuse"),
        ("/vm/runs", "9p"),
    ],
)
def test_network_file_systems_are_told_by_the_mount(path: str, kind: str | None) -> None:
    assert network_file_system(path, MOUNTS) == kind


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/scratch/me")
    assert network_file_system(tmp_path / "link/runs", MOUNTS) == "lustre"


def test_where_nothing_is_known_a_path_is_local(tmp_path: Path) -> None:
    assert network_file_system("/anything", "") is None
    assert network_file_system(tmp_path) is None


def test_a_network_file_system_is_worth_one_line_of_notice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert notice_of(str(tmp_path / "runs/x")) == ""
    monkeypatch.setattr("traintrace.publishing.claims.network_file_system", lambda path: "nfs4")
    assert "network file system (nfs4)" in notice_of(str(tmp_path / "runs/x"))
    assert notice_of("s3://runs/x") == notice_of(f"file://{tmp_path}/x") == ""
