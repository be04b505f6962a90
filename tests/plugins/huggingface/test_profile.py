"""The callback's option `profile_steps`."""

from tests.labs.huggingface import Recipe, read
from traintrace.facts import PROFILED
from traintrace_reporting.traces.places import own_traces


def test_the_chosen_steps_of_a_training_are_traced(recipe: Recipe) -> None:
    callback = recipe.callback(profile_steps=(2, 3))
    recipe.trainer(callback, batches=10, accumulate=2).train()
    rank = read(callback)
    flags = [bool(bits and bits & PROFILED) for bits in rank.columns["flags"]]
    assert flags == [False, True, True, False, False]
    assert callback.run_folder is not None
    (trace,), notes = own_traces(callback.run_folder)
    assert notes == []
    assert [name for name in trace.names if "traintrace.step" in name] == [
        "traintrace.step#2",
        "traintrace.step#3",
    ]
