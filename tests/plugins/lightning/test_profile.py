"""The callback's option `profile_steps`, with and without a profiler of the Trainer's own."""

from typing import Any

from traintrace.facts import PROFILED
from traintrace_reporting.traces.places import own_traces


def test_the_chosen_steps_of_a_fit_are_traced(lab: Any, read: Any) -> None:
    callback = lab.callback(profile_steps=(2, 3))
    trainer = lab.trainer(callback, accumulate_grad_batches=2)
    trainer.fit(lab.Model(), lab.loader(10))
    run = read(callback, trainer, lab.taken)
    assert run.flagged(PROFILED) == [False, True, True, False, False]
    (trace,), notes = own_traces(callback.run_folder)
    assert notes == []
    assert [name for name in trace.names if "traintrace.step" in name] == [
        "traintrace.step#2",
        "traintrace.step#3",
    ]


def test_the_trainers_own_profiler_goes_first(lab: Any, read: Any) -> None:
    from lightning.pytorch.profilers import PyTorchProfiler

    callback = lab.callback(profile_steps=(2, 3))
    trainer = lab.trainer(
        callback, profiler=PyTorchProfiler(dirpath=str(lab.folder), filename="own")
    )
    trainer.fit(lab.Model(), lab.loader(8))
    run = read(callback, trainer, lab.taken)
    assert "another profiler" in run.rank.unmeasured["profile"]
    assert own_traces(callback.run_folder) == ([], [])
