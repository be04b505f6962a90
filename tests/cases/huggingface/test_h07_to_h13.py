"""Public reports about accelerate's loader and accumulation, failed attempts, optimizers and short groups."""

import time
from typing import Any

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]  # accelerate has no types
from packaging.version import Version
from torch.utils.data import DataLoader
from transformers import TrainerCallback

from tests.labs.huggingface import (
    ACCELERATE,
    NO_SLEEPS,
    UPDATES_SHORT_GROUPS,
    Items,
    Net,
    Recipe,
    Sleeps,
    SlowEdges,
    read,
    read_run,
)
from traintrace.facts import FLAG_NAMES, LOOKAHEAD, PARTIAL_GROUP, RankFacts
from traintrace_plain_torch import trace

FLAGS = {name: bit for bit, name in FLAG_NAMES.items()}


class SlowThird(Items):
    def __getitem__(self, index: Any) -> Any:
        self.ms = 120 if index == 3 else 2
        return super().__getitem__(index)


def _plain_loop(recipe: Recipe, items: Any, accumulate: int) -> RankFacts:
    """Train one epoch in a loop of one's own, with all that accelerate brings."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    model = Net(recipe.truth, NO_SLEEPS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(items))
    with trace(
        model, optimizer, run_dir=recipe.folder / "runs", name="loop", print_report=False
    ) as tracer:
        for batch in tracer.batches(loader):
            with tracer.step(), accelerator.accumulate(model):
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
    return read_run(recipe.folder / "runs" / "loop")


def test_h07_a_slow_item_is_felt_one_delivery_early(recipe: Recipe) -> None:
    """ACC#1245: the loader's wrapper was blamed for waits; it fetches one batch ahead.

    Item 3 delays the delivery of item 2; the first delivery costs two items and the last one none.
    """
    rank = _plain_loop(recipe, SlowThird(recipe.truth, 6, "input_wait", 2), 1)
    each = recipe.truth.each["input_wait"]
    fetched = [each[0] + each[1], each[2], each[3], each[4], each[5], 0]
    waits = [ns or 0 for ns in rank.columns["input_wait_ns"]]
    for waited, true in zip(waits, fetched, strict=True):
        assert waited >= true
    assert [rank.rank, rank.setup.strategy] == [0, "single_process"]


def test_h07_finding_the_end_of_the_data_is_no_wait_for_input(recipe: Recipe) -> None:
    """ACC#1245: the last delivery costs no item, but the fetch that finds that there is none."""
    rank = _plain_loop(recipe, SlowEdges(Items(recipe.truth, 4, "input_wait", 2), ms=40), 1)
    truth = recipe.truth.ns
    assert rank.columns["micro_batches"] == [1, 1, 1, 1]
    assert rank.totals.account_ns["input_wait"] >= truth["input_wait"]
    assert rank.totals.account_ns["epoch_boundary"] >= truth["begin"] + truth["end"] >= 80_000_000


def test_h07_the_wait_is_said_to_be_for_a_later_batch(recipe: Recipe) -> None:
    """ACC#1245: a reader of the waits must be told that they are for the batch after."""
    rank = _plain_loop(recipe, SlowThird(recipe.truth, 6, "input_wait", 2), 1)
    assert [bool((flags or 0) & LOOKAHEAD) for flags in rank.columns["flags"]] == [True] * 6


class TooBig(Net):
    """Runs out of memory with more than two samples, at the call of that number."""

    fails_at = 1
    calls = 0

    def think(self, x: torch.Tensor, labels: Any) -> Any:
        if len(x) > 2:
            self.calls += 1
            if self.calls == self.fails_at:
                self.calls = 0
                time.sleep(0.02)
                raise RuntimeError("CUDA out of memory.")
            self.truth.sleep("abandoned", 10)
        return super().think(x, labels)


def _search_batch_size(recipe: Recipe, fails_at: int) -> tuple[RankFacts, list[int]]:
    model = TooBig(recipe.truth, NO_SLEEPS)
    model.fails_at = fails_at
    callback = recipe.callback()
    recipe.trainer(
        callback,
        model=model,
        batch_size=4,
        batches=2,
        auto_find_batch_size=True,
        own_optimizer=False,
    ).train()
    return read(callback), [3, 2] if Version("1.2") <= ACCELERATE else [2]


