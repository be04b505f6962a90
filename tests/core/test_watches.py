"""Compilations and allocator troubles become events of their step, and nothing is imported for them."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from traintrace import accounts as A
from traintrace.facts import COMPILED, COMPILED_KNOWN
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports, Watch
from traintrace.pytorch.allocator import AllocatorWatch
from traintrace.pytorch.compilations import CompilationWatch
from traintrace.pytorch.watches import torch_watches
from traintrace.session import Session

DYNAMO = "torch._dynamo.callback"


class Opener:
    """Opens sessions and ends them with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sessions: list[Session] = []

    def __call__(self, watches: tuple[Watch, ...] | None = None) -> Session:
        ports = Ports(watches=torch_watches() if watches is None else watches)
        identity = PluginIdentity("test", "0", "none", "0")
        session = Session(TraceOptions(run_dir=self.folder), identity, ports)
        session.begin()
        self.sessions.append(session)
        return session


@pytest.fixture
def open_session(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path)
    yield opener
    for session in opener.sessions:
        session.finish("completed")


class Compiled:
    """A function that was compiled for its first shape; counts its graphs, and adds their time."""

    def __init__(self) -> None:
        import torch._dynamo

        torch._dynamo.reset()
        self.graphs = 0

        def backend(graph: Any, inputs: Any) -> Any:
            self.graphs += 1
            time.sleep(0.01)
            return graph.forward

        def double(batch: torch.Tensor) -> torch.Tensor:
            return (batch * 2).relu()

        self.call = torch.compile(double, backend=backend)


def step(session: Session, call: Any = None, size: int = 4) -> None:
    session.journal.write(A.INPUT_WAIT)
    session.journal.write(~A.INPUT_WAIT)
    if call is not None:
        call(torch.ones(size))
    session.capture.complete()


def read(session: Session) -> Any:
    session.finish("completed")
    return session.as_run().facts(["step", "flags"]).ranks[0]


def compiled(rank: Any) -> list[bool | None]:
    return [
        bool(flags & COMPILED) if flags & COMPILED_KNOWN else None
        for flags in rank.columns["flags"]
    ]


def events(rank: Any) -> list[Any]:
    return [event for event in rank.events if event.kind == "compilation"]


def test_each_compilation_is_an_event_of_its_step_with_its_length(open_session: Opener) -> None:
    function = Compiled()
    session = open_session()
    for size in (4, 4, 5, 5):
        step(session, function.call, size)
    rank = read(session)
    assert function.graphs == 2
    first, again = events(rank)
    assert (first.step, again.step) == (1, 3)
    assert first.detail.endswith("/0")
    assert "/1 recompilation: " in again.detail
    assert "size mismatch" in again.detail
    assert ".py" not in again.detail
    assert min(first.duration_ns, again.duration_ns) >= 10_000_000
    assert compiled(rank) == [True, False, True, False]


def test_a_compilation_before_anyone_looked_is_found_and_none_is_told_twice(
    open_session: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = Compiled()
    module = sys.modules[DYNAMO]
    monkeypatch.delitem(sys.modules, DYNAMO)  # as if nobody had imported it yet
    session = open_session()
    function.call(torch.ones(4))
    monkeypatch.setitem(sys.modules, DYNAMO, module)
    session.flush()
    function.call(torch.ones(5))
    torch._dynamo.reset()  # takes everybody's callbacks off
    session.flush()
    step(session, function.call, 6)
    rank = read(session)
    assert function.graphs == 3
    assert [event.step for event in events(rank)] == [1, 1, 1]
    assert min(event.duration_ns for event in events(rank)) >= 10_000_000


def test_a_compilation_after_a_reset_is_found_though_the_run_ends_before_anyone_looks(
    open_session: Opener,
) -> None:
    function = Compiled()
    session = open_session()
    step(session, function.call, 4)
    session.flush()
    torch._dynamo.reset()
    step(session, function.call, 4)
    step(session)
    rank = read(session)
    assert function.graphs == 2
    assert [event.step for event in events(rank)] == [1, 2]
    assert compiled(rank) == [True, True, False]


def test_without_compilations_every_step_is_known_to_have_none(open_session: Opener) -> None:
    session = open_session()
    step(session)
    rank = read(session)
    assert compiled(rank) == [False]
    assert "compilation" not in rank.unmeasured


def test_nobody_watches_nobody_knows(open_session: Opener) -> None:
    session = open_session(())
    step(session)
    assert compiled(read(session)) == [None]


def test_a_torch_without_callbacks_costs_the_compilations_and_nothing_else(
    open_session: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, DYNAMO, ModuleType(DYNAMO))
    session = open_session()
    step(session)
    rank = read(session)
    assert "does not tell" in rank.unmeasured["compilation"]
    assert compiled(rank) == [None]


def test_a_module_that_is_still_being_imported_is_looked_at_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading = ModuleType(DYNAMO)
    loading.__spec__ = SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, DYNAMO, loading)
    watch = CompilationWatch()
    watch.begin()
    assert watch.unmeasured is None
    watch.close()


def test_watching_imports_nothing() -> None:
    script = f"""
import sys, traintrace.pytorch.watches as watches
for watch in watches.torch_watches():
    watch.begin(); watch.look(); watch.close()
assert {DYNAMO!r} not in sys.modules and "torch._dynamo" not in sys.modules
cuda = sys.modules.get("torch.cuda")
assert cuda is None or not cuda.is_initialized()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


class Cuda(ModuleType):
    """Two devices whose allocators count."""

    def __init__(self) -> None:
        super().__init__("torch.cuda")
        self.on = True
        self.retries, self.failures = [0, 0], [0, 0]

    def is_initialized(self) -> bool:
        return self.on

    def device_count(self) -> int:
        assert self.on, "this would initialise the driver"
        return 2

    def memory_stats(self, device: int) -> dict[str, int]:
        assert self.on
        return {
            "num_alloc_retries": self.retries[device],
            "num_ooms": self.failures[device],
            "active.all.current": 9,
        }


def test_the_allocator_s_troubles_are_events(
    open_session: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = Cuda()
    cuda.retries[1] = 7  # before the span: not ours
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    session = open_session((AllocatorWatch(),))
    step(session)
    session.flush()
    cuda.retries[1] += 2
    step(session)
    session.flush()
    cuda.failures[0] += 1
    rank = read(session)
    told = [(event.kind, event.detail, event.duration_ns) for event in rank.events]
    assert told == [("allocator_retry", "2 more", None), ("out_of_memory", "1 more", None)]
    assert rank.events[0].step in (2, 3)  # it was seen when the drain looked, after the step
    assert "allocator_retry" not in rank.unmeasured


def test_cuda_is_never_initialised_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda()
    cuda.on = False
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    watch = AllocatorWatch()
    watch.begin()
    assert watch.look() == []
    cuda.on, cuda.retries = True, [0, 3]  # training has initialised it in the meantime
    assert [one.detail for one in watch.look()] == ["3 more"]


def test_an_allocator_that_does_not_tell_is_not_asked_again(
    open_session: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = Cuda()
    monkeypatch.setattr(cuda, "memory_stats", None)
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    session = open_session((AllocatorWatch(),))
    step(session)
    rank = read(session)
    assert "does not tell" in rank.unmeasured["allocator_retry"]
    assert rank.totals.steps == 1
