"""Reading trace files: whole, packed, cut, foreign, too large, and with odd events in them."""

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.labs.kineto import BASE_NS, GEMM, KinetoFile
from traintrace.errors import RunReadError
from traintrace_reporting.traces.columns import nanoseconds
from traintrace_reporting.traces.kineto import read_trace
from traintrace_reporting.traces.places import given_traces, own_traces


def some(count: int = 5) -> KinetoFile:
    file = KinetoFile(rank=2, world_size=4)
    for number in range(count):
        file.kernel(10.125 * number, 10.125 * number + 4.001)
    return file


def test_times_are_exact_to_the_nanosecond_at_the_size_of_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1790857026123456.789, "dur": 1.003}],'
        ' "baseTimeNanoseconds": 7}',
        encoding="utf-8",
    )
    trace = read_trace(path)
    assert trace.start_ns.tolist() == [1_790_857_026_123_456_789 + 7]
    assert trace.duration_ns.tolist() == [1_003]


@given(st.integers(-(10**18), 10**18))
def test_microseconds_of_any_size_become_nanoseconds_exactly(ns: int) -> None:
    exact = Decimal(ns) / 1000
    assert nanoseconds(f"{exact:f}") == ns
    assert nanoseconds(f"{exact:E}") == ns


@pytest.mark.parametrize(
    "value", [None, True, "", "soon", "NaN", "Infinity", "1e99", [], {}, "--1", "1.2.3"]
)
def test_what_is_no_number_is_no_time(value: Any) -> None:
    assert nanoseconds(value) is None


def test_rank_device_stream_and_correlation_come_from_the_file(tmp_path: Path) -> None:
    trace = some().read(tmp_path)
    assert (trace.rank, trace.world_size) == (2, 4)
    assert trace.device.tolist() == [0] * 5
    assert trace.stream.tolist() == [7] * 5
    assert trace.correlation.tolist() == [1, 2, 3, 4, 5]
    assert trace.start_ns[1] == BASE_NS + 10_125


@pytest.mark.parametrize("layout", ["indented", "an array", "events last", "wide"])
def test_the_layout_of_the_file_does_not_matter(layout: str, tmp_path: Path) -> None:
    file, path = some(2_000), tmp_path / "trace.json"
    content: Any = file.head | {"traceEvents": file.events}
    if layout == "an array":
        content = file.events
    elif layout == "events last":
        content = {"a": {"deep": [1, 2, {"x": "]"}]}, **content, "z": "\\u007d"}
    text = json.dumps(content, indent=2 if layout == "indented" else None)
    if layout == "wide":  # an event far longer than what is read at once
        text = text.replace('"stream": 7', '"note": "' + "x" * 3_000_000 + '", "stream": 7', 1)
    path.write_text(text, encoding="utf-8")
    trace = read_trace(path)
    assert len(trace.name) == 2_000
    assert trace.damage is None


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_was_cut_is_read_up_to_there_and_says_so(packed: bool, tmp_path: Path) -> None:
    whole = some(400).text().encode()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(whole)[:-200] if packed else whole[: len(whole) // 2])
    trace = read_trace(path)
    assert 100 <= len(trace.name) < 400
    assert trace.damage is not None
    assert "end" in trace.damage


def test_damage_in_the_middle_ends_the_reading_there(tmp_path: Path) -> None:
    text = some(100).text()
    middle = text.index('"ph"', len(text) // 2)
    path = tmp_path / "broken.json"
    path.write_text(text[:middle] + "#" + text[middle:], encoding="utf-8")
    trace = read_trace(path)
    assert 40 <= len(trace.name) <= 60
    assert trace.damage is not None
    assert "character" in trace.damage


def test_packed_files_of_several_members_are_read_whole(tmp_path: Path) -> None:
    text = some(50).text().encode()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text[:700]) + gzip.compress(text[700:]))
    trace = read_trace(path)
    assert (len(trace.name), trace.damage) == (50, None)


