"""Public reports about the Trainer: speed after a resume, and what belongs to a step.

Lower bounds are what clocks around the sleeping bodies recorded. Accounts are disjoint and sum to the
wall time, so time that is booked in a wrong place is missing in the right one.
"""

from typing import Any

from tests.labs.huggingface import Items, Recipe, Sleeps, SlowEdges, read, spans_ns


def test_h01_rates_after_a_resume_count_this_session_alone(
    recipe: Recipe, with_report: None
) -> None:
    """HF#40560: tokens per second were huge right after a resume, and decayed slowly."""
    options: dict[str, Any] = {
        "sleeps": Sleeps(item=20, forward=30),
        "stream": True,
        "max_steps": 10,
        "batches": 10,
        "batch_size": 1,
        "save_strategy": "steps",
        "save_steps": 6,
    }
    recipe.trainer(**options).train()
    recipe.truth.each.clear()
    callback = recipe.callback()
    checkpoint = str(recipe.folder / "out" / "checkpoint-6")
    recipe.trainer(callback, **options).train(resume_from_checkpoint=checkpoint)
    summary, rank = callback.summary(), read(callback)
    assert rank.columns["framework_step"] == [7, 8, 9, 10]
    assert summary["counts"]["steps"] == summary["counts"]["samples"] == 4
    # A step sleeps 30 ms in its forward: with the ten steps of both sessions this would be 2.5 times more.
    for rate in ("steps_per_s", "samples_per_s"):
        assert 0 < summary["throughput"][rate]["step"] <= 1e3 / 30
    # Going through six batches that were trained on before is no part of any step.
    assert rank.totals.account_ns["resume_skip"] >= sum(recipe.truth.each["input_wait"][:6])


def test_h03_a_step_covers_all_its_micro_batches(recipe: Recipe) -> None:
    """HF#10839: the step began at the wrong micro-batch, which broke callbacks that time steps."""
    callback = recipe.callback()
    sleeps = Sleeps(item=2, forward=10)
    recipe.trainer(callback, sleeps=sleeps, batches=8, accumulate=4, batch_size=1).train()
    rank = read(callback)
    assert rank.columns["micro_batches"] == [4, 4]
    forward = recipe.truth.each["forward"]
    for row, taken in enumerate(spans_ns(rank)):
        assert taken >= sum(forward[4 * row : 4 * row + 4]) >= 40_000_000


def test_h04_micro_batches_are_counted_and_timed_inside_their_step(recipe: Recipe) -> None:
    """HF#12920: nothing marked the micro-batches inside an update."""
    callback = recipe.callback()
    sleeps = Sleeps(forward=8, backward=8, optimizer=8)
    recipe.trainer(callback, sleeps=sleeps, batches=6, accumulate=3).train()
    rank = read(callback)
    assert rank.columns["micro_batches"] == [3, 3]
    assert rank.columns["forward_calls"] == rank.columns["backward_calls"] == [3, 3]
    assert rank.columns["optimizer_calls"] == [1, 1]
    for phase, each in (("forward", 3), ("backward", 3), ("optimizer", 1)):
        truth = recipe.truth.each[phase]
        for row, ns in enumerate(rank.columns[f"{phase}_ns"]):
            assert (ns or 0) >= sum(truth[each * row : each * row + each]), phase


def test_h05_input_belongs_to_the_step_that_it_feeds(recipe: Recipe) -> None:
    """TML#451, TML#470: batches are fetched before the step-begin event, so they fell outside the step.

    accelerate fetches one batch ahead: the first group pays for three batches, the last one for one.
    """
    callback = recipe.callback()
    sleeps = Sleeps(item=40)
    recipe.trainer(callback, sleeps=sleeps, batches=6, accumulate=2, batch_size=1).train()
    rank = read(callback)
    each = recipe.truth.each["input_wait"]
    assert len(each) == 6
    fetched = [sum(each[:3]), sum(each[3:5]), each[5]]
    for waited, true, taken in zip(
        rank.columns["input_wait_ns"], fetched, spans_ns(rank), strict=True
    ):
        assert taken >= (waited or 0) >= true


def test_h05_finding_the_end_of_the_data_is_no_wait_for_input(recipe: Recipe) -> None:
    """TML#451: the last group is delivered after a fetch that brings nothing and stops the workers."""
    callback = recipe.callback()
    data = SlowEdges(Items(recipe.truth, 6, "input_wait", 2), ms=40)
    recipe.trainer(callback, dataset=data, batch_size=1, accumulate=2, max_steps=3).train()
    rank, truth = read(callback), recipe.truth.ns
    assert rank.columns["micro_batches"] == [2, 2, 2]
    assert rank.totals.account_ns["input_wait"] >= truth["input_wait"]
    assert rank.totals.account_ns["epoch_boundary"] >= truth["begin"] + truth["end"] >= 80_000_000
    # It is in the span of the step that it delays.
    assert spans_ns(rank)[2] >= truth["end"]


def test_h06_evaluation_fetches_are_no_wait_of_the_next_step(recipe: Recipe) -> None:
    """TML#451: the loading of evaluation batches was billed to the next training step."""
    callback = recipe.callback()
    sleeps = Sleeps(item=1, evaluation_item=40)
    recipe.trainer(
        callback, sleeps=sleeps, batches=3, batch_size=1, eval_strategy="steps", eval_steps=1
    ).train()
    rank = read(callback)
    assert recipe.truth.calls["evaluation"] == 3 * (4 + 4)  # items, and batches of one
    assert rank.totals.account_ns["evaluation"] >= recipe.truth.ns["evaluation"]
    assert rank.totals.inside_ns["evaluation"] == 0
    # Each evaluation loads 160 ms of items; a step's own wait is one item of 1 ms.
    assert min(ns or 0 for ns in rank.columns["input_wait_ns"][1:]) < 160_000_000
