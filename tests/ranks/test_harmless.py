"""Two ranks train as they would without tracing, and what is measured of unusual loops is right.

What must not change is asserted by `harmless_runs.py` itself, in the ranks.
"""

from pathlib import Path

import pytest

from tests.labs.ranks import median_ms, ranks_of, summary_of
from tests.ranks.harmless_runs import SLOWER_MS, STEPS


@pytest.mark.parametrize(
    "name",
    ["frozen-after-the-first-backward", "backward-on-another-thread", "evasive-wrapper"],
)
def test_the_end_of_own_work_is_marked(runs: Path, name: str) -> None:
    fast, slow = ranks_of(runs / name)
    for rank in (fast, slow):
        assert None not in rank.columns["gradient_sync_ns"]
    assert median_ms(slow, "backward") >= SLOWER_MS
    assert median_ms(fast, "gradient_sync") >= 0.6 * SLOWER_MS


def test_a_model_with_lazy_parameters_is_marked_by_the_others(runs: Path) -> None:
    for rank in ranks_of(runs / "lazy-parameters"):
        assert None not in rank.columns["gradient_sync_ns"]


def test_waiting_in_a_hook_of_the_users_own_is_no_work(runs: Path) -> None:
    fast, slow = ranks_of(runs / "gradients-averaged-by-hand")
    assert median_ms(slow, "backward") >= SLOWER_MS
    assert median_ms(fast, "communication") >= 0.6 * SLOWER_MS
    assert median_ms(fast, "backward") < 0.5 * SLOWER_MS


def test_a_collective_that_was_imported_before_is_seen(runs: Path) -> None:
    fast, _ = ranks_of(runs / "functions-are-the-same")
    assert median_ms(fast, "communication") >= 0.6 * SLOWER_MS


def test_without_a_process_group_waiting_is_null_and_says_why(runs: Path) -> None:
    for rank in ranks_of(runs / "group-made-later"):
        assert rank.columns["gradient_sync_ns"] == [None] * STEPS
    reason = summary_of(runs / "group-made-later")["coverage"]["gradient_sync"]["reason"]
    assert "no process group when tracing began" in reason


def test_a_compiled_backward_is_not_split(runs: Path) -> None:
    for rank in ranks_of(runs / "compiled-backward"):
        assert rank.columns["gradient_sync_ns"] == [None] * STEPS


@pytest.mark.parametrize("name", ["each-batch", "accumulating", "no-sync"])
def test_the_traced_training_was_traced(runs: Path, name: str) -> None:
    """That it computed the same is proven in the ranks; of an untraced one it would mean nothing."""
    micro_batches = 1 if name == "each-batch" else 2
    for rank in ranks_of(runs / name):
        assert rank.columns["backward_calls"] == [micro_batches] * STEPS
        syncs = STEPS * (1 if name == "no-sync" else micro_batches)
        assert rank.totals.calls["gradient_sync"] == syncs
