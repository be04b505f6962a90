"""D01 to D09: who is blamed for a slow job, and who is not; and what many ranks leave on the disk."""

from pathlib import Path

import pytest

from tests.labs.lightning_scripts import Script
from tests.labs.ranks import Job, excess_ms, median_ms, named, ranks_of, summary_of
from traintrace import open_run
from traintrace.registry import REGISTRY
from traintrace_plain_torch import trace

SLOWER_MS = 20


def test_d01_a_slow_backward_is_told_from_the_waits_of_the_others(three_ranks: Job) -> None:
    """TML#252: every rank's backward call is as long, and only one of them works in it."""

    def check(folder: Path) -> None:
        ranks = ranks_of(folder)
        for rank in ranks:
            assert median_ms(rank, "backward", "gradient_sync") >= 0.8 * SLOWER_MS
        assert excess_ms(ranks, 1, "backward") >= 0.8 * SLOWER_MS
        assert named(folder) == {"BACKWARD_STRAGGLER": [1]}

    three_ranks.check("slow-backward", check)


def test_d02_a_slow_loader_does_not_put_the_blame_on_those_who_wait(three_ranks: Job) -> None:
    """TML#142, TML#165, DeepSpeed#3579, TraceLens#599: peers look slow in backward."""

    def check(folder: Path) -> None:
        ranks = ranks_of(folder)
        waits = [median_ms(rank, "gradient_sync") for rank in ranks]
        assert waits[1] < 0.5 * SLOWER_MS < min(waits[0], waits[2])
        assert named(folder) == {"INPUT_STRAGGLER": [1]}

    three_ranks.check("slow-input", check)


def test_d03_a_rank_without_timings_is_neither_culprit_nor_median(three_ranks: Job) -> None:
    """TML#228, TML#188: missing counts as fast, or all that it waits counts as its own work."""
    folder = three_ranks.first("missing-backward")
    assert "backward" not in ranks_of(folder)[2].totals.account_ns
    coverage = summary_of(folder)["coverage"]
    assert coverage["backward"]["ranks_measured"] == 2
    metric = summary_of(folder)["step_time"]["metrics"]["backward"]
    assert metric["by_rank"].get("2") is None
    assert metric["representative_rank"] != 2
    assert metric["worst_rank"] != 2

    def check(folder: Path) -> None:
        blamed = named(folder)
        assert all(ranks == [1] for ranks in blamed.values()), blamed

    three_ranks.check("missing-backward", check)


def test_d04_ranks_that_are_slow_in_turn_are_a_pattern_and_no_culprit(three_ranks: Job) -> None:
    """TML#374: means over a window show all ranks alike."""

    def check(folder: Path) -> None:
        blamed = named(folder)
        assert set(blamed) == {"ROTATING_STRAGGLER"}
        assert blamed["ROTATING_STRAGGLER"] == [0, 1, 2]

    three_ranks.check("rotating", check)


def test_d08_every_rank_lists_its_training_steps(lightning_ranks: Script) -> None:
    """PL#20135: under DDP only validation was in the traces."""
    ranks = lightning_ranks.ranks()
    assert [rank.rank.rank for rank in ranks] == [0, 1]
    for rank in ranks:
        assert list(rank.steps["micro_batches"]) == [1] * 40
        assert list(rank.steps["backward_calls"]) == [1] * 40
        assert rank.rank.totals.account_ns["evaluation"] > 0


def test_d09_many_ranks_and_steps_stay_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchtitan#1035, fms-fsdp#58: hundreds of MB a rank. Eight ranks, one after the other."""
    ranks, steps, folder = 8, 2000, tmp_path / "job"
    monkeypatch.setenv("WORLD_SIZE", str(ranks))
    monkeypatch.setenv("TRAINTRACE_RUN", str(folder))
    for rank in reversed(range(ranks)):  # rank 0 waits for the others at its end
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setattr(REGISTRY, "started", 0)  # each is the first run of a process of its own
        with trace(run_dir=tmp_path, print_report=False) as tracer:
            for _ in tracer.batches(range(steps)):
                with tracer.step():
                    for phase in ("h2d", "forward", "backward", "optimizer"):
                        tracer.mark(phase)
    files = [path for path in folder.rglob("*") if path.is_file()]
    recorded = open_run(folder).facts(["step"]).ranks
    assert [(rank.rank, rank.totals.steps) for rank in recorded] == [
        (rank, steps) for rank in range(ranks)
    ]
    assert sum(len(rank.columns["step"]) for rank in recorded) == ranks * steps
    assert sum(path.stat().st_size for path in files) < 10_000_000
