"""The figures and the table of the benchmark of convergence, on results made by hand."""

from benchmarks.convergence.table import figures, write_table
from benchmarks.convergence.trials import EVENT_CASES, NOISE_CASES, Loud, Quiet

QUIET = (
    Quiet("Gaussian", 1_000, 1, 200, 1, {"LOSS_SPIKE": 1}),
    Quiet("AR .9", 10_000, 50, 100, 0, {}),
)
LOUD = (Loud("nan", 1_000, 1, 10, 10), Loud("spike", 10_000, 50, 10, 7))


def test_the_worst_kind_of_noise_counts() -> None:
    found = figures(QUIET, LOUD)
    assert found["false_share_max"] == 0.005
    assert found["runs_per_noise"] == 100
    assert (found["recall_nan_1000"], found["recall_spike_10000_sparse"]) == (1.0, 0.7)


def test_the_table_names_every_kind_and_event() -> None:
    text = write_table(QUIET, LOUD)
    assert "| Gaussian | 1,000 | 1 | 200 | 1 | 0.0050 | LOSS_SPIKE 1 |" in text
    assert "| LOSS_SPIKE | 10,000 | 50 | 10 | 0.700 |" in text


def test_each_kind_of_noise_is_played_dense_and_sparse() -> None:
    assert len(NOISE_CASES) == 12 * 2 * 2
    assert ("stall", 1_000, 1) not in EVENT_CASES
    assert ("spike", 10_000, 50) in EVENT_CASES
