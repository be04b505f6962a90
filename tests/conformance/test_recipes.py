"""Which recipes are run: every pair of values that can occur together occurs."""

import itertools
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traintrace.testing.conformance import PARAMETERS, load_integration, main, recipes
from traintrace.testing.covering import full_product, pairwise
from traintrace.testing.recipe import Recipe


@settings(deadline=None)  # a busy machine
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_every_pair_of_values_is_covered(sizes: list[int]) -> None:
    parameters = {f"p{number}": range(size) for number, size in enumerate(sizes)}
    every, chosen = full_product(parameters), pairwise(parameters)
    assert len(every) == math.prod(sizes)
    for one, other in itertools.combinations(parameters, 2):
        wanted = set(itertools.product(parameters[one], parameters[other]))
        assert {(combination[one], combination[other]) for combination in chosen} == wanted
    for name, values in parameters.items():
        assert {combination[name] for combination in chosen} == set(values)
    assert len(chosen) <= len(every)
    assert pairwise(parameters) == chosen


def test_the_suite_is_small_and_the_product_is_whole() -> None:
    few, every = recipes(), recipes(full=True)
    assert set(few) <= set(every)
    assert len(few) <= 14
    assert len(every) == len(set(every)) == math.prod(map(len, PARAMETERS.values())) == 192
    # Not a pair of two numbers: workers that are stopped and started again between epochs.
    assert any(r.epochs == 2 and r.workers and not r.persistent for r in few)


def test_a_recipe_knows_its_partial_groups_and_samples() -> None:
    recipe = Recipe(accumulation=4, batches=9, epochs=2, evaluate_every=1, checkpoint_every=4)
    assert recipe.micro_batches == [4, 4, 1, 4, 4, 1]
    assert recipe.samples == [8, 8, 1, 8, 8, 1]  # the last batch of an epoch is a sample short
    assert [step for step in range(1, 7) if recipe.evaluates_after(step)] == [1, 2, 4, 5]
    assert [step for step in range(1, 7) if recipe.checkpoints_after(step)] == [4]
    assert (recipe.steps, recipe.evaluations, recipe.checkpoints) == (6, 4, 1)


def test_a_short_group_may_go_on_in_the_next_epoch() -> None:
    recipe = Recipe(4, batches=9, epochs=2, evaluate_every=1, carries_short_groups=True)
    assert recipe.micro_batches == [4, 4, 4, 4]
    assert recipe.samples == [8, 8, 7, 8]  # the short batch is the first of the third group
    assert (recipe.steps, recipe.evaluations) == (4, 4)
    whole = Recipe(4, batches=8, carries_short_groups=True)
    assert (whole.micro_batches, whole.samples) == ([4, 4], [8, 7])


@pytest.mark.parametrize("reference", ["no_colon", "os:path", "os:nothing", "no.such.module:X"])
def test_a_reference_that_names_no_integration_is_a_usage_error(
    reference: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([reference])
    assert caught.value.code == 2
    assert reference.partition(":")[0].split(".")[0] in capsys.readouterr().err


def test_what_tests_of_tracers_need_loads_no_torch() -> None:
    code = "import sys, traintrace.testing.checking; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_reference_is_imported() -> None:
    assert load_integration("tests.conformance.plain:MARKED").name == "plain, marked"
