"""What modules log with `self.log` is kept: the names, values and steps that Lightning gives its loggers."""

import collections
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from traintrace_lightning import TraceCallback


def module(lab: Any, **options: Any) -> Any:
    class Logs(lab.pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.losses: list[float] = []

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = torch.nn.functional.dropout(self.layer(batch), 0.2).square().mean()
            self.losses.append(float(loss))
            if options.get("silent"):
                return loss
            self.log("train_loss", loss)
            self.log("both", 2.0 * loss, on_step=True, on_epoch=True)
            self.log("by_epoch", loss, on_step=False, on_epoch=True)
            if batch_idx % 4 == 3:
                self.log("now_and_then", loss + 1.0)
            for number in range(options.get("many", 0)):
                self.log(f"metric_{number}", float(number))
            return loss

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val_loss", self.layer(batch).square().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.05)

    return Logs()


def logger(lab: Any) -> Any:
    from importlib import import_module

    base = import_module(f"{lab.pl.__name__}.loggers.logger").Logger

    class Keeps(base):  # type: ignore[misc, valid-type]
        name, version = "keeps", 0

        def __init__(self) -> None:
            super().__init__()
            self.rows: list[tuple[int, str, float]] = []

        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            self.rows += [(step or 0, name, float(value)) for name, value in metrics.items()]

        def log_hyperparams(self, *arguments: Any, **more: Any) -> None:
            pass

    return Keeps()


def fit(lab: Any, callbacks: Any, accumulate: int = 1, keeps: Any = False, **options: Any) -> Any:
    torch.manual_seed(3)
    model = module(lab, **options)
    rows: Any = torch.randn(32, 4)
    trainer = lab.trainer(
        *callbacks,
        logger=keeps,
        log_every_n_steps=1,
        max_epochs=2,
        accumulate_grad_batches=accumulate,
        num_sanity_val_steps=1,
    )
    trainer.fit(model, DataLoader(rows, batch_size=2), DataLoader(rows[:4], batch_size=2))
    return model


def scalars(callback: TraceCallback) -> dict[str, dict[int, float]]:
    (rank,) = callback._session.as_run().facts(("step",)).ranks  # type: ignore[union-attr]
    found: dict[str, dict[int, float]] = collections.defaultdict(dict)
    for scalar in rank.scalars:
        assert scalar.step not in found[scalar.name], "one value a step"
        found[scalar.name][scalar.step] = scalar.value
    return dict(found)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_steps_values_are_those_of_lightnings_loggers(both: Any, accumulate: int) -> None:
    callback, keeps = both.callback(), logger(both)
    fit(both, [callback], accumulate, keeps)
    found = scalars(callback)
    steps = 2 * 16 // accumulate
    for name in ("train_loss", "both_step"):
        told = {step + 1: value for step, logged, value in keeps.rows if logged == name}
        assert found[name] == told
        assert sorted(told) == list(range(1, steps + 1))


def test_a_loss_under_accumulation_is_not_divided(lab: Any) -> None:
    callback = lab.callback()
    model = fit(lab, [callback], 4)
    last_of_group = model.losses[3::4]
    assert list(scalars(callback)["train_loss"].values()) == pytest.approx(last_of_group)


def test_values_of_epochs_and_evaluations_are_kept_without_a_logger(lab: Any) -> None:
    callback = lab.callback()
    fit(lab, [callback])
    found = scalars(callback)
    for name in ("val_loss", "both_epoch", "by_epoch"):
        assert sorted(found[name]) == [16, 32], name
    first = list(found["train_loss"].values())[:16]
    assert found["by_epoch"][16] == pytest.approx(sum(first) / 16)


def test_a_value_is_noted_once_when_it_was_logged(lab: Any) -> None:
    callback = lab.callback()
    fit(lab, [callback])
    assert sorted(scalars(callback)["now_and_then"]) == [4, 8, 12, 16, 20, 24, 28, 32]


@pytest.mark.parametrize("accumulate", [1, 4])
def test_training_and_what_is_logged_stay_the_same_to_the_bit(lab: Any, accumulate: int) -> None:
    alone, beside = logger(lab), logger(lab)
    without = fit(lab, [], accumulate, alone)
    state = torch.get_rng_state()
    traced = fit(lab, [lab.callback()], accumulate, beside)
    assert torch.equal(state, torch.get_rng_state())
    assert without.losses == traced.losses
    assert alone.rows == beside.rows
    assert all(map(torch.equal, without.parameters(), traced.parameters()))


def test_a_module_that_logs_nothing_has_no_values(lab: Any) -> None:
    callback = lab.callback()
    fit(lab, [callback], silent=True)
    assert set(scalars(callback)) == {"val_loss"}


def test_names_beyond_the_first_64_are_left_out_and_that_is_said(lab: Any) -> None:
    callback = lab.callback()
    fit(lab, [callback], many=70)
    (rank,) = callback._session.as_run().facts(("step",)).ranks
    assert len({scalar.name for scalar in rank.scalars}) == 64
    assert "64" in rank.unmeasured["logged_values"]
