"""Loops of Accelerate and Fabric: the plain plugin, with models, optimizers and loaders wrapped by others."""

from pathlib import Path
from typing import Any

from tests.conformance.plain import CLOCK, between_steps
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Parts, Recipe
from traintrace_plain_torch import trace


def _accelerate(recipe: Recipe, parts: Parts, folder: Path) -> Path:
    from accelerate import Accelerator  # type: ignore[import-untyped]  # accelerate has no types
    from accelerate.state import (  # type: ignore[import-untyped]
        AcceleratorState,
        GradientState,
    )

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(
        cpu=parts.device.type == "cpu", gradient_accumulation_steps=recipe.accumulation
    )
    model, optimizer, loader = accelerator.prepare(
        parts.model, parts.optimizer(), parts.training_loader()
    )
    updates = 0
    with trace(model, optimizer, run_dir=folder, print_report=False) as tracer:
        for _ in range(recipe.epochs):
            for batch in tracer.batches(loader):
                with tracer.step(), accelerator.accumulate(model):
                    accelerator.backward(model(**batch)["loss"])
                    optimizer.step()
                    optimizer.zero_grad()
                if accelerator.sync_gradients:
                    updates += 1
                    between_steps(tracer, recipe, parts, updates)
        parts.finish()
    assert tracer.run_folder is not None
    return tracer.run_folder


def _fabric(recipe: Recipe, parts: Parts, folder: Path) -> Path:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu" if parts.device.type == "cpu" else "gpu", devices=1)
    optimizer: Any
    model, optimizer = fabric.setup(parts.model, parts.optimizer())
    loader = fabric.setup_dataloaders(parts.training_loader())
    updates = 0
    with trace(model, optimizer, run_dir=folder, print_report=False) as tracer:
        for _ in range(recipe.epochs):
            for index, batch in enumerate(tracer.batches(loader)):
                ends = (index + 1) % recipe.accumulation == 0 or index + 1 == recipe.batches
                with tracer.step():
                    fabric.backward(model(**batch)["loss"] / recipe.accumulation)
                    if ends:
                        optimizer.step()
                        optimizer.zero_grad()
                if ends:
                    updates += 1
                    between_steps(tracer, recipe, parts, updates)
        parts.finish()
    assert tracer.run_folder is not None
    return tracer.run_folder


# Both loaders move batches themselves, inside a request: without a device nothing tells that from the wait.
ACCELERATE = Integration(
    "Accelerate",
    _accelerate,
    unmeasured={"h2d": "input_wait"},
    framework_ms={"input_wait": 0.1},  # it looks for tensors and keeps the loader's state
    looks_ahead=True,
    device_clock=CLOCK,
)
FABRIC = Integration(
    "Fabric",
    _fabric,
    unmeasured={"h2d": "input_wait"},
    # The model is Fabric's wrapper, which converts its arguments, and so is the loader.
    framework_ms={"forward": 0.3, "input_wait": 0.1},
    device_clock=CLOCK,
)
