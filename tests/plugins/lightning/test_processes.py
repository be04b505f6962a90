"""Several processes, and what ends one from outside; each a real script with real signals."""

import json
import signal
import time
from pathlib import Path

import pytest
from lightning.pytorch.loops import training_epoch_loop

from tests.labs.lightning_scripts import Script
from traintrace.runs.manifest import Manifest

# Rank 1 is 30 ms late with its gradients, and 40 ms late to the next step.
SLOW_RANK = """
    class Slow(Model):
        def training_step(self, batch, batch_idx):
            if self.global_rank == 1:
                time.sleep(0.03)
            return super().training_step(batch, batch_idx)
        def on_train_batch_end(self, *arguments):
            if self.global_rank == 1:
                time.sleep(0.04)

    trainer(strategy="{strategy}", devices=2, accumulate_grad_batches={accumulation}).fit(
        Slow(), loader(16)
    )
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.parametrize(
    ("strategy", "launcher", "groups"),
    [
        ("ddp", (), [3, 3, 2]),
        # The cases of ranks look at Lightning under torchrun, a batch a step.
        pytest.param("ddp", TORCHRUN, [3, 3, 2], marks=pytest.mark.long),
        pytest.param("ddp", (), [1] * 8, marks=pytest.mark.long),
        pytest.param("ddp_spawn", (), [1] * 8, marks=pytest.mark.long),
        pytest.param("ddp_notebook", (), [1] * 8, marks=pytest.mark.long),
    ],
)
def test_two_ranks_share_a_run_and_neither_is_blamed_for_the_other(
    tmp_path: Path, strategy: str, launcher: tuple[str, ...], groups: list[int]
) -> None:
    body = SLOW_RANK.format(strategy=strategy, accumulation=max(groups))
    if strategy == "ddp_spawn":  # the script is imported again by both processes
        body = body.replace("    trainer(", '    __name__ == "__main__" and trainer(')
    script = Script(tmp_path, body)
    run = script.run(*launcher)
    assert (run.world_size, run.status) == (2, "completed")
    (folder,) = script.run_dir.iterdir()
    assert Manifest.read(folder).launcher == ("torchrun" if launcher else "lightning")
    ranks = script.ranks()
    assert [rank.rank.rank for rank in ranks] == [0, 1]
    for rank in ranks:
        rank.check_books()
        assert rank.steps["micro_batches"] == groups == rank.steps["backward_calls"]
        assert rank.steps["samples"] == groups == rank.steps["forward_calls"]
        assert rank.steps["optimizer_calls"] == [1] * len(groups)
        assert rank.rank.setup.strategy == "ddp"
        assert None not in rank.steps["gradient_sync_ns"]
        # Only the last micro-batch of a group synchronises.
        assert rank.rank.totals.calls["gradient_sync"] == len(groups)
    fast, slow = ranks
    # The fast rank waits for late gradients where they meet, and its own backward is short.
    waits = fast.column_ms("gradient_sync")
    assert sum(waits) >= 10 * len(groups)
    assert min(fast.column_ms("backward")) < 30
    assert sum(slow.column_ms("other")) >= 8 * 30
    # Rank 1 is also late for the next batch: rank 0 waits in Lightning's broadcast before it (since 2.5).
    if hasattr(training_epoch_loop._TrainingEpochLoop, "_broadcast_sigterm_tensor"):
        assert fast.ms("communication") >= 7 * 15


@pytest.mark.parametrize(
    ("number", "status", "code"),
    # SIGTERM: Lightning lets the step end and leaves by a SystemExit without a code.
    [
        (signal.SIGTERM, "interrupted", 0),
        pytest.param(signal.SIGINT, "interrupted", 1, marks=pytest.mark.long),
    ],
)
def test_a_signal_from_outside_leaves_the_report(
    tmp_path: Path, number: int, status: str, code: int
) -> None:
    script = Script(
        tmp_path,
        """
    class Slow(Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 3:
                open("ready", "w").close()
            time.sleep(0.02)
            return super().training_step(batch, batch_idx)

    trainer().fit(Slow(), loader(2000))
    """,
    )
    process = script.start()
    deadline = time.monotonic() + 240
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    script.wait(process, code)
    run = script.facts()
    assert run.status == status
    totals = run.ranks[0].totals
    assert 3 <= totals.steps < 2000
    (folder,) = script.run_dir.iterdir()
    summary = json.loads((folder / "final_summary.json").read_text("utf-8"))
    assert summary["run"]["status"] == status
    assert summary["counts"]["steps"] == totals.steps
