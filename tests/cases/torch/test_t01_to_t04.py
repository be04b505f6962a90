"""T01 to T04: which clock a wait is on, and backwards and forwards that module hooks get wrong."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.labs.torch_loop import BATCH, Net, Truth, sgd, trained, update
from traintrace.session import Session
from traintrace.testing import FakeClock, SimulatedDevice

MS = 1_000_000


class QueuedDevice:
    """A device that gets 90 ms of work each step; the next fetch first waits for it, then takes 10 ms."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.device = SimulatedDevice(self.clock)

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(12):
            self.device.finish_all()
            self.clock.advance(10 * MS)
            yield BATCH
        self.device.finish_all()

    def train(self, tmp_path: Path, **options: Any) -> Any:
        queued = self

        class Queueing(Net):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                queued.clock.advance(MS // 10)
                queued.device.launch(90 * MS)
                return super().forward(x)

        model = Queueing()
        optimizer = sgd(model)

        def step(batch: torch.Tensor) -> None:
            loss = model(batch).mean()
            self.clock.advance(MS // 10)
            loss.backward()
            optimizer.step()

        return trained(tmp_path, model, optimizer, step, self, **options)


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> QueuedDevice:
    queued = QueuedDevice()
    monkeypatch.setattr("traintrace_plain_torch.seams.device_clock", lambda: (queued.device, None))
    begin = functools.partialmethod(Session.__init__, now=queued.clock)
    monkeypatch.setattr(Session, "__init__", begin)
    return queued


def test_t01_a_fetch_that_waits_for_queued_work_is_not_blamed_on_the_input(
    tmp_path: Path, queued: QueuedDevice
) -> None:
    """lightly-train#749, nerfstudio#183: the wait read 60 % where the truth was 10 %."""
    run = queued.train(tmp_path)
    assert run.rank.device_clock == "simulated"
    assert all(ns >= 99 * MS for ns in run["input_wait_ns"][1:]), "all of it was spent in next()"
    assert run["forward_device_ns"] == pytest.approx([90 * MS] * 12, abs=MS)
    metrics = run.summary["step_time"]["metrics"]
    assert (metrics["input_wait"]["clock"], metrics["forward"]["clock"]) == ("host", "device")
    # Of the 100 ms on the host's clock the device stood idle for 10: too little to be the cause.
    assert run.summary["verdict"]["kind"] == "COMPUTE_BOUND"
    assert "INPUT_BOUND" not in {found["kind"] for found in run.summary["findings"]}


def test_t01_without_a_device_clock_the_numbers_say_that_they_are_the_hosts(
    tmp_path: Path, queued: QueuedDevice
) -> None:
    """sglang#16219: then nobody may take the split for the device's."""
    run = queued.train(tmp_path, level="host")
    assert run["forward_device_ns"] == [None] * 12
    metric = run.summary["step_time"]["metrics"]["input_wait"]
    assert (metric["clock"], metric["device_mean"]) == ("host", None)
    assert run.summary["coverage"]["device_clock"]["state"] == "not_measured"
    assert run.summary["coverage"]["device_clock"]["reason"]
    assert {found["gain"]["clock"] for found in run.summary["findings"] if found["gain"]} == {
        "host"
    }


def test_t02_a_backward_is_its_full_time_where_the_input_needs_no_gradient(tmp_path: Path) -> None:
    """PT#100528, PT#149938: a full backward hook on the root fires before its gradients exist."""
    truth, fired_after = Truth(), []
    model = Net(truth, backward_ms=20)
    optimizer = sgd(model)
    model.register_full_backward_hook(lambda *_: fired_after.append(truth.ns.get("backward", 0)))
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        run = trained(tmp_path, model, optimizer, lambda batch: update(model, optimizer, batch), 3)
    assert fired_after[0] == 0, "this torch fires the hook late: then the case is moot"
    assert run.account_ns["backward"] >= truth.ns["backward"] >= 3 * 20 * MS
    assert run["backward_calls"] == [1, 1, 1]


def test_t03_a_model_with_in_place_layers_runs_unchanged(tmp_path: Path) -> None:
    """PT#61519, pytorch/vision#4164: attaching a backward hook makes such a forward raise."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 1))
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, lambda batch: update(model, optimizer, batch), 5)
    assert run.phase_calls() == ([1] * 5, [1] * 5, [1] * 5)


class Blocks(nn.Module):
    """A model whose time is in its direct children, one of them in a list."""

    def __init__(self, truth: Truth) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Net(truth, forward_ms=8), nn.Linear(1, 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests compiled in this process before."""
    monkeypatch.setattr("traintrace.pytorch.unseen.graphs_exist", lambda: False)


def test_t04_a_forward_called_past_call_is_not_observed_and_then_measured_by_its_children(
    tmp_path: Path, no_graphs: None
) -> None:
    """PT#117925: module.forward called directly; never 0 ms."""
    truth, steps = Truth(), []
    model = Blocks(truth)
    optimizer = sgd(model)

    def step(batch: torch.Tensor) -> None:
        before = truth.ns.get("forward", 0)
        update(model.forward, optimizer, batch)
        steps.append(truth.ns["forward"] - before)

    run = trained(tmp_path, model, optimizer, step, 10)
    assert run["forward_ns"][:3] == [None] * 3
    assert run.rank.unmeasured["forward"] == "model was not called through __call__"
    for measured, real in zip(run["forward_ns"][3:], steps[3:], strict=True):
        assert measured >= real
    assert run["forward_calls"][3:] == [2] * 7
    assert any("direct children" in warning for warning in run.summary["warnings"])
    assert run["backward_calls"] == [1] * 10


def test_t04_a_short_run_of_direct_calls_has_no_forward_and_says_why(
    tmp_path: Path, no_graphs: None
) -> None:
    """The same with fewer steps than it takes to be sure."""
    model = Net()
    optimizer = sgd(model)
    run = trained(tmp_path, model, optimizer, lambda batch: update(model.forward, optimizer), 2)
    assert run["forward_ns"] == [None, None]
    assert run.summary["step_time"]["metrics"]["forward"]["mean"] is None
    reason = run.summary["coverage"]["forward"]["reason"]
    assert reason == "model was not called through __call__"


@pytest.mark.parametrize("kind", ["dict", "nested"])
def test_t04_outputs_of_any_kind_are_one_forward_of_full_length(tmp_path: Path, kind: str) -> None:
    """The other half of the report: hooks are not called for dict or nested outputs."""
    truth = Truth()

    class Wrapped(Net):
        def forward(self, x: torch.Tensor) -> Any:
            y = super().forward(x)
            return {"logits": y} if kind == "dict" else ([(y,)], {"more": y})

    model = Wrapped(truth, forward_ms=5, backward_ms=5)
    optimizer = sgd(model)

    def loss(batch: torch.Tensor) -> torch.Tensor:
        output = model(batch)
        logits: torch.Tensor = output["logits"] if kind == "dict" else output[0][0][0]
        return logits

    run = trained(tmp_path, model, optimizer, lambda batch: update(loss, optimizer, batch), 3)
    assert run.phase_calls() == ([1] * 3, [1] * 3, [1] * 3)
    for name in ("forward", "backward"):
        assert run.account_ns[name] >= truth.ns[name], name
