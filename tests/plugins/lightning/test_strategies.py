"""Strategies and precisions: their names, who accumulates, and what a scaler skips."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from traintrace import facts
from traintrace_lightning import opening


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        ("SingleDeviceStrategy", "single_process"),
        ("DDPStrategy", "ddp"),
        ("FSDPStrategy", "fsdp"),
        ("ModelParallelStrategy", "fsdp2"),
        ("DeepSpeedStrategy", "deepspeed"),
        ("XLAStrategy", "xla"),
    ],
)
def test_strategies_have_the_names_that_all_plugins_use(lab: Any, cls: str, name: str) -> None:
    strategies = import_module(f"{lab.pl.__name__}.strategies")
    own = type("Own", (getattr(strategies, cls),), {})  # a user's subclass is known by its base
    for made in (getattr(strategies, cls), own):
        assert opening.strategy_name(object.__new__(made)) == name


def test_a_strategy_of_nobodys_base_has_its_own_name() -> None:
    assert opening.strategy_name(SimpleNamespace(strategy_name="mine")) == "mine"
    assert opening.strategy_name(SimpleNamespace()) == "SimpleNamespace"


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_strategy_that_accumulates_by_itself_ends_a_group_where_it_updates(
    lab: Any, epochs: int
) -> None:
    """As DeepSpeed's: `optimizer_step` is called at every micro-batch, and a short group is not updated."""
    base = import_module(f"{lab.pl.__name__}.strategies").SingleDeviceStrategy

    class Accumulates(base):  # type: ignore[misc, valid-type]
        seen = 0

        @property
        def handles_gradient_accumulation(self) -> bool:
            return True

        def optimizer_step(
            self, optimizer: Any, closure: Any, *arguments: Any, **named: Any
        ) -> Any:
            self.seen += 1
            if self.seen % 5 not in (2, 4):
                return closure()
            return super().optimizer_step(optimizer, closure, *arguments, **named)

    run = lab.fit(
        lab.Model(),
        lab.loader(5),
        strategy=Accumulates(accelerator=None, device=torch.device("cpu")),
        accelerator="auto",
        accumulate_grad_batches=2,
        max_epochs=epochs,
    )
    run.check_books()
    assert run.steps["micro_batches"] == [2, 2] * epochs
    assert run.steps["optimizer_calls"] == [1, 1] * epochs
    assert run.steps["framework_step"] == list(range(1, 2 * epochs + 1))
    assert run.rank.totals.steps_aborted == epochs  # Lightning zeroes what the last one left
    assert not any(run.flagged(facts.PARTIAL_GROUP))
    assert run.rank.setup.strategy == "single_process"


def test_a_schedule_of_accumulation_changes_the_groups(lab: Any) -> None:
    schedule = lab.pl.callbacks.GradientAccumulationScheduler({0: 1, 1: 2, 2: 4})
    run = lab.fit(lab.Model(), lab.loader(5, 0), callbacks=[schedule], max_epochs=3)
    run.check_books()
    assert run.steps["micro_batches"] == [1] * 5 + [2, 2, 1] + [4, 1]
    assert run.steps["epoch"] == [0] * 5 + [1] * 3 + [2] * 2
    assert run.flagged(facts.PARTIAL_GROUP) == [False] * 7 + [True, False, True]
    run.check_truth("forward", "backward", "optimizer")


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true", "16-true"])
def test_every_precision_has_all_phases(both: Any, precision: str) -> None:
    class Model(both.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return super().training_step(batch, batch_idx).float()

    run = both.fit(Model(), both.loader(4), precision=precision, accumulate_grad_batches=2)
    run.check_books()
    run.check_truth("input_wait", "forward", "backward", "optimizer")
    assert run.steps["micro_batches"] == [2, 2]
    assert run.steps["forward_calls"] == [2, 2] == run.steps["backward_calls"]
    assert run.rank.setup.precision == precision
    assert run.steps["optimizer_calls"] == [1, 1]


def _known(run: Any) -> list[bool | None]:
    """Give, for each step, whether its update was skipped; None where that is not known."""
    known = run.flagged(facts.UPDATE_SKIPPED_KNOWN)
    skipped = run.flagged(facts.UPDATE_SKIPPED)
    return [s if k else None for k, s in zip(known, skipped, strict=True)]


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_scaler_that_skips_is_a_step_with_a_skipped_update(lab: Any, accumulation: int) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            return loss * float("inf") if batch_idx // accumulation == 1 else loss

    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    precision = lab.pl.plugins.MixedPrecision("16-mixed", "cpu", scaler)
    run = lab.fit(
        Model(), lab.loader(6, 0), plugins=[precision], accumulate_grad_batches=accumulation
    )
    run.check_books()
    assert run.steps["micro_batches"] == [accumulation] * (6 // accumulation)
    expected = [index == 1 for index in range(6 // accumulation)]
    assert _known(run) == expected
    assert run.steps["optimizer_calls"] == [0 if skipped else 1 for skipped in expected]
    assert run.steps["framework_step"] == list(range(1, 6 // accumulation + 1))
    assert run.callback.summary()["counts"]["updates_skipped"] == 1


def test_a_fused_update_under_a_scaler_may_have_been_skipped_on_the_device(lab: Any) -> None:
    class Model(lab.Model):  # type: ignore[misc]
        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)

    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    precision = lab.pl.plugins.MixedPrecision("16-mixed", "cpu", scaler)
    run = lab.fit(Model(), lab.loader(2, 0), plugins=[precision])
    run.check_books()
    assert _known(run) == [None, None]
