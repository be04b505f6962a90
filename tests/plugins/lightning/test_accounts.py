"""Where the time of a fit goes: exact sums, disjoint accounts, and the recipe's own truth."""

from typing import Any

import pytest
import torch

from traintrace import facts


@pytest.mark.parametrize(
    ("accumulation", "groups"),
    [(1, [1] * 9), (2, [2, 2, 2, 2, 1]), (4, [4, 4, 1])],
)
def test_steps_are_groups_and_every_phase_holds_what_its_bodies_took(
    both: Any, accumulation: int, groups: list[int]
) -> None:
    phases = ("input_wait", "forward", "backward", "optimizer")
    run = both.fit(both.Model(), both.loader(9), accumulate_grad_batches=accumulation)
    run.check_books()
    run.check_truth(*phases)
    for phase, ms in zip(phases, (5, 3, 4, 2), strict=True) if accumulation == 1 else ():
        assert min(run.column_ms(phase)) >= ms, phase
    assert run.steps["micro_batches"] == groups
    assert run.steps["samples"] == groups
    assert run.steps["framework_step"] == list(range(1, len(groups) + 1))
    assert run.steps["optimizer_calls"] == [1] * len(groups)
    assert run.steps["forward_calls"] == groups == run.steps["backward_calls"]
    partial = [count < accumulation for count in groups]
    assert run.flagged(facts.PARTIAL_GROUP) == partial
    assert run.flagged(facts.EPOCH_FIRST) == [True] + [False] * (len(groups) - 1)
    assert run.facts.framework == both.pl.__name__.partition(".")[0]
    assert "h2d" not in run.rank.totals.account_ns
    assert run.rank.unmeasured["h2d"] == "no device"


def test_evaluation_checkpoints_and_logging_are_no_training_time(both: Any) -> None:
    lab = both

    class Logger(lab.pl.loggers.CSVLogger):  # type: ignore[misc, name-defined]
        def log_metrics(self, metrics: Any, step: Any = None) -> None:
            lab.work("logging", 6)

    class Model(lab.Model):  # type: ignore[misc, name-defined]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            lab.work("evaluation", 60)
            self.net.weight.new_zeros(1)

        def on_save_checkpoint(self, checkpoint: Any) -> None:
            lab.work("checkpoint", 15)

    saver = lab.pl.callbacks.ModelCheckpoint(
        lab.folder / "saved", every_n_train_steps=2, save_top_k=-1
    )
    run = lab.fit(
        Model(),
        lab.loader(6),
        lab.evaluation_loader(),
        callbacks=[saver],
        logger=Logger(lab.folder),
        log_every_n_steps=2,
        val_check_interval=2,
        num_sanity_val_steps=1,
        enable_checkpointing=True,
    )
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 6
    run.check_truth("forward", "backward", "optimizer")
    assert run.taken["evaluation calls"] == 7
    assert run.taken["checkpoint calls"] == 3 == run.taken["logging calls"]


