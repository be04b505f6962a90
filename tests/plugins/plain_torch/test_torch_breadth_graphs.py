"""Compiled models and steps: as many graphs with tracing as without, and forward measured or null."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.labs.torch_loop import BATCH, CountingBackend, Net, Recorded, sgd
from traintrace_plain_torch import trace

pytestmark = [  # of torch's own
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

Step = Callable[[torch.Tensor], object]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed: Any = torch.distributed
    store = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Lab:
    """One way to compile, with a model of its own class or of torch's."""

    def __init__(self, way: str, kind: str) -> None:
        torch._dynamo.reset()
        self.backend = CountingBackend()
        own: Any = type("Own", (Net,), {})  # a class that no other test has compiled
        self.model: nn.Module = (
            own() if kind == "own class" else nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        )
        self.optimizer = sgd(self.model)
        self.step: Step = getattr(self, f"_{way}")()

    def _compile(self, target: Any, **options: Any) -> Any:
        return torch.compile(target, backend=self.backend, **options)

    def _trained_by(self, loss: Callable[[Any], Any]) -> Step:
        def step(batch: torch.Tensor) -> None:
            loss(batch).mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

        return step

    def _whole_model(self) -> Step:
        return self._trained_by(self._compile(self.model, fullgraph=True))

    def _around_ddp(self) -> Step:
        return self._trained_by(self._compile(DistributedDataParallel(self.model)))

    def _inside_ddp(self) -> Step:
        return self._trained_by(DistributedDataParallel(self._compile(self.model)))

    def _in_place(self) -> Step:
        self.model.compile(backend=self.backend)
        return self._trained_by(self.model)

    def _loss_function(self) -> Step:
        return self._trained_by(self._compile(lambda x: self.model(x).mean(), fullgraph=True))

    def _forward_and_backward(self) -> Step:
        def both(batch: torch.Tensor) -> None:
            self.model(batch).mean().backward()

        compiled = self._compile(both)

        def step(batch: torch.Tensor) -> None:
            compiled(batch)
            self.optimizer.step()
            self.optimizer.zero_grad()

        return step

    def _train_step(self) -> Step:
        return self._compile(self._trained_by(self.model))

    def _optimizer_step(self) -> Step:
        compiled = self._compile(self.optimizer.step)

        def step(batch: torch.Tensor) -> None:
            self.model(batch).mean().backward()
            compiled()
            self.optimizer.zero_grad()

        return step


# For each way to compile: which phases are seen. What runs inside a graph is not measured there.
WAYS = {
    "whole_model": {"forward", "backward", "optimizer"},
    "around_ddp": {"forward", "backward", "optimizer"},
    "inside_ddp": {"forward", "backward", "optimizer"},
    "in_place": {"forward", "backward", "optimizer"},
    "loss_function": {"backward", "optimizer"},
    "forward_and_backward": {"backward", "optimizer"},
    "train_step": {"backward"},
    "optimizer_step": {"forward", "backward"},
}


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("called_before", [False, True])
@pytest.mark.parametrize(
    ("way", "kind"),
    [(way, "own class") for way in WAYS]
    + [(way, "torch class") for way in ("whole_model", "around_ddp", "in_place")],
)
def test_tracing_compiles_no_graph_more_or_less(
    tmp_path: Path, way: str, kind: str, called_before: bool
) -> None:
    plain = Lab(way, kind)
    for _ in range(4 + called_before):
        plain.step(BATCH)

    lab = Lab(way, kind)
    if called_before:
        lab.step(BATCH)
    with trace(lab.model, lab.optimizer, run_dir=tmp_path, print_report=False) as tracer:
        for batch in tracer.batches([BATCH] * 4):
            with tracer.step():
                lab.step(batch)
    assert lab.backend.graphs == plain.backend.graphs
    run = Recorded(tracer)
    assert run.totals.steps == 4
    for phase in ("forward", "backward", "optimizer"):
        seen = phase in WAYS[way]
        assert run[f"{phase}_calls"] == [int(seen)] * 4, phase
        assert [ns is not None for ns in run[f"{phase}_ns"]] == [seen] * 4, phase
    if "forward" not in WAYS[way] and "backward" in WAYS[way]:
        assert "inside a compiled function" in run.rank.unmeasured["forward"]


@pytest.mark.parametrize("kind", ["own class", "torch class"])
def test_a_model_compiled_in_place_in_the_middle_of_a_run_stays_seen(
    tmp_path: Path, kind: str
) -> None:
    graphs = []
    for traced in (False, True):
        lab = Lab("whole_model", kind)
        step = lab._trained_by(lab.model)
        with trace(
            lab.model, lab.optimizer, run_dir=tmp_path, print_report=False, enabled=traced
        ) as tracer:
            for number, batch in enumerate(tracer.batches([BATCH] * 4)):
                if number == 1:
                    lab.model.compile(backend=lab.backend)
                with tracer.step():
                    step(batch)
        graphs.append(lab.backend.graphs)
    assert graphs[0] == graphs[1]
    assert Recorded(tracer)["forward_calls"] == [1] * 4
    assert "compile" not in vars(type(lab.model))
    assert "traced" not in getattr(vars(lab.model)["_compiled_call_impl"], "__qualname__", "")


@pytest.mark.parametrize("way", ["whole_model", "in_place", "loss_function"])
def test_what_was_compiled_while_tracing_runs_on_when_tracing_ends(
    tmp_path: Path, way: str
) -> None:
    lab = Lab(way, "own class")
    with trace(lab.model, lab.optimizer, run_dir=tmp_path, print_report=False) as tracer:
        for batch in tracer.batches([BATCH] * 2):
            with tracer.step():
                lab.step(batch)
    before = lab.backend.graphs
    for _ in range(3):
        lab.step(BATCH)
    # A graph that holds the call of the model as it was while tracing is compiled once more.
    assert lab.backend.graphs - before == (1 if way == "loss_function" else 0)
