"""The store: what is written comes back, old files read, damaged ones are named, disks may fail."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace import accounts, facts
from traintrace.errors import NewerSchemaError, RunReadError
from traintrace.recording.rows import BookedStep
from traintrace.store.reader import RankReader
from traintrace.store.retention import Retention
from traintrace.store.schema import SCHEMA_VERSION, STEP_COLUMNS
from traintrace.store.writer import RankWriter


def make_totals(steps: int = 1, **account_ns: int) -> facts.Totals:
    return facts.Totals(
        account_ns=account_ns,
        inside_ns=dict.fromkeys(account_ns, 0),
        calls=dict.fromkeys(account_ns, 1),
        wall_ns=sum(account_ns.values()),
        start_ns=10**18,
        steps=steps,
        steps_aborted=0,
        dropped_rows=0,
        micro_batches=steps,
        samples=None,
        tokens=None,
        padded_tokens=None,
        updates_skipped=None,
        epochs=None,
        transitions=9 * steps,
        foreign_calls=0,
        unbalanced=0,
    )


def make_step(step: int, **account_ns: int) -> BookedStep:
    row = facts.StepRow(
        step=step,
        framework_step=None,
        epoch=0,
        micro_batches=1,
        samples=None,
        tokens=None,
        padded_tokens=None,
        start_ns=10**18 + step * 1000,
        open_ns=10**18 + step * 1000 + 5,
        duration_ns=1000,
        account_ns=account_ns,
        calls=dict.fromkeys(accounts.PHASES, 1),
        device_ns={},
        peak_allocated_bytes=None,
        peak_reserved_bytes=None,
        rss_bytes=123,
        flags=facts.EPOCH_FIRST,
    )
    return BookedStep(row, (facts.Span(step, "gap", False, 5, 0),), ())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(*steps: BookedStep, totals: facts.Totals | None = None) -> Path:
        path = tmp_path / "rank-00000.sqlite"
        writer = RankWriter(path)
        writer.write(steps, totals or make_totals(len(steps)))
        writer.close()
        return path

    return write


def test_absent_is_null_and_a_measured_zero_is_zero(write: Callable[..., Path]) -> None:
    reader = RankReader(str(write(make_step(1, forward=0, backward=7))))
    columns = reader.columns(["forward_ns", "backward_ns", "h2d_ns", "tokens"])
    assert columns == {"forward_ns": [0], "backward_ns": [7], "h2d_ns": [None], "tokens": [None]}
    reader.close()


@given(
    st.lists(
        st.dictionaries(st.sampled_from(accounts.STEP_ACCOUNT_NAMES), st.integers(0, 2**62)),
        max_size=8,
    )
)
@settings(max_examples=40, deadline=None)
def test_rows_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("store") / "rank-00000.sqlite"
    writer = RankWriter(path)
    steps = [make_step(number, **row) for number, row in enumerate(rows, start=1)]
    for step in steps:
        writer.write([step], make_totals(step.row.step))
    writer.close()
    reader = RankReader(str(path))
    columns = reader.columns([f"{name}_ns" for name in accounts.STEP_ACCOUNT_NAMES] + ["start_ns"])
    for index, step in enumerate(steps):
        found = {name: columns[f"{name}_ns"][index] for name in accounts.STEP_ACCOUNT_NAMES}
        assert {k: v for k, v in found.items() if v is not None} == dict(step.row.account_ns)
        assert columns["start_ns"][index] == step.row.start_ns
    assert reader.spans() == [span for step in steps for span in step.spans]
    reader.close()


def test_totals_and_rows_are_of_the_same_flush(tmp_path: Path) -> None:
    writer = RankWriter(tmp_path / "rank-00000.sqlite")
    writer.write([make_step(1)], make_totals(1, gap=5))
    writer.write([make_step(2)], make_totals(2, gap=10))
    reader = RankReader(writer.location)
    assert reader.totals().steps == len(reader.columns(["step"])["step"]) == 2
    assert dict(reader.totals().account_ns) == {"gap": 10}
    reader.close()
    writer.close()


def test_a_file_is_readable_while_it_is_written_and_after_its_writer_died(tmp_path: Path) -> None:
    writer = RankWriter(tmp_path / "rank-00000.sqlite")
    writer.write([make_step(1)], make_totals(1))
    reader = RankReader(writer.location)  # the writer never closes, as after SIGKILL
    assert reader.columns(["step"]) == {"step": [1]}
    reader.close()
    writer.release()


def test_a_closed_file_is_one_ordinary_file(write: Callable[..., Path]) -> None:
    path = write(make_step(1))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_asking_for_an_unknown_column_names_it(write: Callable[..., Path]) -> None:
    reader = RankReader(str(write()))
    with pytest.raises(KeyError, match="loss_ns"):
        reader.columns(["loss_ns"])
    reader.close()


def test_a_column_that_an_older_file_lacks_is_not_measured(write: Callable[..., Path]) -> None:
    path = write(make_step(1, forward=3))
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE steps DROP COLUMN clip_ns")
    connection.close()
    reader = RankReader(str(path))
    assert reader.columns(["clip_ns", "forward_ns"]) == {"clip_ns": [None], "forward_ns": [3]}
    reader.close()


def test_a_newer_file_is_refused_with_advice(write: Callable[..., Path]) -> None:
    path = write(make_step(1))
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(NewerSchemaError, match="upgrade traintrace"):
        RankReader(str(path))


@pytest.mark.parametrize("content", [b"", b"not a database at all, sorry" * 50])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rank-00000.sqlite"
    path.write_bytes(content)
    with pytest.raises(RunReadError, match=r"rank-00000\.sqlite"):
        RankReader(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunReadError, match="no such rank file"):
        RankReader(str(tmp_path / "rank-00009.sqlite"))


def test_a_full_disk_moves_the_rows_into_memory_and_loses_none(tmp_path: Path) -> None:
    writer = RankWriter(tmp_path / "rank-00000.sqlite")
    writer.write([make_step(1)], make_totals(1))
    pages = writer.run("PRAGMA page_count")[0][0]
    writer.run(f"PRAGMA max_page_count = {pages}")  # SQLite's own "database or disk is full"
    writer.write([make_step(number) for number in range(2, 2000)], make_totals(1999))
    assert writer.fault is not None
    assert "full" in writer.fault
    reader = RankReader(writer.location)
    assert reader.columns(["step"])["step"] == list(range(1, 2000))
    assert reader.totals().steps == 1999
    reader.close()
    writer.close()
    writer.release()


def test_a_file_that_cannot_even_be_read_any_more_is_replaced_in_memory(tmp_path: Path) -> None:
    writer = RankWriter(tmp_path / "rank-00000.sqlite")
    writer._connection.close()
    (tmp_path / "garbage").write_bytes(b"this was a disk" * 1000)
    writer._connection = sqlite3.connect(tmp_path / "garbage")
    writer.write([make_step(1)], make_totals(1))
    assert writer.fault is not None
    reader = RankReader(writer.location)
    assert reader.columns(["step"]) == {"step": [1]}
    reader.close()
    writer.release()


def test_a_rank_never_writes_into_the_file_of_an_earlier_run(write: Callable[..., Path]) -> None:
    path = write(make_step(1))
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"rank-00000\.sqlite"):
        RankWriter(path)
    assert path.read_bytes() == before


def test_a_row_takes_at_most_a_hundred_bytes_on_the_host_clock(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.sqlite"
    writer = RankWriter(path)
    milliseconds = dict(
        input_wait=3_123_456, batch_prep=12_345, forward=5_123_456, backward=9_123_456,
        optimizer=1_123_456, other=51_234,
    )  # fmt: skip
    steps = [make_step(number, **milliseconds) for number in range(1, 20_001)]
    steps = [BookedStep(step.row, (), ()) for step in steps]
    writer.write(steps, make_totals(20_000))
    writer.close()
    assert path.stat().st_size / 20_000 <= 100


def test_old_rows_fold_into_blocks_and_the_file_stops_growing(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.sqlite"
    writer = RankWriter(path)
    retention = Retention(writer, keep_first=10, keep_last=100, block=20)
    sizes = []
    for start in range(1, 3001, 50):
        rows = [make_step(step, forward=step) for step in range(start, start + 50)]
        writer.write(rows, make_totals(start + 49))
        retention.apply(start + 49)
        sizes.append(writer.run("PRAGMA page_count")[0][0])
    kept = [row[0] for row in writer.run("SELECT step FROM steps ORDER BY step")]
    assert kept[:10] == list(range(1, 11))
    assert kept[-100:] == list(range(2901, 3001))
    assert len(kept) <= 10 + 100 + 20
    folded = writer.run(
        "SELECT sum(count), sum(sum_ns), min(min_ns), max(max_ns) FROM blocks WHERE account = 'forward'"
    )[0]
    gone = set(range(1, 3001)) - set(kept)
    assert folded == (len(gone), sum(gone), min(gone), max(gone))
    assert len(writer.run("SELECT step FROM spans")) == len(kept)
    # A block row stands for twenty rows; after the first blocks the file grows by those alone.
    assert sizes[-1] - sizes[10] <= 60
    writer.close()


def test_every_column_of_the_table_can_be_read(write: Callable[..., Path]) -> None:
    reader = RankReader(str(write(make_step(1))))
    assert list(reader.columns(STEP_COLUMNS)) == list(STEP_COLUMNS)
    reader.close()
