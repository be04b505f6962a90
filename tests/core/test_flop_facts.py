"""What is known of the work of a rank comes back as it was written, and without what cannot be read."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from traintrace.flopfacts import CountedStep, DenseModel, FlopFacts

STEP = CountedStep(3, 2, 64, None, 4_096, {"bf16": 2**70, "fp32": 5}, 2**69, 12)
FACTS = FlopFacts((STEP,), ("own::kernel",), "", 1.5e12, 989.5, True)
ANYTHING = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=3),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner),
    max_leaves=6,
)


def test_it_comes_back_as_it_was_written() -> None:
    assert FlopFacts.from_json(json.loads(json.dumps(asdict(FACTS)))) == FACTS
    assert STEP.total == 2**70 + 5
    model = DenseModel(7_000, "llama")
    assert DenseModel.from_json(asdict(model)) == model


@pytest.mark.parametrize("nothing", [None, {}, [], "text", 3])
def test_a_file_that_says_nothing_gives_nothing(nothing: Any) -> None:
    assert FlopFacts.from_json(nothing) is None
    assert DenseModel.from_json(nothing) is None


@settings(max_examples=100, deadline=None)
@given(
    name=some.sampled_from(list(asdict(FACTS))),
    inside=some.none() | some.sampled_from(list(asdict(STEP))),
    value=ANYTHING,
)
def test_any_damage_leaves_the_rest(name: str, inside: str | None, value: object) -> None:
    content = asdict(FACTS)
    if inside is None:
        content[name] = value
    else:
        content["counted"][0][inside] = value
    read = FlopFacts.from_json(content)
    assert read is not None
    if inside is None and name != "counted":
        assert read.counted == (STEP,)
    assert all(isinstance(flops, int) for step in read.counted for flops in step.flops.values())
    assert read.flops_per_step is None or read.flops_per_step > 0.0
