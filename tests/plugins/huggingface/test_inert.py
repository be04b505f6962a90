"""Training is the same to the bit, whether it is traced, disabled or not traced at all."""

import random
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
from transformers import TrainerCallback, set_seed

from tests.labs.huggingface import Recipe, read


def _train(recipe: Recipe, mode: str, **arguments: Any) -> tuple[Any, ...]:
    class Losses(TrainerCallback):
        seen: list[float] = []  # noqa: RUF012 - read below

        def on_log(self, *args: Any, logs: Any = None, **kwargs: Any) -> None:
            if "loss" in logs:
                Losses.seen.append(logs["loss"])

    Losses.seen = []
    set_seed(7)
    callbacks = [] if mode == "absent" else [recipe.callback(enabled=mode == "on")]
    trainer = recipe.trainer(
        *callbacks,
        Losses,
        batches=8,
        num_train_epochs=2,
        own_optimizer=False,
        logging_strategy="steps",
        logging_steps=1,
        eval_strategy="epoch",
        max_grad_norm=0.5,
        **arguments,
    )
    trainer.train()
    weights = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    drawn = (torch.rand(3).tolist(), random.random(), np.random.rand(2).tolist())
    return Losses.seen, weights, drawn


@pytest.mark.parametrize("accumulate", [1, 4])
def test_losses_weights_and_random_draws_are_identical(recipe: Recipe, accumulate: int) -> None:
    plain = _train(recipe, "absent", accumulate=accumulate)
    for mode in ("on", "disabled"):
        losses, weights, drawn = _train(recipe, mode, accumulate=accumulate)
        assert losses == plain[0]
        assert len(losses) == (16 if accumulate == 1 else 4)
        assert all(torch.equal(a, b) for a, b in zip(weights, plain[1], strict=True))
        assert drawn == plain[2]


def test_a_compiled_model_has_the_same_graphs(recipe: Recipe) -> None:
    class Pure(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.dropout = torch.nn.Linear(4, 4), torch.nn.Dropout(0.3)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
            return {"loss": self.dropout(self.linear(x)).square().mean()}

    counters: Any = torch._dynamo.utils.counters
    seen = []
    for mode in ("disabled", "on"):
        torch._dynamo.reset()
        counters.clear()
        set_seed(3)
        callback = recipe.callback(enabled=mode == "on")
        trainer = recipe.trainer(
            callback,
            model=Pure(),
            own_optimizer=False,
            torch_compile=True,
            torch_compile_backend="eager",
        )
        trainer.train()
        seen.append((counters["stats"]["unique_graphs"], dict(counters["graph_break"])))
        seen.append(trainer.model.linear.weight.tolist())
    assert seen[:2] == seen[2:]
    assert seen[0] == (1, {})
    assert read(callback).columns["forward_calls"] == [1] * 5
