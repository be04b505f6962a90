"""What a profile costs and how it ends: its own time, steps that never came, a full disk."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.plugins.plain_torch.test_profile import STEPS, recorded, train
from traintrace import open_run
from traintrace_analysis import REQUIRED_COLUMNS, analyse


def test_nobody_elses_callbacks_are_blamed_for_the_profile(tmp_path: Path) -> None:
    train(tmp_path, profile_steps=(4, 6))
    run = open_run(tmp_path / "run").facts(REQUIRED_COLUMNS)
    (event,) = (one for one in run.ranks[0].events if one.kind == "profile")
    booked = run.ranks[0].totals.account_ns["callbacks"]
    assert event.duration_ns is not None
    assert 0.9 * booked < event.duration_ns <= booked
    analysis = analyse(run)
    assert [one for one in analysis.findings if one.kind in ("GAP", "RECOVERABLE")] == []
    budget = analysis.efficiency
    assert budget is not None
    assert budget.lines_ns["profiling"] == event.duration_ns
    assert sum(budget.lines_ns.values()) == run.ranks[0].totals.wall_ns


@pytest.mark.parametrize("first", [STEPS, STEPS + 1, 50])
def test_steps_that_never_came_are_said_and_leave_no_trace(tmp_path: Path, first: int) -> None:
    train(tmp_path, profile_steps=(first, 60))
    came = first <= STEPS
    assert (tmp_path / "run/traces").exists() == came
    rank = recorded(tmp_path)
    told = {} if came else {"profile": f"the run ended before step {first} did"}
    assert {k: why for k, why in rank.unmeasured.items() if k == "profile"} == told
    assert [event.detail for event in rank.events if event.kind == "profile"] == (
        [f"steps {first} to {first}"] if came else []
    )


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kineto writes beside the file, and says that it failed on the terminal only."""
    from traintrace.registry import REGISTRY

    def fail(profile: Any, path: str) -> None:
        Path(path + ".tmp").write_text("half", encoding="utf-8")

    monkeypatch.setattr(REGISTRY, "raise_faults", False)
    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", fail)
    with pytest.warns(UserWarning, match="is the disk full"):
        train(tmp_path, profile_steps=(2, 3))
    assert list((tmp_path / "run/traces").iterdir()) == []
