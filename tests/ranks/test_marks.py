"""Where a rank's own backward ends is marked in every order in which gradients may come; else it is null."""

import json
import statistics
from pathlib import Path

import pytest

from tests.labs.ranks import (
    WARMUP_STEPS,
    Job,
    excess_ms,
    median_ms,
    ranks_of,
    step_ms,
    summary_of,
)
from tests.ranks.marked_runs import SLOWER_MS, STEPS


def unmarked_steps(folder: Path) -> list[int]:
    """Give the steps in which waiting for gradients is null, the same on both ranks."""
    fast, slow = (
        [number for number, ns in enumerate(rank.columns["gradient_sync_ns"]) if ns is None]
        for rank in ranks_of(folder)
    )
    assert fast == slow
    return fast


@pytest.mark.parametrize(
    ("name", "unmarked"),
    [
        # DDP learns a static graph in its first backward, where it waits before anything can be marked.
        ("static-graph", [0]),
        ("last-parameter-unused", []),
        ("heads-in-turn", []),
        ("last-parameter-frozen-later", []),
        ("reentrant", []),
        ("not-reentrant", []),
        ("two-modules-in-one-backward", []),
        ("compiled", []),
    ],
)
def test_own_work_ends_where_waiting_begins(runs: Job, name: str, unmarked: list[int]) -> None:
    assert unmarked_steps(runs.first(name)) == unmarked
    slower = SLOWER_MS * (2 if name.startswith("two-modules") else 1)

    def check(folder: Path) -> None:
        fast, slow = ranks_of(folder)
        assert median_ms(slow, "backward") >= slower
        assert median_ms(fast, "backward") < 0.5 * slower
        assert median_ms(fast, "gradient_sync") >= 0.6 * slower
        assert median_ms(slow, "gradient_sync") < 0.5 * slower

    runs.check(name, check)


def test_a_backward_whose_end_cannot_be_seen_is_null_and_never_zero(runs: Job) -> None:
    folder = runs.first("nothing-of-it-used")
    assert unmarked_steps(folder) == [*range(STEPS // 2, STEPS)]


def test_a_sharded_model_waits_all_along_and_says_so(runs: Job) -> None:
    folder = runs.first("sharded")
    fast, slow = ranks_of(folder)
    for rank in (fast, slow):
        assert rank.setup.strategy == "fsdp2"
        assert "gradient_sync" not in rank.totals.account_ns
        assert median_ms(rank, "backward") >= SLOWER_MS, (
            "the wait is in the fast rank's backward too"
        )
    reason = summary_of(folder)["coverage"]["gradient_sync"]["reason"]
    assert "may include waiting" in reason


@pytest.mark.parametrize("name", ["average-of-the-loss", "broadcast-of-buffers"])
def test_waiting_in_a_collective_is_communication_and_no_work_of_the_rank(
    runs: Job, name: str
) -> None:
    def check(folder: Path) -> None:
        fast, slow = ranks_of(folder)
        assert median_ms(fast, "communication") >= 0.6 * SLOWER_MS
        assert median_ms(slow, "communication") < 0.5 * SLOWER_MS
        assert excess_ms((fast, slow), 1) >= 0.6 * SLOWER_MS
        assert median_ms(fast, "forward") < 0.5 * SLOWER_MS

    runs.check(name, check)


def test_ddp_s_own_logger_agrees(runs: Job) -> None:
    def check(folder: Path) -> None:
        for rank in ranks_of(folder):
            logged = json.loads(
                (folder.parent / f"logged-{rank.rank}.json").read_text(encoding="utf-8")
            )
            ours = step_ms(rank, "backward", skip=0)[: len(logged)]
            apart = [
                abs(mine - theirs / 1e6)
                for mine, theirs in zip(ours, logged, strict=True)
                if theirs is not None
            ]
            assert len(apart) >= STEPS - WARMUP_STEPS
            assert statistics.median(apart) < 2.0, (ours, logged)

    runs.check("logged-by-ddp", check)
