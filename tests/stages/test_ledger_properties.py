"""Whatever a worker does, every nanosecond is in one account, however its journal is cut into pieces."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.labs.stageclock import StageClock
from traintrace.stages.records import WorkerUpdate

Action = tuple[str, int, bool]

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["work", "get", "get2", "put", "done", "nested", "look", "leave", "raise"]),
        st.integers(0, 1_000),
        st.booleans(),
    ),
    max_size=40,
)


def do(actions: list[Action], looks: bool) -> tuple[WorkerUpdate, int, int]:
    """Let a worker do it; give what is known of it, how long it held its place, and its waits."""
    clock = StageClock()
    queues = {name: clock.queue(name) for name in ("get", "get2", "put")}
    began, waits = clock.now_ns, 0
    worker = None
    pending = list(actions)
    while True:
        with clock.stage() as stage:
            while pending:
                kind, ns, succeeds = pending.pop(0)
                if kind in queues:
                    waits += ns
                    operation = queues[kind].put if kind == "put" else queues[kind].get
                    with suppress(LookupError):
                        operation(ns, succeeds)
                elif kind == "done":
                    stage.done(items=ns, tokens=ns if succeeds else None)
                elif kind == "nested":
                    with clock.stage("nested"):
                        clock.pass_by(ns)
                elif kind == "look":
                    if looks:
                        clock.update()
                elif kind == "leave":
                    break
                else:
                    clock.pass_by(ns)
        if not pending:
            break
        clock.pass_by(11)
    worker = clock.worker()
    return worker, clock.now_ns - began, waits


@given(ACTIONS)
@settings(max_examples=150, deadline=None)
def test_accounts_sum_to_the_time_that_passed(actions: list[Action]) -> None:
    worker, passed, waits = do(actions, looks=True)
    assert sum(worker.account_ns.values()) == worker.end_ns - worker.start_ns == passed
    assert all(ns >= 0 for ns in worker.account_ns.values())
    assert sum(worker.starved_ns.values()) == worker.account_ns["starved"]
    assert sum(worker.blocked_ns.values()) == worker.account_ns["blocked"]
    # What was waited for is waiting; a loop that polls adds to it.
    assert worker.account_ns["starved"] + worker.account_ns["blocked"] >= waits
    assert worker.busy_sum_ns <= worker.account_ns["busy"]


@given(ACTIONS)
@settings(max_examples=100, deadline=None)
def test_looking_at_it_meanwhile_changes_nothing(actions: list[Action]) -> None:
    looked, _, _ = do(actions, looks=True)
    alone, _, _ = do(actions, looks=False)
    assert looked._replace(services=()) == alone._replace(services=())
