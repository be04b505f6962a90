"""Pipelines of stages as rows of a rank's file."""

from traintrace.stagefacts import Pipeline, QueueRecord, StageWorker
from traintrace.stages.marks import NOT_SAID, SAID
from traintrace.stages.records import QueueUpdate, Update, WorkerUpdate
from traintrace.store.stagerows import Merger
from traintrace.store.stagetables import StageRows


def rows_of(pipeline: Pipeline) -> StageRows | None:
    """Give what one flush writes of a pipeline; None if it is empty."""
    workers = [_worker(number, one) for number, one in enumerate(pipeline.workers)]
    return Merger(0).rows({"rank": Update(workers, [_queue(one) for one in pipeline.queues])})


def _worker(number: int, one: StageWorker) -> WorkerUpdate:
    services = [
        (s.done_ns, s.busy_ns, s.items, NOT_SAID if s.tokens is None else s.tokens, SAID)
        for s in one.services
    ]
    return WorkerUpdate(
        number=number,
        stage=one.stage,
        kind=one.kind,
        start_ns=one.start_ns,
        end_ns=one.end_ns,
        account_ns=one.account_ns,
        starved_ns=one.starved_ns,
        blocked_ns=one.blocked_ns,
        items=one.items,
        tokens=one.tokens,
        service_count=one.service_count,
        busy_sum_ns=one.busy_sum_ns,
        busy_sum_squares_ns2=one.busy_sum_squares_ns2,
        counts=SAID,
        unmeasured=one.unmeasured,
        services=services,
    )


def _queue(one: QueueRecord) -> QueueUpdate:
    return QueueUpdate(
        name=one.name,
        wrapped=1,
        capacity=one.capacity,
        puts=one.puts,
        gets=one.gets,
        producers=one.producers,
        consumers=one.consumers,
        put_ns=one.put_ns,
        get_ns=one.get_ns,
        held=one.held,
    )
