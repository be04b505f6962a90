"""Options: what is refused, how they travel, and that what they ask for arrives."""

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.labs.coresessions import open_session, step
from traintrace.errors import UsageError
from traintrace.options import TraceOptions
from traintrace.samplers.sampler import pause_s


def test_options_travel_as_text(tmp_path: Path) -> None:
    options = TraceOptions(
        run_dir=tmp_path, name="a b", level="host", max_steps=3, interval_s=0.5, retention_steps=10
    )
    assert TraceOptions.from_json(options.to_json()) == TraceOptions.from_json(
        json.dumps(json.loads(options.to_json()) | {"run_dir": str(tmp_path)})
    )
    assert "\n" not in options.to_json()
    back = TraceOptions.from_json(options.to_json())
    assert (back.name, back.interval_s, back.retention_steps) == ("a b", 0.5, 10)
    assert TraceOptions.from_json("{}") == TraceOptions()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"colour": 1}', "colour"),
        ('{"level": "loud"}', "level"),
        ('{"level": null}', "level"),
        ('{"enabled": "yes"}', "enabled"),
        ('{"print_report": 1}', "print_report"),
        ('{"max_steps": "3"}', "max_steps"),
        ('{"max_steps": 2.5}', "max_steps"),
        ('{"warmup_steps": -1}', "warmup_steps"),
        ('{"retention_steps": 0}', "retention_steps"),
        ('{"interval_s": 0.01}', "interval_s"),
        ('{"interval_s": true}', "interval_s"),
        ('{"interval_s": NaN}', "interval_s"),
        ('{"run_dir": ""}', "run_dir"),
        ('{"run_dir": 3}', "run_dir"),
        ('{"name": ""}', "name"),
        ('{"flops_per_step": "counts"}', "flops_per_step"),
        ('{"flops_per_step": 0}', "flops_per_step"),
        ('{"flops_per_step": true}', "flops_per_step"),
        ('{"peak_tflops": -1}', "peak_tflops"),
        ('{"peak_tflops": 0}', "peak_tflops=0: use a number above 0 in 1e12 operations a second"),
        ('{"peak_tflops": Infinity}', "peak_tflops"),
        ('{"peak_tflops": NaN}', "peak_tflops"),
        ('{"peak_tflops": "312"}', "peak_tflops='312'"),
        ('{"peak_tflops": 1' + 400 * "0" + "}", "peak_tflops"),
        ("[]", "list"),
        ("{", "JSON"),
    ],
)
def test_what_is_impossible_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TraceOptions.from_json(text)


def test_the_machine_is_read_as_often_as_asked(tmp_path: Path) -> None:
    began = time.monotonic()
    session = open_session(tmp_path, interval_s=0.1)
    time.sleep(0.55)
    session.finish("completed")
    at_most = (time.monotonic() - began) / 0.1 + 2
    (rank,) = session.as_run().facts([]).ranks
    moments = [reading.at_ns for reading in rank.process]
    # The end adds one that is not due, and a busy machine makes them late; never early.
    gaps = [later - earlier for earlier, later in pairwise(moments)][:-1]
    assert 2 <= len(moments) <= at_most
    assert all(gap >= 0.09e9 for gap in gaps)
    rare = open_session(tmp_path, interval_s=60.0)
    time.sleep(0.3)
    rare.finish("completed")
    (rank,) = rare.as_run().facts([]).ranks
    assert len(rank.process) <= 2  # the first and the last


def test_a_wish_for_readings_has_its_bounds() -> None:
    assert pause_s(10.0, 0.0, 0.1) == 0.1
    assert pause_s(1e6, 0.0, 0.1) == 10.0, "rarer after a hundred thousand"
    assert pause_s(10.0, 0.05, 0.1) == 5.0, "never more than one percent of a core"


def test_as_many_rows_are_kept_as_asked(tmp_path: Path) -> None:
    session = open_session(tmp_path, retention_steps=100)
    for _ in range(4):
        step(session, 1_000)
        session.flush()
    session.finish("completed")
    (rank,) = session.as_run().facts(["step"]).ranks
    kept = list(rank.columns["step"])
    assert kept == [*range(1, 1_001), *range(3_001, 4_001)], "whole blocks are folded"
    assert rank.totals.steps == 4_000


def test_a_range_of_steps_is_kept_however_long_the_run(tmp_path: Path) -> None:
    session = open_session(tmp_path, retention_steps=100, keep_steps=(1_500, 2_400))
    for _ in range(4):
        step(session, 1_000)
        session.flush()
    session.finish("completed")
    run = session.as_run()
    (rank,) = run.facts(["step"]).ranks
    assert list(rank.columns["step"]) == [*range(1, 4_001)], "no whole block could be folded"
    (rank,) = run.facts(["step"], steps=(1_500, 1_502)).ranks
    assert list(rank.columns["step"]) == [1_500, 1_501, 1_502]
    assert {span.step for span in rank.spans} <= {1_500, 1_501, 1_502}
    assert rank.totals.steps == 4_000


def test_a_range_of_steps_travels_as_json_and_an_impossible_one_is_refused() -> None:
    options = TraceOptions(keep_steps=(3, 9))
    assert TraceOptions.from_json(options.to_json()) == options
    for wrong in ((0, 1), (3, 2), (1,), (1, 2.0), "12", (True, 2)):
        with pytest.raises(UsageError, match="keep_steps"):
            TraceOptions(keep_steps=wrong)  # type: ignore[arg-type]
