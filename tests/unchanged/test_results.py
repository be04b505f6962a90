"""What a training computes is the same to the bit with and without tracing."""

from typing import Any

import pytest

from traintrace import open_run

BATCHES = 14  # two epochs of seven
UPDATES = 8  # two micro-batches each; the last group of an epoch is short


def test_the_traced_training_was_traced_and_the_other_was_not(completed: Any) -> None:
    """All else would be proven of nothing."""
    folders = list((completed.traced.folder / "work" / "runs").iterdir())
    assert len(folders) == 2  # the second trained the compiled model
    for folder in folders:
        run = open_run(folder)
        assert run.status == "completed"
        (rank,) = run.facts(["micro_batches", "forward_calls", "backward_calls"]).ranks
        columns = rank.columns
        assert columns["micro_batches"] == columns["forward_calls"] == columns["backward_calls"]
        assert columns["micro_batches"] == [2, 2, 2, 1] * 2
    assert not (completed.untraced.folder / "work" / "runs").exists()


@pytest.mark.parametrize(
    ("observation", "count"),
    [
        ("losses", BATCHES),
        ("evaluation losses", 4),
        ("gradient norms", UPDATES),
        ("random states", 2),
        ("workers", 4),
        ("loaders and iterators in training", 2),
        ("types in training", 3),
        ("pickles in training", 3),
        ("weights", 1),
        ("optimizer and scheduler", 2),
        ("pickles after training", 1),
        ("types after training", 4),
        ("graphs", 2),
    ],
)
def test_observations_of_the_training_are_the_same(
    completed: Any, observation: str, count: int
) -> None:
    """Losses and norms to the bit; objects as the bytes of their pickles; workers as they start.

    `count` is what each integration has at least: an observation that saw nothing proves nothing.
    """
    untraced, traced = (run.seen[observation] for run in (completed.untraced, completed.traced))
    assert len(untraced) >= count
    assert traced == untraced


@pytest.mark.parametrize("observation", ["pickles in training", "pickles after training"])
def test_no_pickle_needs_us(completed: Any, observation: str) -> None:
    for written in completed.traced.seen[observation].values():
        assert b"traintrace" not in written


@pytest.mark.parametrize("name", ["torch", "random", "numpy"])
@pytest.mark.parametrize("epoch", [0, 1])
def test_random_states_at_the_end_of_an_epoch_are_the_same(
    completed: Any, name: str, epoch: int
) -> None:
    untraced, traced = (
        run.seen["random states"][epoch][name] for run in (completed.untraced, completed.traced)
    )
    assert traced == untraced


def test_the_users_objects_have_the_same_attributes(completed: Any) -> None:
    untraced, traced = (run.seen["objects"] for run in (completed.untraced, completed.traced))
    assert len(untraced) > 50
    assert traced.keys() == untraced.keys()
    changed = {path: traced[path] for path in traced if traced[path] != untraced[path]}
    assert changed == {}


def test_nothing_of_ours_stays_on_the_users_objects(completed: Any) -> None:
    assert completed.traced.seen["ours on objects"] == []


def test_the_users_objects_are_freed_when_the_user_lets_go_of_them(completed: Any) -> None:
    assert completed.untraced.seen["still alive"] == completed.traced.seen["still alive"] == []
