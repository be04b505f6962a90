"""The lens on pipelines: its section of the summary and its lines in the terminal."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from tests.labs.runs import make_rank, make_run
from tests.labs.stages import StagePlan, drawn_ms, line, run
from traintrace.stagefacts import Pipeline
from traintrace_analysis import analyse
from traintrace_reporting.lenses import stages, stages_rows


def summary(pipeline: Pipeline | None) -> dict[str, Any]:
    """Give a summary that holds this section alone, as it comes back from a file."""
    analysis = analyse(make_run(replace(make_rank(20), pipeline=pipeline)))
    found: dict[str, Any] = json.loads(
        json.dumps({"stages": stages.section(analysis)}, allow_nan=False)
    )
    return found


def shown(summary: Mapping[str, Any], width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        for row in stages_rows.rows(summary, width):
            console.print(row)
    return [text.rstrip() for text in capture.get().splitlines()]


def test_a_run_without_stages_has_no_section_and_no_lines() -> None:
    found = summary(None)
    assert found == {"stages": None}
    assert shown(found) == []


def test_the_section_holds_what_was_found() -> None:
    section = summary(line(4.0, 9.0, 5.0, count=500, workers=(1, 2, 1)))["stages"]
    assert [one["name"] for one in section["stages"]] == ["s0", "s1", "s2"]
    assert section["last_stage"] == "s2"
    assert section["limiting"]["stage"] == "s1"
    assert section["limiting"]["waits_agree"] is True
    assert section["replay"]["deviation"] == pytest.approx(0.0, abs=1e-9)
    assert {one["change"] for one in section["what_ifs"]} == {
        "to_next",
        "faster",
        "worker",
        "buffer",
    }
    assert section["withheld"] is None
    slow = section["stages"][1]
    assert slow["workers"] == 2
    assert sum(
        slow[f"{name}_share"] for name in ("busy", "starved", "blocked", "other")
    ) == pytest.approx(1.0)
    assert section["queues"][0]["imbalance_items"] == 0


def test_the_lines_name_stages_queues_the_limit_and_what_would_help() -> None:
    lines = shown(summary(line(4.0, 9.0, 5.0, count=500, workers=(1, 2, 1))))
    text = "\n".join(lines)
    assert lines[0].startswith("Pipeline")
    assert lines[0].endswith("items/s leave s2")
    assert lines[1].split() == [
        "stage",
        "workers",
        "busy",
        "starved",
        "blocked",
        "items/s",
        "ms/item",
    ]
    assert [row.split()[0] for row in lines[2:5]] == ["s0", "s1", "s2"]
    assert lines[5].split()[0] == "queue"
    assert "limited by s1 (99 % sure)" in text
    assert "waits agree" in text
    assert "s1 one more worker +" in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_lines_fit(width: int) -> None:
    plans = (
        StagePlan("a-stage-with-quite-a-long-name-for-a-table", [4_000_000] * 100, 1, (), ("q",)),
        StagePlan("train", [9_000_000] * 100, 12, ("q",)),
    )
    lines = shown(summary(run(plans, {"q": 2})), width)
    assert lines
    assert max(map(len, lines)) <= width


def test_a_circle_and_withheld_answers_are_told() -> None:
    plans = (
        StagePlan("prime", [1_000_000] * 40, 1, (), ("weights",)),
        StagePlan("act", [3_000_000] * 200, 1, ("weights",), ("rollouts",)),
        StagePlan("learn", [5_000_000] * 200, 1, ("rollouts",), ("weights",)),
    )
    text = " ".join(" ".join(shown(summary(run(plans, {"weights": 50, "rollouts": 2})))).split())
    assert "which stage limits: not separable: act and learn feed each other" in text
    assert "what if: not replayed" in text


def test_balanced_stages_are_told() -> None:
    text = " ".join(shown(summary(line(8.0, 8.02, 3.0, count=800, variation=0.1))))
    assert "s1 and s0 are balanced" in text or "s0 and s1 are balanced" in text


def test_a_last_stage_that_limits_is_told_as_good() -> None:
    text = " ".join(shown(summary(line(3.0, 4.0, 9.0, count=300))))
    assert "limited by s2" in text
    assert "the last stage, so all others keep up" in text


def test_few_services_have_finite_numbers_only() -> None:
    plans = (
        StagePlan("load", [1_000_000], 1, (), ("q",)),
        StagePlan("train", [1_000_000], 1, ("q",)),
    )
    found = summary(run(plans, {"q": None}))  # json.dumps refuses what is not finite
    assert found["stages"]["stages"][0]["demand_error_ms"] is None
    assert shown(found)


@pytest.mark.parametrize(
    "damage",
    [
        {"stages": 3},
        {"stages": {"stages": "text", "queues": None}},
        {"stages": {"stages": [3, {"name": None, "busy_share": "much", "workers": float("nan")}]}},
        {
            "stages": {
                "stages": [{}],
                "limiting": [],
                "what_ifs": [{"change": 3, "speedup": 2}],
                "queues": [{}],
            }
        },
        {
            "stages": {
                "stages": [{"name": "\x1b[31mred"}],
                "limiting": {"stage": "red", "lead": "x"},
            }
        },
    ],
)
def test_a_summary_that_was_edited_by_hand_breaks_nothing(damage: dict[str, Any]) -> None:
    for text in shown(damage):
        assert "\x1b" not in text


def test_answers_name_the_five_that_win_most() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    names = ("a", "b", "c", "d", "e")
    plans = [
        StagePlan(
            name,
            drawn_ms(rng, 10.0, 300),
            1,
            (f"q{n}",) if n else (),
            (f"q{n + 1}",) if n < 4 else (),
        )
        for n, name in enumerate(names)
    ]
    lines = shown(summary(run(plans, {f"q{n}": 1 for n in range(1, 5)})))
    start = next(n for n, text in enumerate(lines) if "what if:" in text)
    told = " · ".join(part.strip() for part in lines[start:] if "+" in part)
    wins = [float(part.rsplit("+", 1)[1].split()[0]) for part in told.split(" · ")]
    assert len(wins) == 5
    assert wins == sorted(wins, reverse=True)


def test_tiny_times_and_large_rates_do_not_run_into_each_other() -> None:
    found = summary(line(4.0, 9.0, 5.0, count=100))
    found["stages"]["stages"][0].update(items_per_s=153_000.0, demand_ms=0.0000437)
    assert shown(found)[2].split()[-2:] == ["153,000", "<0.001"]


def test_a_second_training_loop_is_not_proposed() -> None:
    text = " ".join(shown(summary(line(3.0, 4.0, 9.0, count=500))))
    assert "s2 20 % faster +" in text
    assert "s2 one more worker" not in text
