"""Lightning's DDP and the Hugging Face Trainer compute in two ranks what they compute untraced."""

from pathlib import Path

import pytest

from tests.labs.ranks import launch, ranks_of

UPDATES = 4


@pytest.mark.long
def test_losses_and_weights_are_the_same_to_the_bit(tmp_path: Path) -> None:
    """Compared in the ranks themselves; here, that the one training was traced."""
    launch(Path(__file__).with_name("framework_runs.py"), tmp_path, ranks=2)
    for name in ("lightning", "huggingface"):
        ranks = ranks_of(tmp_path / name)
        assert [rank.rank for rank in ranks] == [0, 1]
        for rank in ranks:
            assert rank.columns["backward_calls"] == [2] * UPDATES
            # One micro-batch of two waits for the other rank: the frameworks use `no_sync`.
            assert rank.totals.calls["gradient_sync"] == UPDATES
