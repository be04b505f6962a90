"""The benchmark of what following costs measures what it says; how much that is, no test asserts."""

import random

from benchmarks.stages.cost import measure


def test_each_figure_is_measured() -> None:
    costs = measure(1, random.Random(0))
    assert list(costs) == [
        "aa_us",
        "queue_op_us",
        "replay_us",
        "outside_stages_us",
        "simple_queue_op_us",
        "multiprocessing_op_us",
        "asyncio_op_us",
        "done_us",
    ]
    assert costs["queue_op_us"].estimate > 0
    assert costs["replay_us"].estimate > 0
