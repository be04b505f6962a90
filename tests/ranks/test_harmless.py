"""Two ranks train as they would without tracing, and what is measured of unusual loops is right.

What must not change is asserted by `harmless_runs.py` itself, in the ranks.
"""

from pathlib import Path

import pytest

from tests.labs.ranks import Job, median_ms, ranks_of, summary_of
from tests.ranks.harmless_runs import SLOWER_MS, STEPS


@pytest.mark.parametrize(
    "name",
    ["frozen-after-the-first-backward", "backward-on-another-thread", "evasive-wrapper"],
)
def test_the_end_of_own_work_is_marked(runs: Job, name: str) -> None:
    for rank in ranks_of(runs.first(name)):
        assert None not in rank.columns["gradient_sync_ns"]

    def check(folder: Path) -> None:
        fast, slow = ranks_of(folder)
        assert median_ms(slow, "backward") >= SLOWER_MS
        assert median_ms(fast, "gradient_sync") >= 0.6 * SLOWER_MS

    runs.check(name, check)


def test_a_model_with_lazy_parameters_is_marked_by_the_others(runs: Job) -> None:
    folder = runs.first("lazy-parameters")
    for rank in ranks_of(folder):
        assert None not in rank.columns["gradient_sync_ns"]


def test_waiting_in_a_hook_of_the_users_own_is_no_work(runs: Job) -> None:
    def check(folder: Path) -> None:
        fast, slow = ranks_of(folder)
        assert median_ms(slow, "backward") >= SLOWER_MS
        assert median_ms(fast, "communication") >= 0.6 * SLOWER_MS
        assert median_ms(fast, "backward") < 0.5 * SLOWER_MS

    runs.check("gradients-averaged-by-hand", check)


def test_a_collective_that_was_imported_before_is_seen(runs: Job) -> None:
    def check(folder: Path) -> None:
        fast, _ = ranks_of(folder)
        assert median_ms(fast, "communication") >= 0.6 * SLOWER_MS

    runs.check("functions-are-the-same", check)


def test_without_a_process_group_waiting_is_null_and_says_why(runs: Job) -> None:
    folder = runs.first("group-made-later")
    for rank in ranks_of(folder):
        assert rank.columns["gradient_sync_ns"] == [None] * STEPS
    reason = summary_of(folder)["coverage"]["gradient_sync"]["reason"]
    assert "no process group when tracing began" in reason


def test_a_compiled_backward_is_not_split(runs: Job) -> None:
    folder = runs.first("compiled-backward")
    for rank in ranks_of(folder):
        assert rank.columns["gradient_sync_ns"] == [None] * STEPS


@pytest.mark.parametrize("name", ["each-batch", "accumulating", "no-sync"])
def test_the_traced_training_was_traced(runs: Job, name: str) -> None:
    """That it computed the same is proven in the ranks; of an untraced one it would mean nothing."""
    folder = runs.first(name)
    micro_batches = 1 if name == "each-batch" else 2
    for rank in ranks_of(folder):
        assert rank.columns["backward_calls"] == [micro_batches] * STEPS
        syncs = STEPS * (1 if name == "no-sync" else micro_batches)
        assert rank.totals.calls["gradient_sync"] == syncs
