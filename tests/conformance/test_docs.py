"""The page for authors of plugins: its example runs, and it names what there is."""

import dataclasses
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from traintrace.testing.conformance import run_recipe
from traintrace.testing.device_times import run_on_device
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Recipe
from traintrace.testing.truth import ACCOUNT_OF
from traintrace_plain_torch import trace

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


class _Tracer:
    """Stands in for the tracer of somebody's plugin."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.run_folder: Path | None = None


def _fit(model: Any, optimizer: Any, loader: Any, **how: Any) -> None:
    """Stands in for somebody's framework, its plugin included."""
    (callback,) = how["callbacks"]
    steps = 0
    with trace(model, optimizer, run_dir=callback.run_dir, print_report=False) as tracer:
        for _ in range(how["epochs"]):
            for index, batch in enumerate(tracer.batches(loader)):
                ends = (index + 1) % how["accumulate"] == 0 or index + 1 == len(loader)
                with tracer.step():
                    with tracer.phase("h2d"):
                        batch = batch.to("cpu")
                    model(**batch)["loss"].backward()
                    if ends:
                        optimizer.step()
                        optimizer.zero_grad()
                steps += ends
                if ends and how["saves_after"](steps):
                    with tracer.checkpointing():
                        how["save"]()
                if ends and how["evaluates_after"](steps):
                    with tracer.evaluating():
                        how["evaluate"]()
        how["at_end"]()
    callback.run_folder = tracer.run_folder


def test_the_example_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("my_framework", {"fit": _fit}), ("my_plugin", {"Tracer": _Tracer})):
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(example.splitlines()) <= 35
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    recipe = Recipe(accumulation=4, evaluate_every=1, checkpoint_every=2)
    wrong = [row for row in run_recipe(names["MINE"], recipe).rows if not row.is_right]
    assert wrong == []
    device = dataclasses.replace(
        names["MINE"], device_clock="traintrace_plain_torch.seams:device_clock"
    )
    assert all(row.is_right for row in run_on_device(device, recipe))


def test_every_field_and_part_is_explained() -> None:
    text = PAGE.read_text("utf-8")
    for field in dataclasses.fields(Integration)[2:]:
        assert f"`{field.name}=" in text, field.name
    for part in ACCOUNT_OF:
        assert f"`{part}`" in text, part
