"""Hand-written loops on Accelerate and on Fabric: their objects are traced, only real updates are steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from tests.labs.torch_loop import Net, Recorded, Truth, sgd
from traintrace_plain_torch import trace

pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own; ours are asserted below

ROWS: Any = list(torch.ones(12, 4))


@pytest.fixture
def accelerate() -> Iterator[Any]:
    module = pytest.importorskip("accelerate")
    yield module
    module.state.AcceleratorState._reset_state(reset_partial_state=True)
    module.state.GradientState._reset_state()


@pytest.mark.parametrize("give", ["prepared", "bare"])
def test_a_step_of_accelerates_that_does_nothing_is_no_update(
    tmp_path: Path, accelerate: Any, give: str
) -> None:
    truth = Truth()
    bare = Net(truth, forward_ms=1, backward_ms=1)
    bare_optimizer = sgd(bare)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader, scheduler = accelerator.prepare(
        bare,
        bare_optimizer,
        DataLoader(ROWS, batch_size=2),
        torch.optim.lr_scheduler.StepLR(bare_optimizer, 1),
    )
    given = (model, optimizer) if give == "prepared" else (bare, bare_optimizer)
    step_before = vars(optimizer).get("step")
    with trace(*given, run_dir=tmp_path, print_report=False) as tracer:
        for batch in tracer.batches(loader):
            with tracer.step(), accelerator.accumulate(model):
                accelerator.backward(model(batch).mean())
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()  # called each time; accelerate makes it real every second time
                scheduler.step()
                optimizer.zero_grad()
    run = Recorded(tracer)
    assert run["micro_batches"] == [2] * 3
    assert run.phase_calls() == ([2] * 3, [2] * 3, [1] * 3)
    for name in ("forward", "backward"):
        assert run.account_ns[name] >= truth.ns[name], name
    assert vars(optimizer).get("step") is step_before
    assert run.summary["warnings"] == []


@pytest.mark.parametrize("give", ["set up", "bare"])
def test_a_loop_on_fabric_is_traced_through_its_wrappers(tmp_path: Path, give: str) -> None:
    fabric_module = pytest.importorskip("lightning.fabric")
    truth = Truth()
    bare = Net(truth, forward_ms=1, backward_ms=1)
    bare_optimizer = sgd(bare)
    fabric = fabric_module.Fabric(accelerator="cpu", devices=1)
    model, optimizer = fabric.setup(bare, bare_optimizer)
    loader = fabric.setup_dataloaders(DataLoader(ROWS, batch_size=2))
    given = (model, optimizer) if give == "set up" else (bare, bare_optimizer)
    with trace(*given, run_dir=tmp_path, print_report=False) as tracer:
        for number, batch in enumerate(tracer.batches(loader)):
            accumulates = number % 2 == 0
            with tracer.step():
                with fabric.no_backward_sync(model, enabled=accumulates):
                    fabric.backward(model(batch).mean())
                if not accumulates:
                    fabric.clip_gradients(model, optimizer, max_norm=1.0)
                    optimizer.step()
                    optimizer.zero_grad()
    run = Recorded(tracer)
    assert run["micro_batches"] == [2] * 3
    assert run.phase_calls() == ([2] * 3, [2] * 3, [1] * 3)
    for name in ("forward", "backward"):
        assert run.account_ns[name] >= truth.ns[name], name
    assert run.summary["warnings"] == []
