"""What the Trainer logs is kept: its names, values and steps."""

from collections import defaultdict
from typing import Any

import pytest
import torch
from transformers import Trainer, set_seed

from tests.labs.huggingface import Recipe, read

KEPT = ("loss", "grad_norm", "learning_rate", "eval_loss", "my_metric")


class LogsMore(Trainer):
    def training_step(self, *arguments: Any, **more: Any) -> Any:
        loss = super().training_step(*arguments, **more)
        if self.state.global_step == 2:
            self.log({"my_metric": 0.5, "words": "none"})  # type: ignore[dict-item]
        return loss


def train(recipe: Recipe, accumulate: int, *callbacks: Any) -> Any:
    set_seed(5)
    trainer = recipe.trainer(
        *callbacks,
        kind=LogsMore,
        batches=24,
        accumulate=accumulate,
        logging_strategy="steps",
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=2,
        max_grad_norm=1.0,
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("accumulate", [1, 4])
def test_values_are_those_of_the_trainers_own_history(recipe: Recipe, accumulate: int) -> None:
    callback = recipe.callback()
    trainer = train(recipe, accumulate, callback)
    told: dict[str, dict[int, float]] = defaultdict(dict)
    for entry in trainer.state.log_history:
        for name in KEPT:
            if name in entry:
                told[name][entry["step"]] = float(entry[name])
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for scalar in read(callback).scalars:
        found[scalar.name][scalar.step] = scalar.value
    assert found == told
    assert len(found["loss"]) == 24 // accumulate


def test_training_and_its_history_stay_the_same_to_the_bit(recipe: Recipe) -> None:
    def state(trainer: Any) -> Any:
        losses = [entry.get("loss") for entry in trainer.state.log_history]
        return losses, [p.detach().clone() for p in trainer.model.parameters()]

    losses, weights = state(train(recipe, 4))
    generator = torch.get_rng_state()
    traced_losses, traced_weights = state(train(recipe, 4, recipe.callback()))
    assert losses == traced_losses
    assert all(map(torch.equal, weights, traced_weights))
    assert torch.equal(generator, torch.get_rng_state())
