"""Stages in a rank's file: what comes back, what is kept, files of before, damage, and segments of a published run."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.labs.published import WrittenRank
from traintrace.stagefacts import Pipeline
from traintrace.stages.records import QueueUpdate, Update, WorkerUpdate
from traintrace.store.reader import RankReader
from traintrace.store.stagerows import Merger, joined
from traintrace.store.stagetables import Block, StageRows, StageWriter, packed, unpacked

OFFSET_NS = 10**18


def worker(
    number: int = 0, *, said: bool = True, services: int = 1, since: int = 0
) -> WorkerUpdate:
    return WorkerUpdate(
        number=number,
        stage="work",
        kind="thread",
        start_ns=5,
        end_ns=105,
        account_ns={"busy": 60, "starved": 30, "blocked": 10, "other": 0},
        starved_ns={"in": 30},
        blocked_ns={"out": 10},
        items=services,
        tokens=7 if said else None,
        service_count=services,
        busy_sum_ns=60,
        busy_sum_squares_ns2=3600.0,
        counts=said,
        unmeasured="",
        services=[(since + n, 60, 1, 7 if n % 2 else -1, int(said)) for n in range(services)],
    )


def items(
    puts: int, wrapped: int = 1, stage: str = "work", capacity: int | None = 4
) -> QueueUpdate:
    return QueueUpdate("items", wrapped, capacity, puts, 0, [stage], [], [9] * puts, [], wrapped)


def written(path: Path, *rows: StageRows | None) -> Pipeline | None:
    rank = WrittenRank(path)
    for some in rows:
        rank.writer.write((), rank._totals(), stages=some)
    rank.writer.close()
    return read(rank.path)


def read(path: Path) -> Pipeline | None:
    reader = RankReader(str(path))
    try:
        pipeline = reader.pipeline()
        assert reader.damage == []
        return pipeline
    finally:
        reader.close()


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    merger = Merger(OFFSET_NS)
    update = Update([worker(services=3)], [items(2)])
    pipeline = written(tmp_path, merger.rows({None: update}))
    assert pipeline is not None
    (back,) = pipeline.workers
    assert (back.stage, back.worker, back.kind) == ("work", 0, "thread")
    assert (back.start_ns, back.end_ns) == (OFFSET_NS + 5, OFFSET_NS + 105)
    assert back.account_ns == update.workers[0].account_ns
    assert (back.starved_ns, back.blocked_ns) == ({"in": 30}, {"out": 10})
    assert [(s.done_ns - OFFSET_NS, s.busy_ns, s.items, s.tokens) for s in back.services] == [
        (0, 60, 1, None),
        (1, 60, 1, 7),
        (2, 60, 1, None),
    ]
    (queue,) = pipeline.queues
    assert (queue.capacity, queue.puts, queue.gets, queue.producers) == (4, 2, 0, ["work"])
    assert list(queue.put_ns) == [OFFSET_NS + 9] * 2


def test_processes_are_put_together(tmp_path: Path) -> None:
    merger = Merger(0)
    rows = joined(
        [
            merger.rows({None: Update([worker()], [items(2)])}),
            merger.rows(
                {"a": Update([worker()], [items(3, wrapped=0, stage="child", capacity=0)])}
            ),
            merger.rows(
                {"a": Update([worker()], [items(5, wrapped=0, stage="child", capacity=0)])}
            ),
        ]
    )
    pipeline = written(tmp_path, rows)
    assert pipeline is not None
    assert [back.worker for back in pipeline.workers] == [0, 1]
    (queue,) = pipeline.queues
    assert (queue.capacity, queue.puts, queue.producers) == (4, 7, ["work", "child"])
    assert queue.held == 1
    assert joined([None, None]) is None


def test_services_that_were_guessed_are_gone_once_the_worker_says_so_itself(tmp_path: Path) -> None:
    merger = Merger(0)
    guessed = merger.rows({None: Update([worker(said=False, services=5)])})
    told = merger.rows({None: Update([worker(said=True, services=2, since=50)])})
    pipeline = written(tmp_path, guessed, told)
    assert pipeline is not None
    assert [service.done_ns for service in pipeline.workers[0].services] == [50, 51]


def test_the_latest_are_kept_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traintrace.store.stagereading.KEPT", 10)
    rank = WrittenRank(tmp_path)
    rank.writer._stages = StageWriter(keep=10)
    merger = Merger(0)
    for flush in range(20):
        rank.writer.write(
            (),
            rank._totals(),
            stages=merger.rows({None: Update([worker(services=4, since=4 * flush)])}),
        )
    with closing(sqlite3.connect(rank.path)) as connection:
        (blocks,) = connection.execute("SELECT count(*) FROM stage_services").fetchone()
    assert blocks == 4
    rank.writer.close()
    pipeline = read(rank.path)
    assert pipeline is not None
    assert [service.done_ns for service in pipeline.workers[0].services] == list(range(70, 80))


def test_a_file_of_before_has_no_pipeline(tmp_path: Path) -> None:
    assert written(tmp_path, Merger(0).rows({None: Update([worker()])})) is not None
    path = tmp_path / "rank-00003.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        for table in ("stage_workers", "stage_services", "queues", "queue_moments"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 3")
        connection.commit()
    assert read(path) is None


def test_queues_of_a_file_of_schema_4_held_nothing(tmp_path: Path) -> None:
    written(tmp_path, Merger(0).rows({None: Update([worker()], [items(2)])}))
    path = tmp_path / "rank-00003.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE queues DROP COLUMN held")
        connection.execute("PRAGMA user_version = 4")
        connection.commit()
    pipeline = read(path)
    assert pipeline is not None
    assert (pipeline.queues[0].puts, pipeline.queues[0].held) == (2, 0)


def test_rows_that_nobody_wrote_are_left_out_and_told(tmp_path: Path) -> None:
    merger = Merger(0)
    written(tmp_path, merger.rows({None: Update([worker(0), worker(1)], [items(1)])}))
    path = tmp_path / "rank-00003.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE stage_workers SET account_ns = ? WHERE number = 0", (json.dumps({}),)
        )
        connection.execute("UPDATE queues SET puts = 'many'")
        connection.commit()
    reader = RankReader(str(path))
    pipeline = reader.pipeline()
    assert pipeline is not None
    assert [back.worker for back in pipeline.workers] == [1]
    assert pipeline.queues == []
    assert reader.damage == ["some of its stages", "some of its queues"]
    reader.close()


def test_when_the_disk_refuses_stages_go_on_in_memory(tmp_path: Path) -> None:
    rank = WrittenRank(tmp_path)
    merger = Merger(0)
    rank.writer.write((), rank._totals(), stages=merger.rows({None: Update([worker()])}))
    rank.writer._continue_in_memory(sqlite3.OperationalError("disk full"))
    rank.writer.write(
        (), rank._totals(), stages=merger.rows({None: Update([worker(since=9)], [items(1)])})
    )
    reader = RankReader(rank.writer.location)
    pipeline = reader.pipeline()
    reader.close()
    rank.writer.release()
    assert pipeline is not None
    assert [service.done_ns for service in pipeline.workers[0].services] == [0, 9]
    assert pipeline.queues[0].puts == 1


def test_segments_put_together_hold_the_same(tmp_path: Path) -> None:
    rank = WrittenRank(tmp_path)
    for _ in range(4):
        rank.flush()
        rank.cut()
    whole, assembled = read(rank.path), read(rank.assembled())
    assert whole is not None
    assert whole == assembled
    assert len(whole.workers[0].services) == 8
    lost = read(rank.assembled(without=[2]))
    assert lost is not None
    assert len(lost.workers[0].services) == 6
    assert lost.workers[0].items == whole.workers[0].items
    rank.writer.release()


def test_a_block_is_the_same_on_every_machine() -> None:
    assert packed([1, -2]) == b"\x01" + b"\0" * 7 + b"\xfe" + b"\xff" * 7
    assert list(unpacked(packed([1, -(2**62)]))) == [1, -(2**62)]
    with pytest.raises(TypeError):
        unpacked("text")
    with pytest.raises(ValueError, match="multiple"):
        unpacked(b"123")
    assert Block("stage_services", (0, 1), 1, b"").length == 1
