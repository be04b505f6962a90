"""What users do to stages besides using them as shown."""

import queue
from pathlib import Path
from typing import Any

import traintrace
from tests.labs.staged import traced


def test_what_was_named_before_the_trace_is_told(tmp_path: Path) -> None:
    """As it is under `traintrace run` and before a Trainer's `fit`: "no stage was marked" was all that the report said."""
    items: Any = traintrace.queue(queue.Queue(2), "items")
    with traced(tmp_path / "first") as tracer:
        items.put(1)
    with traced(tmp_path / "second") as later:
        pass
    told = ["named before the trace began" in warnings_of(one) for one in (tracer, later)]
    assert told == [True, False]


def warnings_of(tracer: Any) -> str:
    (rank,) = traintrace.open_run(tracer.run_folder).facts(["step"]).ranks
    return str(rank.warnings)
