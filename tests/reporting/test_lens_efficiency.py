"""The lens on efficiency: its section, and what people read."""

import json
import re
from typing import Any

import pytest
from rich.console import Group

from tests.labs.budgets import analysis_of, counted_step, on_gpu, with_flops
from tests.labs.runs import CPU_STEP, make_rank
from traintrace.facts import RankFacts
from traintrace_reporting.lenses import efficiency, efficiency_rows
from traintrace_reporting.text import as_text


def page(summary: Any, width: int = 80) -> str:
    return as_text(Group(*efficiency_rows.rows(summary, width)))


def summary_of(rank: RankFacts, **options: Any) -> dict[str, Any]:
    section = efficiency.section(analysis_of(rank, **options))
    return json.loads(json.dumps({"efficiency": section}, allow_nan=False))


def test_the_page_says_mfu_lines_and_what_they_rest_on() -> None:
    waiting = {**CPU_STEP, "input_wait": 40.0}
    rank = make_rank(200, ms=waiting, jitter=0.0)
    text = page(
        summary_of(with_flops(rank, counted_step(3, 2 * 10**9), counted_step(8, 2 * 10**9)))
    )
    assert "Efficiency" in text
    assert "MFU 3.9 % of the run, 3.9 % in steps" in text
    assert "useful_compute" in text
    assert "compute_overhead" in text
    assert "input_wait                  8.00 s" in text
    assert "INPUT_BOUND" in text
    assert "2.00 GFLOP a step (counted on 2 real steps)" in text
    assert "peak 1.00 fp32 TFLOP/s (as given)" in text


def test_nothing_is_shown_where_nobody_asked_and_nothing_is_known() -> None:
    assert page(summary_of(make_rank(100))).strip() == ""
    assert list(efficiency_rows.rows({}, 80)) == []


def test_who_asked_and_got_no_mfu_reads_why() -> None:
    refused = with_flops(make_rank(100), peak_tflops=None, not_counted="the model is compiled")
    text = page(summary_of(refused))
    assert "no MFU" in text
    assert "No step was counted: the model is compiled." in text


def test_an_impossible_mfu_is_shown_as_it_is() -> None:
    rank = with_flops(make_rank(100), flops_per_step=1e12, peak_tflops=0.01)
    summary = summary_of(rank)
    assert summary["efficiency"]["mfu"]["run"] > 100
    assert summary["efficiency"]["lines_ns"]["compute_overhead"] < 0
    text = page(summary)
    assert "impossible" in text
    assert "-" in next(line for line in text.splitlines() if "compute_overhead" in line)


@pytest.mark.parametrize("peak", [1e-15, 1e-9])
def test_an_mfu_beyond_all_sense_is_no_long_number(peak: float) -> None:
    rank = with_flops(make_rank(100), flops_per_step=1e12, peak_tflops=peak)
    text = page(summary_of(rank))
    assert "MFU over 1,000 % of the run" in text
    assert "An MFU of over 1,000 % is impossible" in text
    assert f"peak {peak:g} TFLOP/s (as given)" in text
    assert not re.search(r"\d{5}", text)
    assert max(map(len, text.splitlines())) <= 80


def test_a_peak_that_no_device_has_is_told() -> None:
    rank = with_flops(make_rank(100), flops_per_step=1e12, peak_tflops=1e30)
    text = page(summary_of(rank))
    assert "A peak of 1e+30 TFLOP/s is more than any device has" in text
    assert "give peak_tflops in 1e12 operations a second" in " ".join(text.split())
    assert not re.search(r"\d{5}|\d,\d{3},\d{3}", text)


def test_a_derived_peak_is_not_called_published() -> None:
    rank = on_gpu(make_rank(100), "Apple M1 Max (24 GPU cores)")
    summary = summary_of(with_flops(rank, counted_step(3, 10**9), peak_tflops=None))
    assert summary["efficiency"]["peak"]["source"].startswith(
        "derived from 24 of 32 cores: https://"
    )
    assert "peak 7.80 fp32 TFLOP/s (derived, dense)" in page(summary)


def test_a_published_peak_is_told_with_its_format() -> None:
    half = counted_step(3, 0, flops={"bf16": 10**12}, backward_flops=0)
    rank = with_flops(on_gpu(make_rank(100)), half, peak_tflops=None, uncounted=("own::attention",))
    summary = summary_of(rank)
    assert summary["efficiency"]["peak"]["tflops"] == {"bf16": 989.5}
    assert summary["efficiency"]["peak"]["source"].startswith("https://")
    text = page(summary)
    assert "peak 990 bf16 TFLOP/s (published, dense)" in text
    assert "own::attention" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_line_keeps_to_the_width(width: int) -> None:
    rank = with_flops(make_rank(100), flops_per_step=1e9, uncounted=("a::" + "b" * 60,))
    assert max(map(len, page(summary_of(rank), width).splitlines())) <= width


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "text",
        {"mfu": {"run": "x"}, "asked": True, "reason": 3},
        {"mfu": {"run": 0.5}, "lines_ns": {"a": None, "b": "c", "\x1b[31m": 5}, "total_ns": 10},
        {
            "mfu": {"run": 0.5},
            "lines_ns": [1],
            "total_ns": "x",
            "work": [],
            "peak": {"tflops": {"a": None}},
        },
    ],
)
def test_a_summary_that_somebody_edited_breaks_nothing(broken: Any) -> None:
    text = page({"efficiency": broken})
    assert "\x1b" not in text
