"""Transfers, a toy model, several loaders; from public reports."""

import statistics
import time
from typing import Any

import pytest
import torch

from traintrace.accounts import STEP_ACCOUNT_NAMES
from traintrace.testing import SimulatedDevice

KERNEL_MS, STEPS = 40, 20
# The host wakes up so much before the device is done: late, on a busy machine, it would leave it idle.
EARLY_MS = 15


def _fit_on_a_device(lab: Any, monkeypatch: pytest.MonkeyPatch, *, log: bool) -> Any:
    """Fit on a device that is far behind; the host waits for it in the logger or in the transfer."""
    device = SimulatedDevice(events=512)

    def wait() -> None:
        time.sleep(max(0.0, device.backlog_ns / 1e9 - EARLY_MS / 1e3))

    class Net(lab.Net):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            device.launch(KERNEL_MS * 1_000_000)
            return torch.nn.functional.linear(x, self.weight)

    class Logger(lab.pl.loggers.CSVLogger):  # type: ignore[misc]
        def log_metrics(self, metrics: Any, step: Any = None) -> None:
            if log:
                wait()

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net(4, 1)

        def transfer_batch_to_device(self, batch: Any, device_: Any, dataloader_idx: int) -> Any:
            wait()
            return batch

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    with monkeypatch.context() as patch:
        patch.setattr("traintrace_lightning.opening.clock_of", lambda device_: (device, None))
        logger = Logger(lab.folder / str(log))
        return lab.fit(Model(), lab.loader(STEPS, 0), logger=logger, log_every_n_steps=1)


def _whole_step_ms(run: Any) -> float:
    """Give the usual time from one step's end to the next one's, with what is logged between them."""
    return statistics.median(run.steps["duration_ns"]) / 1e6


def test_l25_a_wait_for_the_device_that_moves_into_the_transfer_is_no_transfer(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL#20995: without step logging, the first wait for the device happens in the transfer."""
    steps_ms = []
    for log in (True, False):
        run = _fit_on_a_device(lab, monkeypatch, log=log)
        run.check_books()
        waiting = "logging" if log else "h2d"
        # On the host's clock the wait is where it was.
        assert run.ms(waiting) >= (STEPS - 1) * 0.5 * KERNEL_MS
        summary = run.callback.summary()
        metrics = summary["step_time"]["metrics"]
        steps_ms.append(_whole_step_ms(run))
        assert metrics["h2d"]["clock"] == "device"
        assert metrics["h2d"]["median"] < KERNEL_MS / 4
        assert metrics["forward"]["median"] >= KERNEL_MS - 1
        assert summary["verdict"]["kind"] != "H2D_BOUND"
    # The device's work is the length of a step, whoever waits for it.
    assert min(steps_ms) >= KERNEL_MS - 1
    assert max(steps_ms) < 2 * min(steps_ms)


def test_l26_a_transfer_holds_its_three_hooks(lab: Any) -> None:
    """PL#14028: the hooks before and after the transfer were missing from the report."""

    class Model(lab.Model):  # type: ignore[misc]
        def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            lab.work("h2d", 5)
            return batch

        def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
            lab.work("h2d", 7)
            return batch

        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            lab.work("h2d", 3)
            return batch

    run = lab.fit(Model(), lab.loader(10, 0))
    run.check_books()
    assert min(run.column_ms("h2d")) >= 15
    run.check_truth("h2d")
    assert run.rank.totals.calls["h2d"] == 10


def test_l27_a_tiny_model_is_not_called_slow_to_compute(lab: Any) -> None:
    """PL#6196, PL#8857: a toy model is mostly the framework's own time, and nobody said so."""

    class Model(lab.pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.net(batch).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    class Batches:
        def __iter__(self) -> Any:
            return iter([torch.zeros(8, 4)] * 500)

        def __len__(self) -> int:
            return 500

    run = lab.fit(Model(), Batches())
    run.check_books()
    summary = run.callback.summary()
    inside = {name: sum(ns or 0 for ns in run.steps[f"{name}_ns"]) for name in STEP_ACCOUNT_NAMES}
    inside["other"] += inside.pop("batch_prep")
    assert max(inside, key=lambda name: inside[name]) == "other"
    assert summary["verdict"]["kind"] != "COMPUTE_BOUND"
    shares = {name: m["share"] for name, m in summary["step_time"]["metrics"].items()}
    assert shares["residual"] > max(shares["forward"], shares["backward"], shares["optimizer"])


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_l28_several_loaders_are_one_wait_of_one_step(lab: Any, kind: str) -> None:
    """PL#17639: what several loaders cost together was unclear."""
    slow, slower = lab.loader(3, 20), lab.loader(2, 30)

    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return sum(self.net(each).mean() for each in _values(batch))

    run = lab.fit(Model(), {"a": slow, "b": slower} if kind == "dict" else [slow, slower])
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 3  # the short loader begins again
    assert run.steps["input_wait_calls"] == [1] * 3
    assert min(run.column_ms("input_wait")) >= 50
    run.check_truth("input_wait", "forward")


def _values(batch: Any) -> Any:
    return batch.values() if isinstance(batch, dict) else batch
