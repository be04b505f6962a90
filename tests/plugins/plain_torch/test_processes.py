"""Several processes, and processes that end in unusual ways."""

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.labs.forked import run_each
from traintrace import TraintraceWarning, open_run
from traintrace.options import TraceOptions
from traintrace.registry import REGISTRY
from traintrace_plain_torch import Tracer, trace

HEAD = """
    import os, sys, time, torch
    from traintrace_plain_torch import trace

    class Net(torch.nn.Linear):
        pass

    def go(tracer, model, optimizer, steps=5):
        for batch in tracer.batches([torch.ones(2, 4)] * steps):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
                optimizer.zero_grad()

    folder = sys.argv[1]
"""


def run(folder: Path, body: str, *launcher: str, code: int = 0, **variables: str) -> str:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(HEAD) + textwrap.dedent(body), "utf-8")
    command = [sys.executable, *launcher, str(script), str(folder / "runs")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stderr


def summary_of(folder: Path, name: str = "run") -> Any:
    return json.loads((folder / "runs" / name / "final_summary.json").read_text("utf-8"))


def test_a_forked_child_leaves_the_run_to_its_parent(tmp_path: Path) -> None:
    endings = ("sys.exit(0)", "os._exit(0)", "tracer.close(); sys.exit(0)")
    run(
        tmp_path,
        f"""
    for number, ending in enumerate({endings!r}):
        model = Net(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        name = f"run-{{number}}"
        with trace(model, optimizer, run_dir=folder, name=name, print_report=False) as tracer:
            go(tracer, model, optimizer)
            child = os.fork()
            if not child:
                go(tracer, model, optimizer, 3)
                exec(ending)
            os.waitpid(child, 0)
            assert not os.path.exists(f"{{folder}}/{{name}}/final_summary.json")
            go(tracer, model, optimizer)
        assert tracer.summary()["counts"]["steps"] == 10
    """,
    )
    for number in range(len(endings)):
        summary = summary_of(tmp_path, f"run-{number}")
        assert summary["counts"]["steps"] == 10
        assert summary["warnings"] == []


def test_a_span_that_nobody_closed_ends_with_the_interpreter(tmp_path: Path) -> None:
    body = """
    from traintrace_plain_torch import trace

    class Net(torch.nn.Linear):
        pass

    model = Net(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = trace(model, optimizer, run_dir=folder, name="run", print_report=False).start()
    for number, batch in enumerate(tracer.batches([torch.ones(2, 4)] * 9)):
        model(batch).mean().backward()
        optimizer.step()
        if number == 4:
            break
    if folder.endswith("raises"):
        raise ValueError("x")
    if folder.endswith("exits"):
        sys.exit(3)
    """
    endings = {"returns": ("completed", 0), "raises": ("failed", 1), "exits": ("completed", 3)}
    for ended in run_each(tmp_path, body, [*endings]):
        status, code = endings[ended.folder.name]
        assert ended.code == code, ended.error
        summary = json.loads((ended.folder / "run" / "final_summary.json").read_text("utf-8"))
        assert summary["run"]["status"] == status
        # After an exception the update in hand is not known to have been the last of its step.
        assert summary["counts"]["steps"] == (5 if status == "completed" else 4)


TWO_RANKS = """
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Net(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for name in ("a/b", "second"):
        with trace(model, optimizer, run_dir=folder, name=name, print_report=False) as tracer:
            go(tracer, model, optimizer, 6)
            if rank == 1:
                time.sleep(1.0)  # rank 0 is done long before
        print(rank, tracer.run_folder, file=sys.stderr)
    dist.destroy_process_group()
"""


@pytest.mark.long  # tests/launch starts such jobs in CI; their second runs are in tests/core
def test_ranks_of_a_job_share_each_of_its_runs_and_the_report_waits_for_all(tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    for suffix in ("", "-2"):  # the same job again does not touch the first one's runs
        run(tmp_path, TWO_RANKS, *launcher)
        for name in (f"a-b{suffix}", f"second{suffix}"):
            ranks = open_run(tmp_path / "runs" / name).facts(["step"]).ranks
            assert [(rank.rank, rank.totals.steps, rank.status) for rank in ranks] == [
                (0, 6, "completed"),
                (1, 6, "completed"),
            ]
            for rank in ranks:
                assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
                assert rank.setup.strategy == "ddp"
                assert rank.totals.calls["gradient_sync"] == 6
            summary = summary_of(tmp_path, name)
            assert summary["run"]["ranks_seen"] == [0, 1]
            assert summary["run"]["world_size"] == 2
            assert len(summary["warnings"]) == len(suffix) // 2  # the name was taken
    assert len(list((tmp_path / "runs").iterdir())) == 4


@pytest.mark.long  # as tests/launch does with a loop that is started the same way
def test_ranks_spawned_by_hand_share_a_run_too(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
    import torch.distributed as dist
    import torch.multiprocessing

    def work(rank, folder):
        dist.init_process_group("gloo", init_method=f"file://{folder}.store", rank=rank, world_size=2)
        model = torch.nn.parallel.DistributedDataParallel(Net(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with trace(model, optimizer, run_dir=folder, name="run", print_report=False) as tracer:
            go(tracer, model, optimizer)
        dist.destroy_process_group()

    if __name__ == "__main__":
        torch.multiprocessing.spawn(work, args=(folder,), nprocs=2)
    """,
    )
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run"]
    assert summary_of(tmp_path)["run"]["ranks_seen"] == [0, 1]


@pytest.mark.usefixtures("faults_are_reported")
def test_a_rank_that_never_ends_does_not_hold_up_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(REGISTRY, "started", 0)  # the first run of a process of its own
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TRAINTRACE_RUN", str(tmp_path / "runs" / "run"))
    options = TraceOptions(
        run_dir=tmp_path / "runs", name="run", print_report=False, wait_for_ranks_s=0.3
    )
    with pytest.warns(TraintraceWarning, match="before rank 1 had finished"):
        with Tracer(None, None, options, awaits_update=False) as tracer:
            for _ in tracer.batches(range(3)):
                with tracer.step():
                    pass
    assert summary_of(tmp_path)["counts"]["steps"] == 3


def test_a_producer_faster_than_the_drain_still_reaches_the_disk(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
    import contextlib, resource, sqlite3
    def rows_on_the_disk():
        with contextlib.closing(sqlite3.connect(folder + "/run/ranks/rank-00000.sqlite")) as reader:
            return reader.execute("SELECT count(*) FROM steps").fetchone()[0]

    def produce(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with step:
                pass
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with trace(run_dir=folder, name="run", print_report=False) as tracer:
        step = tracer.step()
        before = produce(0.6)
        grown = produce(1.0) - before
        assert grown < 60_000, grown
        for _ in range(100):  # the drain, too, needs a core
            if rows_on_the_disk():
                break
            produce(0.2)
        assert rows_on_the_disk() > 0
    """,
    )
    rank = open_run(tmp_path / "runs" / "run").facts(["step"]).ranks[0]
    assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
    assert rank.totals.steps == len(rank.columns["step"]) + rank.totals.dropped_rows


def test_a_reader_does_not_hold_up_the_end_of_training(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with trace(run_dir=folder, name="run", print_report=False) as tracer:
        for _ in tracer.batches(range(3)):
            with tracer.step():
                pass
        session: Any = tracer._session
        session.flush()
        reader = sqlite3.connect(folder / "run/ranks/rank-00000.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM steps").fetchone()
        started = time.monotonic()
    assert time.monotonic() - started < 8  # it would wait ten seconds for the lock
    reader.close()
    assert summary_of(tmp_path)["counts"]["steps"] == 3
