"""Training that goes on from a checkpoint: what is skipped is no waiting for input."""

from typing import Any

from tests.labs.huggingface import Recipe, Sleeps, read
from traintrace.facts import WARMUP


def _save_and_resume(recipe: Recipe, callback: Any, **arguments: Any) -> Any:
    sleeps = Sleeps(item=40)
    options = {"batches": 6, "save_strategy": "steps", "save_steps": 3, **arguments}
    recipe.trainer(sleeps=sleeps, **options).train()
    checkpoint = str(recipe.folder / "out" / "checkpoint-3")
    recipe.truth.ns.clear()
    recipe.truth.each.clear()
    recipe.trainer(callback, sleeps=sleeps, **options).train(resume_from_checkpoint=checkpoint)
    return read(callback)


def test_batches_of_a_stream_are_skipped_exactly(recipe: Recipe) -> None:
    callback = recipe.callback()
    rank = _save_and_resume(recipe, callback, stream=True, max_steps=6, batch_size=1)
    totals = rank.totals
    assert rank.columns["framework_step"] == [4, 5, 6]
    # Six batches of 40 ms: three to skip, then three to train on. The first delivery fetches two.
    each = recipe.truth.each["input_wait"]
    assert len(each) == 6
    assert totals.account_ns["resume_skip"] >= sum(each[:3]) >= 120_000_000
    assert totals.inside_ns["resume_skip"] == 0
    waits = [ns or 0 for ns in rank.columns["input_wait_ns"]]
    assert waits[0] >= sum(each[3:5])
    assert waits[1] >= each[5]


def test_a_map_style_set_skips_nothing(recipe: Recipe) -> None:
    callback = recipe.callback()
    rank = _save_and_resume(recipe, callback, batch_size=1)
    assert rank.columns["framework_step"] == [4, 5, 6]
    assert "resume_skip" not in rank.totals.account_ns
    assert None not in rank.columns["input_wait_ns"]


def test_data_that_is_not_skipped_is_all_waiting(recipe: Recipe) -> None:
    callback = recipe.callback()
    rank = _save_and_resume(
        recipe, callback, stream=True, max_steps=6, batch_size=1, ignore_data_skip=True
    )
    assert rank.columns["framework_step"] == [4, 5, 6]
    assert "resume_skip" not in rank.totals.account_ns
    # The stream starts again: the first delivery fetches two items of six.
    waits = [ns or 0 for ns in rank.columns["input_wait_ns"]]
    assert waits[0] >= sum(recipe.truth.each["input_wait"][:2])
    assert rank.totals.account_ns["input_wait"] >= recipe.truth.ns["input_wait"]


def test_a_loader_that_does_not_tell_batches_apart_leaves_the_first_wait_unmeasured(
    recipe: Recipe, monkeypatch: Any
) -> None:
    callback = recipe.callback()
    monkeypatch.setattr(
        "traintrace_huggingface.wrappers.send",
        lambda boundaries: lambda original: lambda *a, **k: original(*a, **k),
    )
    rank = _save_and_resume(recipe, callback, stream=True, max_steps=6, batch_size=1)
    first, *rest = rank.columns["input_wait_ns"]
    assert first is None
    assert None not in rest
    assert rank.totals.account_ns["resume_skip"] >= 190_000_000
    # Its length lacks the wait: it is a step, and in no average.
    assert rank.totals.steps == 3
    assert [bool((flags or 0) & WARMUP) for flags in rank.columns["flags"]] == [True, False, False]
    (told,) = [event for event in rank.events if event.kind == "resume"]
    assert "in no average" in told.detail