def test_odd_events_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    file = some(2)
    odd: list[Any] = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": "12.5", "dur": "1"},  # text, no pid, no tid
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": float("nan"), "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "dur": 1},
        {"ph": "X", "cat": "kernel", "name": 5, "ts": 1, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 10**17, "dur": 10**17},
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        {"ph": "X", "cat": "python_function", "name": "f", "ts": 0, "dur": 1},
        {"ph": "i", "name": "Iteration Start", "ts": 0},
        {},
        7,
        None,
    ]
    file.events += odd
    trace = file.read(tmp_path)
    assert len(trace.name) == 2
    assert trace.skipped == {
        "no time, length or name": 3,
        "a negative length": 1,
        "an impossible time": 1,
        "no objects": 2,
        "on no device": 1,
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"  ", "no trace"),
        (b"hello", "no trace"),
        (b'{"schema_version": "0.3", "verdict": {}}', "no trace"),
        (b'{"traceEvents": 5}', "no trace"),
        (b'{"traceEvents": []}', "no trace"),
        (b'[{"ph": "B", "name": "x", "ts": 1}]', "holds no operator"),
        (b"[" * 100_000, "no trace"),
        (b"\x00\xff\xfe", "no trace"),
        (b"\x1f\x8bnot gzip at all", "no trace"),
        (b'{"traceEvents": [' + b"9" * 10_000 + b"]}", "no trace"),
    ],
)
def test_what_is_no_trace_is_named(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(RunReadError, match=told) as raised:
        read_trace(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_a_file_beyond_the_limit_is_refused_after_unpacking_too(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "large.json.gz"
    path.write_bytes(pack(some(1).text().encode()[:-2] + b" " * 3_000_000 + b"]}"))
    with pytest.raises(RunReadError, match="larger than 2 MB"):
        read_trace(path, largest_bytes=2 * 2**20)
    assert len(read_trace(path).name) == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunReadError, match=r"nowhere\.json: No such file"):
        read_trace(tmp_path / "nowhere.json")


def test_a_folder_gives_its_traces_with_ranks_from_their_names(tmp_path: Path) -> None:
    for rank in (0, 1):
        file = KinetoFile()
        file.kernel(0, 1, GEMM)
        file.write(tmp_path / f"worker-rank{rank}.pt.trace.json")
    assert [trace.rank for trace in given_traces([tmp_path])] == [0, 1]
    with pytest.raises(RunReadError, match="one rank"):
        given_traces([tmp_path, tmp_path / "worker-rank1.pt.trace.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunReadError, match="no trace"):
        given_traces([tmp_path / "empty"])


def test_a_runs_own_traces_are_those_of_its_latest_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for name in ("rank-00000.json.gz", "rank-00000.a1.json.gz", "rank-00001.a1.json.gz"):
        (folder / name).write_bytes(gzip.compress(some().text().encode()))
    (folder / "rank-00002.a1.json.gz").write_bytes(b"")
    traces, notes = own_traces(tmp_path)
    assert [(trace.label, trace.rank) for trace in traces] == [
        ("rank-00000.a1.json.gz", 0),
        ("rank-00001.a1.json.gz", 1),
    ]
    assert len(notes) == 1
    assert "rank-00002" in notes[0]
    assert str(tmp_path) not in notes[0]


def test_one_file_is_not_taken_for_two_ranks(tmp_path: Path) -> None:
    file = KinetoFile()
    file.kernel(0, 1)
    path = file.write(tmp_path / "trace.json")
    for again in (path, tmp_path, tmp_path / "." / "trace.json"):
        with pytest.raises(RunReadError, match="given twice"):
            given_traces([path, again])


def test_where_no_event_says_its_device_all_are_on_one(tmp_path: Path) -> None:
    file = KinetoFile()
    for start in (0, 10):
        file.events.append({"ph": "X", "cat": "kernel", "name": "k", "ts": start, "dur": 5})
    trace = file.read(tmp_path)
    assert (trace.devices, trace.skipped) == ((0,), {})


def test_lengths_that_would_overflow_when_added_up_are_no_lengths(tmp_path: Path) -> None:
    """Kineto wrote such lengths for kernels whose end it did not know."""
    file = KinetoFile()
    file.kernel(0, 1)
    for number in range(8):
        file.events.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": "k",
                "ts": number,
                "dur": 2**50,
                "pid": 0,
                "tid": 7,
            }
        )
    trace = file.read(tmp_path)
    assert len(trace.name) == 1
    assert trace.skipped == {"an impossible time": 8}