def test_a_transfer_hook_of_the_user_is_h2d_even_without_a_device(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
            lab.work("h2d" if self.trainer.training else "evaluation", 8)
            return batch

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            pass

    run = lab.fit(Model(), lab.loader(4), lab.evaluation_loader(), accumulate_grad_batches=2)
    run.check_books()
    assert run.rank.totals.calls["h2d"] == 4
    run.check_truth("h2d", "input_wait")
    assert "h2d" not in run.rank.unmeasured


def test_a_transfer_hook_of_the_data_module_is_h2d(lab: Any) -> None:
    class Data(lab.pl.LightningDataModule):  # type: ignore[misc]
        def train_dataloader(self) -> Any:
            return lab.loader(3, 0)

        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            lab.work("h2d", 8)
            return batch

    run = lab.fit(lab.Model(), Data())
    run.check_truth("h2d")


def test_hooks_of_other_callbacks_are_callbacks_and_clipping_is_clip(lab: Any) -> None:
    class Slow(lab.pl.Callback):  # type: ignore[misc]
        def on_train_batch_start(self, *arguments: Any) -> None:
            lab.work("callbacks", 4)

        def on_after_backward(self, *arguments: Any) -> None:
            lab.work("callbacks", 3)

        def on_train_batch_end(self, *arguments: Any) -> None:
            lab.work("callbacks", 2)

    class Model(lab.Model):  # type: ignore[misc]
        def configure_gradient_clipping(self, *arguments: Any, **named: Any) -> None:
            lab.work("clip", 5)

    run = lab.fit(Model(), lab.loader(4, 0), callbacks=[Slow()])
    run.check_books()
    run.check_truth("callbacks", "clip", "backward", "optimizer", "forward")
    assert all(ns > 8e6 for ns in run.steps["callbacks_ns"])


@pytest.mark.parametrize("automatic", [False, True])
def test_clipping_by_hand_is_clip(
    lab: Any, automatic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = automatic

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            if automatic:
                return loss
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            self.clip_gradients(optimizer, 1.0, "norm")
            optimizer.step()

    clip = torch.nn.utils.clip_grad_norm_

    def slow_clip(*arguments: Any, **named: Any) -> Any:
        lab.work("clip", 5)
        return clip(*arguments, **named)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", slow_clip)
    options: dict[str, Any] = {"gradient_clip_val": 1.0} if automatic else {}
    run = lab.fit(Model(), lab.loader(3, 0), **options)
    run.check_books()
    run.check_truth("clip", "backward", "optimizer", "forward")
    assert run.taken["clip calls"] == 3


def test_idle_hooks_cost_nothing(lab: Any) -> None:
    run = lab.fit(lab.Model(), lab.loader(8, 0), callbacks=[lab.pl.Callback()])
    # fetch, forward, backward, closure, optimizer (twice where torch has hooked the optimizer's base
    # class as well): two marks each, and a few for the whole epoch.
    assert run.rank.totals.transitions <= 12 * 8 + 20
    assert run.rank.totals.calls.get("callbacks", 0) == 0


def test_work_of_the_step_outside_the_model_is_other_and_metrics_are_no_forward(lab: Any) -> None:
    class Metric(torch.nn.Module):
        __module__ = "torchmetrics.metric"

        def forward(self, x: Any) -> None:
            lab.work("other", 6)

    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.metric = Metric()

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            self.metric(loss)
            return loss

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_truth("forward", "optimizer")


def test_forward_is_seen_in_containers_and_when_the_module_calls_itself(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net: Any = torch.nn.ModuleDict({"parts": torch.nn.ModuleList([lab.Net(4, 1)])})

        def forward(self, x: Any) -> Any:
            lab.work("forward", 2)
            return self.net["parts"][0](x)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            step = self.net["parts"][0] if batch_idx % 2 else self
            return step(batch).mean()

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    run.check_truth("forward")
    assert run.steps["forward_calls"] == [1] * 4


def test_where_no_module_is_called_all_of_the_training_step_stands_in(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            lab.work("forward", 3)
            return torch.nn.functional.linear(batch, self.net.weight, self.net.bias).mean()

    run = lab.fit(Model(), lab.loader(4, 0))
    run.check_books()
    assert run.steps["forward_ns"][0] is None
    assert all(ns >= 3e6 for ns in run.steps["forward_ns"][1:])
    assert [event.kind for event in run.rank.events].count("approximation") == 1


def test_level_step_times_waits_and_steps_only(lab: Any) -> None:
    callback = lab.callback(level="step")
    trainer = lab.trainer(callback, gradient_clip_val=1.0)
    trainer.fit(lab.Model(), lab.loader(3))
    rank = callback._session.as_run().facts(["input_wait_ns", "forward_ns"]).ranks[0]
    assert rank.totals.steps == 3
    assert set(rank.totals.account_ns) & {"forward", "backward", "optimizer", "clip"} == set()
    assert rank.unmeasured["forward"] == 'the trace level is "step"'
    assert min(rank.columns["input_wait_ns"]) > 5e6


def test_the_configuration_is_described(lab: Any) -> None:
    model = lab.Model()
    model.net = torch.nn.Linear(4, 1)
    run = lab.fit(model, lab.loader(4, 0, batch_size=2), accumulate_grad_batches=2)
    setup = run.rank.setup
    assert setup.compiled is False
    assert (setup.strategy, setup.device_kind, setup.precision) == (
        "single_process",
        "cpu",
        "32-true",
    )
    assert (setup.accumulation, setup.batch_size, setup.loader.workers) == (2, 2, 0)
    assert setup.parameter_count == 5
    assert setup.batch_bytes == 2 * 4 * 4
    assert run.steps["samples"] == [4]
