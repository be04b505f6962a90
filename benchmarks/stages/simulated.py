"""Pipelines that never ran: workers step by step through time, recorded as real ones are.

Written apart from the replay of the analysis and in another way, so that each can be checked by the other:
every worker is a generator, and after each event everybody who waits tries again, who came first before the others,
until nobody gets further.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from traintrace.stagefacts import Pipeline, QueueRecord, Service, StageWorker

START_NS = 1_700_000_000_000_000_000
_Wish = tuple[str, str | int]  # ("get", queue), ("put", queue) or ("work", nanoseconds)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage.

    Attributes:
        times_ns: What each service takes, in the order in which they begin; when they are used up, it ends.
        takes, puts: Names of queues: one item each, so that a queue named twice moves two items.
        put_every: Items are put after every so many services only.
    """

    name: str
    times_ns: Sequence[int]
    workers: int = 1
    takes: tuple[str, ...] = ()
    puts: tuple[str, ...] = ()
    put_every: int = 1


@dataclass
class _Queue:
    capacity: int | None
    items: int = 0
    puts: list[int] = field(default_factory=list)
    gets: list[int] = field(default_factory=list)


@dataclass
class _Worker:
    plan: StagePlan
    number: int
    steps: Generator[_Wish, None, None]
    wish: _Wish = ("work", 0)
    since: int = 0
    over: bool = False
    end: int = 0
    busy: int = 0
    waits: dict[str, dict[str, int]] = field(default_factory=lambda: {"get": {}, "put": {}})
    services: list[Service] = field(default_factory=list)

    def go_on(self, now: int) -> None:
        """Take the next step of the plan."""
        self.end = now
        try:
            self.wish, self.since = next(self.steps), now
        except StopIteration:
            self.over = True


def run(stages: Sequence[StagePlan], capacities: dict[str, int | None]) -> Pipeline:
    """Let a pipeline work until nothing moves any more, and give its record."""
    queues = {name: _Queue(capacity) for name, capacity in capacities.items()}
    workers: list[_Worker] = []
    for plan in stages:
        supply = iter(enumerate(plan.times_ns))
        workers += [_Worker(plan, n, _steps(plan, supply)) for n in range(plan.workers)]
    now = 0
    for worker in workers:
        worker.go_on(now)
    while True:
        while any(_try(worker, queues, now) for worker in _waiting(workers)):
            pass
        ends = [w.since + int(w.wish[1]) for w in workers if not w.over and w.wish[0] == "work"]
        if not ends:
            break
        now = min(ends)
        for worker in workers:
            if (
                not worker.over
                and worker.wish[0] == "work"
                and worker.since + int(worker.wish[1]) == now
            ):
                spent = int(worker.wish[1])
                worker.busy += spent
                worker.services.append(Service(START_NS + now, spent, 1, None))
                worker.go_on(now)
    return _record(stages, workers, queues)


def _steps(plan: StagePlan, supply: "enumerate[int]") -> Generator[_Wish, None, None]:
    for number, spent in supply:
        for name in plan.takes:
            yield ("get", name)
        yield ("work", spent)
        if (number + 1) % plan.put_every == 0:
            for name in plan.puts:
                yield ("put", name)


def _waiting(workers: Sequence[_Worker]) -> list[_Worker]:
    """Give the workers that wait, who came first before the others."""
    waiting = [one for one in workers if not one.over and one.wish[0] != "work"]
    return sorted(waiting, key=lambda one: one.since)


def _try(worker: _Worker, queues: dict[str, _Queue], now: int) -> bool:
    """Let a worker get or put if it can; tell whether it could."""
    kind, name = worker.wish
    queue = queues[str(name)]
    if kind == "get":
        if not queue.items:
            return False
        queue.items -= 1
        queue.gets.append(START_NS + now)
    else:
        if queue.capacity is not None and queue.items >= queue.capacity:
            return False
        queue.items += 1
        queue.puts.append(START_NS + now)
    waited = worker.waits[kind]
    waited[str(name)] = waited.get(str(name), 0) + now - worker.since
    worker.go_on(now)
    return True


def _record(
    stages: Sequence[StagePlan], workers: Sequence[_Worker], queues: dict[str, _Queue]
) -> Pipeline:
    records = [
        QueueRecord(
            name=name,
            capacity=queue.capacity,
            puts=len(queue.puts),
            gets=len(queue.gets),
            put_ns=queue.puts,
            get_ns=queue.gets,
            producers=tuple(plan.name for plan in stages if name in plan.puts),
            consumers=tuple(plan.name for plan in stages if name in plan.takes),
        )
        for name, queue in queues.items()
    ]
    return Pipeline(tuple(_ledger(worker) for worker in workers), tuple(records))


def _ledger(worker: _Worker) -> StageWorker:
    starved, blocked = worker.waits["get"], worker.waits["put"]
    accounts = {
        "busy": worker.busy,
        "starved": sum(starved.values()),
        "blocked": sum(blocked.values()),
        "other": 0,
    }
    return StageWorker(
        stage=worker.plan.name,
        worker=worker.number,
        kind="thread",
        start_ns=START_NS,
        end_ns=START_NS + worker.end,
        account_ns=accounts,
        starved_ns=starved,
        blocked_ns=blocked,
        items=len(worker.services),
        tokens=None,
        service_count=len(worker.services),
        busy_sum_ns=worker.busy,
        busy_sum_squares_ns2=float(sum(one.busy_ns**2 for one in worker.services)),
        services=tuple(worker.services),
    )
