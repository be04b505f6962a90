"""How items flow: which stage feeds which, in what numbers, and where that goes in a circle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traintrace.stagefacts import Pipeline, QueueRecord, StageWorker
from traintrace_analysis.wording import listed


@dataclass(frozen=True, slots=True)
class Flow:
    """The network of a pipeline.

    Attributes:
        names: Stages in the order of the flow.
        workers: By stage, in order of their numbers.
        queues: Those that connect two stages of `names` at least.
        services: By stage, how many were done in all.
        last: The stage that nothing comes after and that all counts refer to.
        circle: Stages that feed each other, as a sentence; "" if the flow has one direction.
        apart: Stages that no queue connects with `last`.
    """

    names: tuple[str, ...]
    workers: Mapping[str, tuple[StageWorker, ...]]
    queues: tuple[QueueRecord, ...]
    services: Mapping[str, int]
    last: str
    circle: str
    apart: tuple[str, ...]

    def gets(self, queue: QueueRecord, stage: str) -> float:
        """Give how many items one service of `stage` takes out of `queue`; 0.0 if it takes none."""
        if stage not in queue.consumers:
            return 0.0
        return self._per_service(queue.gets, queue.consumers)

    def puts(self, queue: QueueRecord, stage: str) -> float:
        """Give how many items one service of `stage` puts into `queue`; 0.0 if it puts none."""
        if stage not in queue.producers:
            return 0.0
        return self._per_service(queue.puts, queue.producers)

    def _per_service(self, moved: int, stages: Sequence[str]) -> float:
        """Give items per service, by all stages at that end of a queue together."""
        services = sum(self.services.get(name, 0) for name in stages)
        workers = sum(len(self.workers.get(name, ())) for name in stages)
        return _whole(moved / services, services, workers) if services else 0.0

    def downstream(self, stage: str) -> set[str]:
        """Give all stages that items of `stage` may come to."""
        return _reached(stage, _followers(self.names, self.queues))

    def upstream(self, stage: str) -> set[str]:
        """Give all stages whose items may come to `stage`."""
        return {name for name in self.names if stage in self.downstream(name)}

    def per_item(self) -> dict[str, float]:
        """Give how many services of each stage one item of the last stage needs.

        By conservation: what went through a queue was made by the one side and used by the other. Items that
        were still on their way in the end do not count: they have been made and not used.
        """
        items = sum(one.items for one in self.workers[self.last])
        weights = {self.last: 1.0 / (items or self.services[self.last] or 1)}
        waiting = [self.last]
        while waiting:
            name = waiting.pop(0)
            for queue in self.queues:
                used = queue.gets / queue.puts if queue.puts else 1.0
                if name in queue.consumers:
                    near = {one: weights[name] * used for one in queue.producers}
                    near |= {one: weights[name] for one in queue.consumers}
                elif name in queue.producers:
                    near = {one: weights[name] / used if used else 0.0 for one in queue.consumers}
                    near |= {one: weights[name] for one in queue.producers}
                else:
                    continue
                for one, weight in near.items():
                    if one in self.names and one not in weights:
                        weights[one] = weight
                        waiting.append(one)
        return {name: weights[name] * self.services[name] for name in self.names}


def trace_flow(pipeline: Pipeline) -> Flow | None:
    """Find the network that most of the work was done in; None without a stage that worked."""
    workers: dict[str, list[StageWorker]] = {}
    for one in pipeline.workers:
        workers.setdefault(one.stage, []).append(one)
    if not workers:
        return None
    services = {name: sum(w.service_count for w in own) for name, own in workers.items()}
    busy = {name: sum(w.account_ns.get("busy", 0) for w in own) for name, own in workers.items()}
    parts = _parts(tuple(workers), pipeline.queues)
    # The part with most stages is the pipeline; of equal ones the one that worked most.
    names = max(parts, key=lambda part: (len(part), sum(busy[name] for name in part)))
    queues = tuple(q for q in pipeline.queues if _ends(q) & set(names))
    followers = _followers(names, queues)
    order = _sorted(names, followers)
    ends = [name for name in names if not followers[name]] or list(names)
    last = max(ends, key=lambda name: busy[name])
    return Flow(
        names=order,
        workers={name: tuple(sorted(own, key=lambda w: w.worker)) for name, own in workers.items()},
        queues=tuple(sorted(queues, key=lambda queue: _position(queue, order))),
        services=services,
        last=last,
        circle=_circle(order, followers, queues),
        apart=tuple(name for name in workers if name not in names),
    )


def _whole(ratio: float, services: int, workers: int) -> float:
    """Take a ratio that is a whole number, or one over one, but for the ends of the run, to be just that.

    Workers commonly take one thing more each, which tells them to stop, or hold items when all ends.
    """
    near = round(ratio) if ratio >= 1.0 else 1.0 / round(1.0 / ratio) if ratio > 0.0 else 0.0
    slack = 2 * workers + 0.005 * services
    return float(near) if abs(ratio - near) * services <= slack * max(1.0, near) else ratio


def _ends(queue: QueueRecord) -> set[str]:
    return {*queue.producers, *queue.consumers}


def _followers(names: Sequence[str], queues: Sequence[QueueRecord]) -> dict[str, set[str]]:
    followers: dict[str, set[str]] = {name: set() for name in names}
    for queue in queues:
        for name in queue.producers:
            if name in followers:
                followers[name] |= {one for one in queue.consumers if one in followers}
    return followers


def _reached(start: str, followers: Mapping[str, set[str]]) -> set[str]:
    """Give what can be reached from a stage; itself only if it lies in a circle."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = followers[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _parts(names: Sequence[str], queues: Sequence[QueueRecord]) -> list[tuple[str, ...]]:
    """Divide stages into those that queues connect."""
    group = {name: {name} for name in names}
    for queue in queues:
        ends = [name for name in _ends(queue) if name in group]
        joined = set().union(*(group[name] for name in ends))
        for name in joined:
            group[name] = joined
    seen: list[tuple[str, ...]] = []
    for name in names:
        part = tuple(one for one in names if one in group[name])
        if part not in seen:
            seen.append(part)
    return seen


def _sorted(names: Sequence[str], followers: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Sort stages along the flow; those in a circle as they come."""
    left, order = list(names), list[str]()
    while left:
        first = next(
            (n for n in left if not any(n in followers[m] for m in left if m != n)), left[0]
        )
        left.remove(first)
        order.append(first)
    return tuple(order)


def _position(queue: QueueRecord, order: Sequence[str]) -> tuple[int, int]:
    ends = [order.index(name) for name in queue.producers if name in order]
    others = [order.index(name) for name in queue.consumers if name in order]
    return (min(ends, default=-1), min(others, default=len(order)))


def _circle(
    names: Sequence[str], followers: Mapping[str, set[str]], queues: Sequence[QueueRecord]
) -> str:
    inside = [name for name in names if name in _reached(name, followers)]
    if not inside:
        return ""
    through = [q.name for q in queues if _ends(q) <= set(inside) and q.producers and q.consumers]
    them = f"{listed(inside)} feed each other" if len(inside) > 1 else f"{inside[0]} feeds itself"
    return (
        f"{them} through {listed(through)}, so that none of them can be told to hold up the others"
    )
