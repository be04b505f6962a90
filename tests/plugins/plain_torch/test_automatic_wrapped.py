"""Loops of Accelerate and Fabric that say nothing of tracing: plain loops around wrapped parts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.labs.automatic import Script, made
from tests.labs.untouched import Net, Slow, loader_of

accelerate = pytest.importorskip("accelerate")
fabric_module = pytest.importorskip("lightning.fabric")


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path)
    script.attach()
    yield script
    script.detach()
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


def test_an_accelerate_loop_has_its_steps_and_its_waits(script: Script) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    data = Slow(12, ms=4)
    model, optimizer, loader = accelerator.prepare(*made(), loader_of(data))
    validation = accelerator.prepare(loader_of(Slow(4, ms=3)))
    for _ in range(2):
        model.train()
        for batch in loader:
            accelerator.backward(model(batch).mean())
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            for batch in validation:
                model(batch)
    rank = script.rank()
    assert rank.columns["micro_batches"] == [1] * 12
    assert rank.columns["forward_calls"] == [1] * 12
    assert rank.columns["optimizer_calls"] == [1] * 12
    assert rank.columns["epoch"] == [0] * 6 + [1] * 6
    assert rank.totals.account_ns["input_wait"] >= data.slept_ns * 0.8  # but what is fetched ahead
    assert "input_wait" not in rank.unmeasured
    assert rank.setup.loader.workers == 0


def test_accelerates_accumulation_makes_larger_steps(script: Script) -> None:
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader = accelerator.prepare(*made(), loader_of(16))
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).mean())
            optimizer.step()
            optimizer.zero_grad()
    rank = script.rank()
    assert rank.columns["micro_batches"] == [2] * 4
    assert rank.columns["optimizer_calls"] == [1] * 4


def test_accelerates_classes_are_as_they_were_afterwards(script: Script) -> None:
    kind = accelerate.data_loader.DataLoaderShard
    untouched = kind.__iter__
    made()
    assert kind.__iter__ is not untouched
    script.detach()
    assert kind.__iter__ is untouched


def test_a_fabric_loop_has_its_steps_and_phases(script: Script) -> None:
    fabric = fabric_module.Fabric(accelerator="cpu", devices=1)
    net = Net()
    model, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    data = Slow(12, ms=4)
    loader = fabric.setup_dataloaders(loader_of(data))
    for _ in range(2):
        for batch in loader:
            fabric.backward(model(batch).mean())
            optimizer.step()
            optimizer.zero_grad()
    rank = script.rank()
    assert rank.columns["forward_calls"] == [1] * 12
    assert rank.columns["backward_calls"] == [1] * 12
    assert rank.columns["optimizer_calls"] == [1] * 12
    assert rank.totals.account_ns["input_wait"] >= data.slept_ns - 10_000
