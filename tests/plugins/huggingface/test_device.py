"""The seams of a Trainer that moves its batches, on a machine that has no device to move them to."""

import time
from typing import Any

import accelerate.data_loader  # type: ignore[import-untyped]  # accelerate has no types
import pytest

from tests.labs.huggingface import Language, Recipe, Sleeps, read, texts
from traintrace_huggingface import boundaries


@pytest.fixture
def slow_transfers(monkeypatch: pytest.MonkeyPatch, recipe: Recipe) -> None:
    """Take the CPU for a device, and make each move of a batch last 4 ms."""
    original = accelerate.data_loader.send_to_device

    def send_to_device(*args: Any, **kwargs: Any) -> Any:
        with recipe.truth.clock("h2d"):
            time.sleep(0.004)
            return original(*args, **kwargs)

    monkeypatch.setattr(accelerate.data_loader, "send_to_device", send_to_device)
    monkeypatch.setattr("traintrace_huggingface.seams.moves_batches", lambda trainer: True)


def test_moving_batches_is_h2d_and_no_waiting(recipe: Recipe, slow_transfers: None) -> None:
    callback = recipe.callback()
    recipe.trainer(callback, sleeps=Sleeps(item=5), batches=6, accumulate=2).train()
    rank = read(callback)
    # Disjoint accounts: what is booked in the wrong one is missing in the other.
    for account in ("h2d", "input_wait"):
        assert rank.totals.account_ns[account] >= recipe.truth.ns[account], account
    assert "h2d" not in rank.unmeasured
    assert rank.totals.micro_batches == 6


def test_tokens_are_read_before_the_batch_leaves_the_host(
    recipe: Recipe, slow_transfers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a device: the mask of the batch that is trained on cannot be read any more.
    monkeypatch.setattr(
        boundaries.Boundaries,
        "micro_batch",
        _with_unreadable_mask(boundaries.Boundaries.micro_batch),
    )
    callback = recipe.callback()
    recipe.trainer(
        callback,
        dataset=texts(3, 7, 5, 7),
        model=Language(),
        accumulate=2,
        batch_size=1,
        own_optimizer=False,
    ).train()
    rank = read(callback)
    assert sum(n or 0 for n in rank.columns["tokens"]) == 22
    assert rank.columns["padded_tokens"] == [14, 14]


def _with_unreadable_mask(method: Any) -> Any:
    def micro_batch(self: Any, inputs: Any) -> None:
        method(self, {name: value for name, value in inputs.items() if name != "attention_mask"})

    return micro_batch
