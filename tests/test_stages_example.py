"""The example of a pipeline, run for real: its report names the slow stage, and doing as told speeds it up."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from traintrace import open_run
from traintrace_analysis import REQUIRED_COLUMNS, Analysis, analyse

EXAMPLES = Path(__file__).parent.parent / "examples"
BATCHES = 50


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module("stages_speculative")
    # Slower than in the example, so that a busy machine, which slows the drafter's own work, changes nothing.
    monkeypatch.setitem(module.SECONDS, "target-forward", 0.09)
    yield module
    del sys.modules["stages_speculative"]


def run(example: Any, folder: Path, name: str, fix: bool) -> tuple[Any, Analysis]:
    settings = example.Settings(
        fix=fix, batches=BATCHES, run_dir=folder, name=name, print_report=False
    )
    trained = example.train(settings)
    return trained, analyse(open_run(trained.run_folder).facts(REQUIRED_COLUMNS))


def test_the_slow_stage_is_named_and_one_more_worker_helps(example: Any, tmp_path: Path) -> None:
    trained, analysis = run(example, tmp_path, "slow", fix=False)
    assert len(trained.losses) == BATCHES
    assert trained.losses[-1] < trained.losses[0]
    assert analysis.stages is not None
    assert {one.name: one.workers for one in analysis.stages.stages} == {
        "prefetch": 1,
        "target-forward": 2,
        "drafter": 1,
    }
    assert analysis.stages.limiting is not None
    assert analysis.stages.limiting.stage == "target-forward"
    assert analysis.verdict.kind == "STAGE_BOTTLENECK", analysis.findings
    assert "target-forward" in analysis.verdict.headline
    assert "give target-forward one more worker" in analysis.verdict.action.lower()
    # The drafter's wait is the loop's wait for batches: it is named once.
    assert not [f for f in analysis.findings if f.kind == "INPUT_BOUND" and f.severity != "info"]
    speedups = []
    for number in range(3):  # the machine is noisy
        slow, _ = run(example, tmp_path, f"slow-{number}", fix=False)
        fixed, _ = run(example, tmp_path, f"fixed-{number}", fix=True)
        speedups.append(fixed.tokens_per_s / slow.tokens_per_s)
        if speedups[-1] > 1.1:
            return
    raise AssertionError(speedups)
