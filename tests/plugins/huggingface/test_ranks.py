"""Two ranks under DDP, started by torchrun: who waits for whom, and where the wait is booked."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from tests.labs.huggingface import COLUMNS, TRANSFORMERS
from traintrace import open_run

ROOT = Path(__file__).parents[3]
SLOWER_NS = 2 * 30_000_000  # what rank 1's data takes longer, for a group of two


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = subprocess.run(
        [sys.executable, *launcher, str(Path(__file__).with_name("two_ranks.py")), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return folder


def _read(runs: Path, name: str) -> tuple[Any, list[dict[str, list[int]]]]:
    ranks = open_run(runs / "runs" / name).facts(COLUMNS).ranks
    assert [(one.rank, one.status) for one in ranks] == [(0, "completed"), (1, "completed")]
    for one in ranks:
        assert one.columns["micro_batches"] == [2, 2, 2]
        assert sum(one.totals.account_ns.values()) == one.totals.wall_ns
        assert one.totals.unbalanced == 0
        assert one.setup.strategy == "ddp"
        assert one.totals.calls["gradient_sync"] >= 3
    truth = [json.loads((runs / f"{name}-{rank}.json").read_text("utf-8")) for rank in (0, 1)]
    return ranks, truth


@pytest.mark.skipif(TRANSFORMERS < Version("4.47"), reason="transformers 4.46 gathers nothing")
def test_waiting_for_the_other_ranks_labels_is_communication(runs: Path) -> None:
    ranks, truth = _read(runs, "averaged")
    waits = [sum(one.columns["communication_ns"]) for one in ranks]
    for measured, true in zip(waits, truth, strict=True):
        assert len(true["gather"]) == 3
        assert measured >= sum(true["gather"])
    # Rank 0 waits for rank 1's data in the gather, so nothing is left to wait for in backward.
    assert waits[0] >= 2 * SLOWER_NS
    assert ranks[0].totals.account_ns["gradient_sync"] < waits[0]
    for one, true in zip(ranks, truth, strict=True):
        assert one.totals.account_ns["input_wait"] >= sum(true["item"])


def test_without_the_gather_the_wait_is_for_gradients(runs: Path) -> None:
    ranks, truth = _read(runs, "not-averaged")
    assert "gather" not in truth[0]
    waiting = ranks[0].totals.account_ns
    # Once in three steps DDP waits in forward, where it rebuilds its buckets.
    assert waiting["gradient_sync"] >= SLOWER_NS
    assert waiting["gradient_sync"] > ranks[1].totals.account_ns["gradient_sync"]
    assert waiting["gradient_sync"] > waiting["backward"]
