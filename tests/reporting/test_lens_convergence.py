"""What the report says about how training went."""

import json
import math
from typing import Any

import numpy as np
import pytest
from rich.console import Group

from benchmarks.convergence.events import EVENTS
from benchmarks.convergence.noise import draw
from benchmarks.convergence.runs import make_facts
from tests.labs.runs import make_rank, make_run
from traintrace_analysis import analyse
from traintrace_reporting.lenses.convergence import section
from traintrace_reporting.lenses.convergence_rows import rows
from traintrace_reporting.text import as_text


def told(summary: Any, width: int = 80) -> str:
    return as_text(Group(*rows(summary, width)))


def summary_with(event: str | None) -> dict[str, Any]:
    curves = draw("falling exponentially", 2_000, np.random.default_rng(1))
    if event is not None:
        EVENTS[event].inject(curves, 1_000, np.random.default_rng(2))
    found = section(analyse(make_facts(curves)))
    return json.loads(json.dumps({"convergence": found}, allow_nan=False))


def test_a_run_that_logged_nothing_has_no_section() -> None:
    assert section(analyse(make_run(make_rank(100)))) is None
    assert told({"convergence": None}).strip() == ""
    assert told({}).strip() == ""


def test_the_course_of_the_loss_is_one_line_with_its_best_step() -> None:
    text = told(summary_with(None))
    assert text.startswith("How training went")
    assert "falls · best 0.4" in text
    assert "padded tokens explain" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("nan", "infinite or NaN from step 1,001 on"),
        ("spike", "spike at step 1,001"),
        ("back", "up since step 1,001"),
        ("three signals", "loss + grad_norm + step_time at step 1,001"),
    ],
)
def test_what_happened_is_told_with_its_step(event: str, expected: str) -> None:
    assert expected in " ".join(told(summary_with(event)).split())


def test_keys_are_there_whatever_was_logged() -> None:
    full, lost = summary_with(None)["convergence"], summary_with("nan")["convergence"]
    assert set(full) == set(lost)
    assert set(full["loss"]) == set(lost["loss"])
    assert lost["loss"]["lost_at_step"] == 1001


@pytest.mark.parametrize(
    "broken",
    [
        {"convergence": 3},
        {"convergence": []},
        {"convergence": {"loss": "high", "grad_norm": 5, "others": "none", "meetings": 7}},
        {
            "convergence": {
                "loss": {
                    "values_count": 5,
                    "first": math.nan,
                    "spikes": [1, None],
                    "spikes_count": 2,
                }
            }
        },
        {
            "convergence": {
                "loss": {"values_count": "many"},
                "meetings": [{}],
                "others": [{"role": "evaluation_loss"}],
            }
        },
        {"convergence": {"step_time_explained": {"share": math.inf, "amount": "\x1b[31m"}}},
    ],
)
@pytest.mark.parametrize("width", [40, 80])
def test_a_summary_that_was_edited_by_hand_breaks_nothing(broken: Any, width: int) -> None:
    assert "\x1b" not in told(broken, width)
