"""The price of a transition, measured once per machine and used by every later report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from traintrace.recording.cost import hot_transition_ns, price_path, stored_in_situ_transition_ns


@pytest.mark.long  # ten seconds of measuring, twice
def test_doctor_measures_the_price_and_reports_use_it(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "traintrace_reporting", "doctor", "--measure", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    price = json.loads(done.stdout)["transition_ns"]
    code = """
import sys
from traintrace_plain_torch import trace
with trace(run_dir=sys.argv[1], print_report=False) as tracer:
    for _ in tracer.batches(range(12)):
        with tracer.step():
            pass
print(tracer.summary()["overhead"]["method"])
"""
    run = [sys.executable, "-c", code, str(tmp_path / "runs")]
    method = subprocess.run(run, capture_output=True, text=True, env=environment, check=True).stdout
    if price["in_situ"] is None:  # too noisy a machine: nothing was kept, and nothing is claimed
        assert method.strip() == "hot_loop_scaled"
    else:
        assert price["in_situ"] > price["hot_loop"]
        assert method.strip() == "in_situ"


@pytest.mark.parametrize("content", ["", "[]", '{"transition_ns": -1}', '{"transition_ns": "x"}'])
def test_a_damaged_price_is_no_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert stored_in_situ_transition_ns() is None
    price_path().parent.mkdir(parents=True)
    price_path().write_text(content, "utf-8")
    assert stored_in_situ_transition_ns() is None
    price_path().write_text('{"transition_ns": 2000.5}', "utf-8")
    assert stored_in_situ_transition_ns() == 2000.5


def test_the_hot_price_is_a_floor_of_some_tens_to_thousands_of_nanoseconds() -> None:
    assert 20 < hot_transition_ns() < 20_000
