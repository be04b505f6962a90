"""Two DDP ranks with batch norm train the same to the bit while steps are counted, on both or on one, and end.

A forward of our own on one rank would begin a broadcast of buffers that the other never joins.
"""

from pathlib import Path

import pytest

from tests.labs.ranks import launch, ranks_of
from tests.ranks.counted_runs import FLOPS


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counted")
    launch(Path(__file__).with_name("counted_runs.py"), folder, ranks=2)
    return folder


def test_each_rank_counts_its_own_work(runs: Path) -> None:
    for rank in ranks_of(runs / "both"):
        assert rank.flops is not None
        assert [(one.step, one.total) for one in rank.flops.counted] == [(3, FLOPS), (8, FLOPS)]


def test_one_rank_may_count_alone(runs: Path) -> None:
    first, second = ranks_of(runs / "one")
    assert first.flops is not None
    assert [one.total for one in first.flops.counted] == [FLOPS] * 2
    assert second.flops is not None
    assert second.flops.counted == ()
