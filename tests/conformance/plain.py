"""The plain recipe as users write it: every step marked, the loader wrapped, or nothing changed at all."""

import functools
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Parts, Recipe
from traintrace_plain_torch import trace

CLOCK = "traintrace_plain_torch.seams:device_clock"
_NOTHING: AbstractContextManager[None] = nullcontext()


def between_steps(tracer: Any, recipe: Recipe, parts: Parts, step: int) -> None:
    """Evaluate and save where the recipe wants it."""
    if recipe.checkpoints_after(step):
        with tracer.checkpointing():
            parts.save()
    if recipe.evaluates_after(step):
        with tracer.evaluating():
            parts.evaluate()


def _train(
    recipe: Recipe, parts: Parts, folder: Path, *, wraps_loader: bool, marks: bool = False
) -> Path:
    model, optimizer, loader = parts.model, parts.optimizer(), parts.training_loader()
    updates = 0
    with trace(model, optimizer, run_dir=folder, print_report=False) as tracer:
        for _ in range(recipe.epochs):
            batches: Iterable[Any] = tracer.batches(loader) if wraps_loader else loader
            for index, batch in enumerate(batches):
                ends = (index + 1) % recipe.accumulation == 0 or index + 1 == recipe.batches
                with tracer.step() if marks else _NOTHING:
                    with tracer.phase("h2d") if marks else _NOTHING:
                        batch = batch.to(parts.device)
                    (model(**batch)["loss"] / recipe.accumulation).backward()
                    if ends:
                        optimizer.step()
                        optimizer.zero_grad()
                if ends:
                    updates += 1
                    between_steps(tracer, recipe, parts, updates)
        parts.finish()
    assert tracer.run_folder is not None
    return tracer.run_folder


# Without a device there is no transfer to see; unless it is marked, it is in the residual.
MARKED = Integration(
    "plain, marked",
    functools.partial(_train, wraps_loader=True, marks=True),
    device_clock=CLOCK,
)
AUTOMATIC = Integration(
    "plain, loader wrapped",
    functools.partial(_train, wraps_loader=True),
    unmeasured={"h2d": "residual"},
    device_clock=CLOCK,
)
UNTOUCHED = Integration(
    "plain, untouched",
    functools.partial(_train, wraps_loader=False),
    unmeasured={"h2d": "residual"},
    device_clock=CLOCK,
)
