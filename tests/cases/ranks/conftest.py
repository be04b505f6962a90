"""Runs of real ranks, one job for each number of ranks; the scenarios are in `training.py`."""

from pathlib import Path

import pytest

from tests.labs.lightning_scripts import Script
from tests.labs.ranks import Job

TRAINING = Path(__file__).with_name("training.py")


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("two-ranks"), TRAINING, 2, "accumulating", "dispatched")


@pytest.fixture(scope="session")
def three_ranks(tmp_path_factory: pytest.TempPathFactory) -> Job:
    scenarios = ("slow_input", "slow_backward", "missing_backward", "more_memory", "rotating")
    return Job(tmp_path_factory.mktemp("three-ranks"), TRAINING, 3, *scenarios)


@pytest.fixture(scope="session")
def lightning_ranks(tmp_path_factory: pytest.TempPathFactory) -> Script:
    """Two ranks of one fit: validated at its end, and rank 1 is late for each next batch."""
    script = Script(
        tmp_path_factory.mktemp("lightning-ranks"),
        """
    class Late(Model):
        def on_train_batch_end(self, *arguments):
            if self.global_rank == 1:
                time.sleep(0.03)

        def validation_step(self, batch, batch_idx):
            return self.net(batch).mean()

    trainer(strategy="ddp", devices=2, num_sanity_val_steps=0).fit(Late(), loader(80), loader(8))
    """,
    )
    script.run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    return script
