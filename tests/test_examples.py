"""The three examples, run for real: they add up to the clock, count exactly, find the slow loader, change nothing."""

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.labs.cores import waited_for_a_core_ns
from traintrace import open_run
from traintrace.session import Session

# Lightning 2.6 on torch 2.13, and its advice on loaders and progress.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:The number of training batches.*"),
]

EXAMPLES = Path(__file__).parent.parent / "examples"
FRAMEWORKS = ("plain", "lightning", "huggingface")
BATCHES = 57  # 1,797 digits in batches of 32; the last one is short


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import an example as `python examples/...` does."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(framework: str) -> ModuleType:
        return importlib.import_module(f"digits_{framework}")

    yield load
    for name in [name for name in sys.modules if name.startswith("digits")]:
        del sys.modules[name]


class Outside:
    """A clock around the traced span: read right after it began and right before it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spans: list[int] = []
        begin, finish = Session.begin, Session.finish
        started: list[int] = []

        def clocked_begin(session: Session) -> None:
            begin(session)
            started.append(time.perf_counter_ns())

        def clocked_finish(session: Session, *arguments: Any, **options: Any) -> None:
            if not session.finished:
                self.spans.append(time.perf_counter_ns() - started.pop())
            finish(session, *arguments, **options)

        monkeypatch.setattr(Session, "begin", clocked_begin)
        monkeypatch.setattr(Session, "finish", clocked_finish)


def settings(module: ModuleType, folder: Path, **changes: Any) -> Any:
    return module.Settings(run_dir=folder, print_report=False, **({"epochs": 1} | changes))


def summary_of(folder: Path) -> Any:
    from traintrace_reporting import summarise_run

    (run,) = (path.parent for path in folder.glob("*/manifest.json"))
    return summarise_run(open_run(run))


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_books_add_up_to_an_outside_clock_and_the_counts_are_exact(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str, accumulate: int
) -> None:
    module, outside = example(framework), Outside(monkeypatch)
    waited_ns = waited_for_a_core_ns()
    module.train(settings(module, tmp_path, accumulate=accumulate, fast=True, epochs=2))
    waited_ns = waited_for_a_core_ns() - waited_ns
    summary = summary_of(tmp_path)
    wall = summary["wall"]
    assert sum(wall["accounts_ns"].values()) == wall["total_ns"]
    # A core may be given to another process between the two clocks.
    assert 0 <= wall["total_ns"] - outside.spans[0] < 1_000_000 + waited_ns
    steps = -(-BATCHES // accumulate)
    assert summary["counts"]["steps"] == 2 * steps
    assert summary["counts"]["micro_batches"] == 2 * BATCHES
    assert summary["counts"]["samples"] == 2 * 1797
    assert summary["setup"]["accumulation"] == accumulate
    (run,) = (path.parent for path in tmp_path.glob("*/manifest.json"))
    groups = open_run(run).facts(["micro_batches"]).ranks[0].columns["micro_batches"]
    last = BATCHES - accumulate * (steps - 1)
    assert list(groups) == ([accumulate] * (steps - 1) + [last]) * 2


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_slow_loader_is_the_verdict_and_a_fast_one_is_not(
    example: Any, tmp_path: Path, framework: str, fast: bool
) -> None:
    module = example(framework)
    module.train(settings(module, tmp_path, fast=fast))
    summary = summary_of(tmp_path)
    assert (summary["verdict"]["kind"] == "INPUT_BOUND") is not fast
    assert fast or summary["verdict"]["gain"]["speedup"] > 1.5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_losses_and_weights_are_the_same_to_the_bit_traced_disabled_and_without(
    example: Any, tmp_path: Path, framework: str
) -> None:
    module = example(framework)
    on, off, absent = (
        module.train(settings(module, tmp_path / mode, fast=True, trace=mode, accumulate=4))
        for mode in ("on", "off", "absent")
    )
    assert on.losses == off.losses == absent.losses
    assert len(on.losses) == BATCHES
    for traced, disabled, untraced in zip(on.weights, off.weights, absent.weights, strict=True):
        assert traced.equal(disabled)
        assert traced.equal(untraced)
    assert (tmp_path / "on").exists()
    assert not (tmp_path / "off").exists()
