"""Real pipelines for tests: a traced run to record them in, and reading what it recorded."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import traintrace
from traintrace.stagefacts import Pipeline, QueueRecord, StageWorker
from traintrace_plain_torch import Tracer, trace


@contextmanager
def traced(folder: Path | str, **options: Any) -> Iterator[Tracer]:
    """Trace a span in which one step is made, so that nothing has to be said of it."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with trace(model, optimizer, run_dir=folder, print_report=False, **options) as tracer:
        with tracer.step():
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        yield tracer


def recorded(tracer: Tracer) -> Pipeline:
    """Give what the rank recorded of its stages."""
    assert tracer.run_folder is not None
    (rank,) = traintrace.open_run(tracer.run_folder).facts(["step"]).ranks
    assert rank.pipeline is not None
    for worker in rank.pipeline.workers:
        assert sum(worker.account_ns.values()) == worker.end_ns - worker.start_ns, worker
    return rank.pipeline


def workers_of(pipeline: Pipeline, stage: str) -> list[StageWorker]:
    """Give the workers of a stage, in order."""
    return sorted(
        (worker for worker in pipeline.workers if worker.stage == stage),
        key=lambda worker: worker.worker,
    )


def queue_of(pipeline: Pipeline, name: str) -> QueueRecord:
    """Give the record of a queue."""
    (record,) = (queue for queue in pipeline.queues if queue.name == name)
    return record


def warnings_of(tracer: Tracer) -> list[str]:
    """Give what the report says that is missing."""
    assert tracer.run_folder is not None
    (rank,) = traintrace.open_run(tracer.run_folder).facts(["step"]).ranks
    return list(rank.warnings)
