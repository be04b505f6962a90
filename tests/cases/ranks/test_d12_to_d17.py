"""D12 to D17: waits that no profiler shows, ranks that die or start again, and the worst rank's memory."""

from pathlib import Path

import pytest
from lightning.pytorch.loops import training_epoch_loop

from tests.cases.ranks.conftest import TRAINING
from tests.labs.lightning_scripts import Script
from tests.labs.ranks import Job, launch, median_ms, named, ranks_of, summary_of


def test_d12_a_rank_that_is_late_for_the_next_batch_is_told_from_those_who_wait(
    lightning_ranks: Script,
) -> None:
    """PL#21487, PL#20825: Lightning broadcasts before each batch, a hidden synchronisation."""
    fast, late = (rank.rank.totals.account_ns for rank in lightning_ranks.ranks())
    assert late["other"] >= 40 * 30_000_000, "the module's own hook is part of its step"
    # Since Lightning 2.5 the others wait in that broadcast, and before in the next gradients.
    account = "gradient_sync"
    if hasattr(training_epoch_loop._TrainingEpochLoop, "_broadcast_sigterm_tensor"):
        account = "communication"
        assert late[account] < 0.5 * fast[account]
    assert fast[account] >= 0.6 * late["other"]
    (folder,) = lightning_ranks.run_dir.iterdir()
    blamed = named(folder)
    assert all(ranks == [1] for ranks in blamed.values()), blamed


def test_d13_the_rank_that_reads_for_all_shows_reading_and_the_others_waiting(
    two_ranks: Job,
) -> None:
    """ACC#2162, HF#24999: in dispatch mode every rank seems to wait for data."""

    def check(folder: Path) -> None:
        reader, other = ranks_of(folder)
        items_ms = 2 * 2 * 10  # rank 0 reads a batch of two for each rank
        assert median_ms(reader, "input_wait") >= items_ms
        assert median_ms(reader, "communication") < 0.5 * items_ms
        assert median_ms(other, "communication") >= 0.8 * items_ms
        assert median_ms(other, "input_wait") < 0.5 * items_ms
        for rank in (reader, other):
            assert rank.setup.loader.reads_for_all is True
        findings = summary_of(folder)["findings"]
        (straggler,) = [one for one in findings if one["kind"] == "INPUT_STRAGGLER"]
        assert "dispatch_batches=False" in straggler["action"]
        blamed = named(folder)
        assert all(ranks == [0] for ranks in blamed.values()), blamed

    two_ranks.check("dispatched", check)


def test_d14_a_missing_no_sync_shows_waits_in_every_micro_batch(two_ranks: Job) -> None:
    """ACC#1153, PL#4092: accumulation that synchronises each time costs twice."""
    steps = 12

    def check(folder: Path) -> None:
        fast, slow = ranks_of(folder)
        assert median_ms(slow, "backward") >= 4 * 15
        assert median_ms(fast, "gradient_sync") >= 0.8 * 4 * 15
        assert median_ms(fast, "backward") < 0.5 * 4 * 15

    for name, waits in (("no-sync-missing", 4), ("no-sync", 1)):
        for rank in ranks_of(two_ranks.first(name)):
            assert list(rank.columns["backward_calls"]) == [4] * steps
            assert rank.totals.calls["gradient_sync"] == waits * steps
        two_ranks.check(name, check)


@pytest.mark.long
def test_d15_a_rank_that_is_gone_holds_nobody_up(tmp_path: Path) -> None:
    """sleap-nn#476, DeepForest#1407: collectives in a tool wait for ever for a rank that left."""
    launch(TRAINING, tmp_path, "one_dies", ranks=2)
    folder = tmp_path / "one-dies"
    ended = (tmp_path / "trained-0").stat().st_mtime
    # A process that is gone is not waited for; this is what making a report takes on a busy machine.
    assert (folder / "final_summary.json").stat().st_mtime - ended < 10
    summary = summary_of(folder)
    assert summary["counts"]["steps"] == 20
    assert summary["run"]["world_size"] == 2
    silent = [one for one in summary["findings"] if one["kind"] == "SILENT_RANK"]
    assert [one["ranks"] for one in silent] == [[1]]


@pytest.mark.long  # its job is started, crashes, and is started again
def test_d16_attempts_of_an_elastic_job_are_kept_apart(tmp_path: Path) -> None:
    """PT#108158, PT#68014: a restart looks like another run, or its steps are lost."""
    launch(TRAINING, tmp_path, "restarted", ranks=2, options=("--max-restarts", "1"))
    assert [path.name for path in tmp_path.iterdir()] == ["restarted"]
    folder = tmp_path / "restarted"
    recorded = {(one.attempt, one.rank): (one.totals.steps, one.status) for one in ranks_of(folder)}
    assert recorded == {
        (0, 0): (5, "failed"),
        (0, 1): (5, "failed"),
        (1, 0): (10, "completed"),
        (1, 1): (10, "completed"),
    }
    attempts = summary_of(folder)["run"]["attempts"]
    assert [(one["n"], one["steps"], one["status"]) for one in attempts] == [
        (0, 5, "failed"),
        (1, 10, "completed"),
    ]


def test_d17_the_rank_with_the_most_memory_is_named(three_ranks: Job) -> None:
    """torchtitan#4457: the memory of rank 0 was logged, and another rank had the most."""
    folder = three_ranks.first("more-memory")
    ranks = ranks_of(folder)
    peaks = {rank.rank: max(filter(None, rank.columns["rss_bytes"])) for rank in ranks}
    assert max(peaks, key=lambda rank: peaks[rank]) == 2
    assert peaks[2] - max(peaks[0], peaks[1]) >= 250_000_000
    assert summary_of(folder)["memory"]["rss_bytes"]["max"] >= peaks[2]
    assert named(folder, "memory") == {"MEMORY_IMBALANCE": [2]}
