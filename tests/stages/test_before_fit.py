"""The usual order under a Trainer and under `traintrace run`: threads start, their queues have names, and then training begins."""

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import traintrace
from tests.labs.lightning import NAMES, Lab
from tests.labs.staged import queue_of, workers_of
from traintrace.stagefacts import Pipeline

BATCHES = 6

SCRIPT = f"""
import queue, threading, torch, traintrace

batches = traintrace.queue(queue.Queue(2), "batches")

def read():
    with traintrace.stage("read"):
        for _ in range({BATCHES}):
            batches.put(torch.ones(2, 4))
        batches.put(None)

threading.Thread(target=read).start()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(list(range({BATCHES})))
with traintrace.stage("train") as stage:
    for _, batch in zip(loader, iter(batches.get, None)):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        stage.done()
"""


class Batches(torch.utils.data.IterableDataset[Any]):
    """What a thread puts into a queue."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches.get, None)


def pipeline_of(folder: Path | str) -> Pipeline:
    (rank,) = traintrace.open_run(folder).facts(["step"]).ranks
    assert rank.pipeline is not None
    assert list(rank.warnings) == []
    for worker in rank.pipeline.workers:
        assert sum(worker.account_ns.values()) == worker.end_ns - worker.start_ns
    return rank.pipeline


@pytest.mark.filterwarnings("ignore")
def test_a_producer_that_was_started_before_two_fits(tmp_path: Path) -> None:
    def produce() -> None:
        with traintrace.stage("produce"):
            for _ in range(2):
                for _ in range(BATCHES):
                    batches.put(torch.ones(2, 4))
                batches.put(None)

    lab = Lab(NAMES[0], tmp_path)
    batches: Any = traintrace.queue(queue.Queue(2), "batches")
    producer = threading.Thread(target=produce)
    producer.start()
    model, callback = lab.Model(), lab.callback()
    loader = torch.utils.data.DataLoader(Batches(batches), batch_size=None)
    folders = []
    with traintrace.stage("train"):
        for _ in range(2):
            lab.trainer(callback).fit(model, loader)
            folders.append(callback.run_folder)
    producer.join()
    assert len(set(folders)) == 2
    assert type(batches) is queue.Queue
    for folder in folders:
        pipeline = pipeline_of(folder)
        record = queue_of(pipeline, "batches")
        assert (record.gets, record.capacity) == (BATCHES + 1, 2)
        assert record.held + record.puts >= record.gets
        for put, taken in zip(record.put_ns, record.get_ns[record.held :], strict=False):
            assert put <= taken
        (producing,), (training,) = workers_of(pipeline, "produce"), workers_of(pipeline, "train")
        assert training.items == BATCHES
        assert (producing.kind, training.kind) == ("thread", "thread")
    (producing,) = workers_of(pipeline_of(folders[0]), "produce")
    assert producing.blocked_ns["batches"] > producing.account_ns["busy"]


def test_a_script_without_a_mark_under_traintrace_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, "utf-8")
    subprocess.run(
        [sys.executable, "-m", "traintrace_reporting", "run", "--run-dir", "runs", str(script)],
        check=True,
        cwd=tmp_path,
        timeout=120,
        capture_output=True,
    )
    (manifest,) = traintrace.list_manifests(tmp_path / "runs")[0]
    pipeline = pipeline_of(tmp_path / "runs" / manifest.name)
    record = queue_of(pipeline, "batches")
    assert (record.producers, record.consumers) == (["read"], ["train"])
    assert record.held + record.puts >= record.gets >= BATCHES - 1