def test_h08_failed_attempts_are_listed_and_in_no_count(recipe: Recipe) -> None:
    """sentence-transformers#3145: the step counter jumped back to 0 with no message."""
    rank, tried = _search_batch_size(recipe, fails_at=1)
    assert rank.columns["step"] == rank.columns["framework_step"] == [1, 2, 3, 4]
    assert rank.columns["samples"] == [2, 2, 2, 2]
    assert rank.columns["forward_calls"] == [1, 1, 1, 1]
    assert rank.totals.steps_aborted == len(tried)
    assert rank.totals.account_ns["aborted"] >= 20_000_000 * len(tried)
    attempts = [event for event in rank.events if event.kind == "attempt"]
    assert [event.detail for event in attempts] == [
        f"attempt {number} at batch size {size}; the last ended: RuntimeError"
        for number, size in enumerate(tried, 2)
    ]
    assert rank.setup.batch_size == 2


def test_h08_steps_that_a_failed_attempt_had_completed_do_not_count(
    recipe: Recipe, with_report: None
) -> None:
    """sentence-transformers#3145: an attempt may run for long before its memory runs out."""
    rank, tried = _search_batch_size(recipe, fails_at=2)
    totals = rank.totals
    assert (totals.steps, totals.micro_batches, totals.samples) == (4, 4, 8)
    assert totals.account_ns["aborted"] >= recipe.truth.ns["abandoned"] + 20_000_000 * len(tried)
    abandoned = [bool((flags or 0) & FLAGS["abandoned"]) for flags in rank.columns["flags"]]
    assert abandoned == [True] * len(tried) + [False] * 4
    assert rank.columns["framework_step"][-4:] == [1, 2, 3, 4]


def test_h10_clipping_and_callbacks_are_no_optimizer_time(recipe: Recipe) -> None:
    """HF#31095: optimizer time is what lies between the two optimizer events, and no more."""
    truth = recipe.truth

    class Slow(TrainerCallback):
        def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
            truth.sleep("callbacks", 20)

        def on_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
            truth.sleep("callbacks", 20)

    callback = recipe.callback()
    trainer = recipe.trainer(
        callback, Slow, sleeps=Sleeps(optimizer=5), batches=4, max_grad_norm=1.0
    )
    clip = trainer.accelerator.clip_grad_norm_
    trainer.accelerator.clip_grad_norm_ = lambda *a, **k: truth.sleep("clip", 30, clip(*a, **k))
    trainer.train()
    rank = read(callback)
    for account in ("clip", "optimizer", "callbacks"):
        assert rank.totals.account_ns[account] >= truth.ns[account], account
    # Clipping or a callback in it would make every step's update 25 ms or more.
    assert min(ns or 0 for ns in rank.columns["optimizer_ns"]) < 25_000_000


def test_h12_a_short_group_says_how_short_it_was(recipe: Recipe) -> None:
    """ACC#1847: weights are updated after a short group where the data ends, and it looked fast."""
    callback = recipe.callback()
    recipe.trainer(callback, batches=5, accumulate=2).train()
    rank = read(callback)
    counts = [2, 2, 1] if UPDATES_SHORT_GROUPS else [2, 2]
    assert rank.columns["micro_batches"] == counts
    flags = [bool((flags or 0) & PARTIAL_GROUP) for flags in rank.columns["flags"]]
    assert flags == [count < 2 for count in counts]
    assert rank.totals.steps_aborted == 0


def test_h13_only_real_updates_are_steps(recipe: Recipe) -> None:
    """huggingface/diffusers#10855: the script calls the optimizer at every micro-batch."""
    rank = _plain_loop(recipe, Items(recipe.truth, 6, "input_wait", 0), 3)
    assert rank.columns["micro_batches"] == [3, 3]
    assert rank.columns["optimizer_calls"] == [1, 1]
    assert rank.columns["backward_calls"] == [3, 3]
