"""A run that is published to an S3-compatible server; needs s3fs and moto, which are installed nowhere by default.

pip install s3fs "moto[server]" && python -m pytest tests/nodes/test_s3.py
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

s3fs = pytest.importorskip("s3fs")
threaded = pytest.importorskip("moto.server")

from tests.labs.nodes import Machine, job  # noqa: E402 - only where the server is there
from traintrace.publishing.claims import claim_place  # noqa: E402
from traintrace.publishing.fetch import fetch_run  # noqa: E402
from traintrace.publishing.location import location  # noqa: E402
from traintrace.publishing.place import LocationError  # noqa: E402

SCRIPT = Path(__file__).with_name("training.py")
STEPS = 12

pytestmark = [
    pytest.mark.long,
    # Both libraries say on import that they will change.
    pytest.mark.filterwarnings("default::DeprecationWarning"),
]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    server = threaded.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "reader").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "reader"))
    s3fs.S3FileSystem.clear_instance_cache()  # which knows the server of the test before
    name = f"bucket-{port}"  # all servers of a process share what they hold
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}/runs"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_a_job_of_two_ranks_is_published(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    machine = Machine((), "127.0.0.1", "lo", tmp_path / "disk")
    with job([machine], SCRIPT, bucket, "--steps", STEPS) as running:
        ((code, error),) = running.wait()
    assert code == 0, error
    place = location(f"{bucket}/two-nodes")
    ranks = ["ranks/rank-00000.sqlite", "ranks/rank-00001.sqlite"]
    summary_files = ["final_summary.json", "final_summary.txt", "manifest.json"]
    assert place.files() == [".run-id", *summary_files, *ranks]
    assert machine.leftovers == []
    summary = json.loads((place / "final_summary.json").read_bytes())
    assert summary["run"]["ranks_seen"] == [0, 1]
    assert summary["counts"]["steps"] == STEPS
    folder = fetch_run(place.text)
    assert [path.name for path in sorted((folder / "ranks").iterdir())] == [
        Path(name).name for name in ranks
    ]
    report = subprocess.run(
        [sys.executable, "-m", "traintrace_reporting", "report", place.text],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TMPDIR": str(tmp_path / "reader")},
    )
    assert "two-nodes" in report.stdout


def test_names_are_claimed_by_id(bucket: str) -> None:
    assert claim_place(bucket, "a", "1") == claim_place(bucket, "a", "1") == f"{bucket}/a"
    assert claim_place(bucket, "a", "2") == f"{bucket}/a-2"


def test_what_the_service_says_is_an_error_of_files(bucket: str) -> None:
    place = location("s3://no-such-bucket/x")
    with pytest.raises((LocationError, FileNotFoundError), match=r"s3://no-such-bucket"):
        place.write_bytes(b"")
    (location(bucket) / "a/b").write_bytes(b"1")
    assert not (location(bucket) / "a/b").create(b"2")
    (location(bucket) / "a").remove()
    assert location(bucket).files() == []
