"""The plain text of a report, and the numbers in it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintrace_reporting.bars import apportion, bar, durations, fold, shares
from traintrace_reporting.format import (
    clean,
    count,
    number,
    percent,
    seconds,
    sentence,
    wrapped,
)
from traintrace_reporting.schema import validate
from traintrace_reporting.text import render_text

Summary = dict[str, Any]


def test_the_text_does_not_depend_on_the_terminal(
    input_bound: Summary, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = render_text(input_bound)
    for name, value in {
        "COLUMNS": "200",
        "FORCE_COLOR": "1",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }.items():
        monkeypatch.setenv(name, value)
        assert render_text(input_bound) == expected


def test_the_text_is_plain_and_ends_in_one_line_break(input_bound: Summary) -> None:
    text = render_text(input_bound)
    assert "\x1b" not in text
    assert text.endswith("final_summary.txt\n")
    assert all(line == line.rstrip() for line in text.splitlines())


def test_the_facts_of_a_run_read_as_written_here(input_bound: Summary) -> None:
    facts = render_text(input_bound).split("Throughput")[1].splitlines()
    assert [line.strip() for line in facts] == [
        "96.3 steps/s · 3,080 samples/s  within steps",
        "88.3 steps/s · 2,820 samples/s  with what lies between",
        "Set-up           cpu · batch 32 · accumulation 1 · 0 loader workers · 32-true",
        "Machine          4 CPUs",
        "Tracing cost     46.0 us a step (38.0 to 55.0, 0.4 % of step time)",
        "set-up 61.0 ms · finish 234 ms · level host",
        "Findings in      step_time, between_steps",
        "No finding in    system, process, stages",
        "Undecided        convergence, efficiency: no loss was logged",
        "Not measured     ranks, communication: one rank",
        "memory: no accelerator",
        "Files            final_summary.json, final_summary.txt",
    ]


def test_a_cost_scaled_from_the_window_is_labelled(input_bound: Summary) -> None:
    input_bound["verdict"]["cost_basis"] = "window"
    assert "7.26 s of 10.2 s, scaled from the window" in render_text(input_bound)


@given(st.lists(st.integers(0, 10**18), min_size=1, max_size=30), st.integers(0, 10_000))
def test_parts_add_to_the_whole_and_none_is_off_by_one(values: list[int], units: int) -> None:
    parts = apportion(values, units)
    total = sum(values)
    assert sum(parts) == (units if total else 0)
    assert all(
        abs(part * total - value * units) < total
        for part, value in zip(parts, values, strict=True)
        if total
    )


@given(st.lists(st.integers(1, 10**16), min_size=1, max_size=25))
def test_shares_add_to_a_hundred_per_cent(values: list[int]) -> None:
    assert sum(round(float(share.removesuffix(" %")) * 10) for share in shares(values)) == 1000


@given(st.dictionaries(st.text(max_size=5), st.integers(0, 10**15)))
def test_folding_loses_no_time(accounts: dict[str, int]) -> None:
    assert sum(ns for _, ns, _ in fold(accounts)) == sum(accounts.values())


@given(st.floats(0, 1), st.integers(1, 100), st.sampled_from("█▒"))
def test_a_bar_is_as_wide_as_asked_and_empty_only_for_nothing(
    fraction: float, width: int, texture: str
) -> None:
    drawn = bar(fraction, width, texture)
    assert len(drawn) == width
    assert bool(drawn.strip()) == (fraction > 0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "not measured"),
        (float("nan"), "not measured"),
        (True, "not measured"),
        (0, "0 s"),
        (4.2e-8, "0.0420 us"),
        (0.000_031, "31.0 us"),
        (0.000_999_6, "1.00 ms"),
        (0.402, "402 ms"),
        (0.999_6, "1.00 s"),
        (59.96, "60.0 s"),
        (99.96, "1 min 40 s"),
        (3_599.7, "60 min 00 s"),
        (11_530, "3 h 12 min"),
    ],
)
def test_seconds_come_in_the_unit_that_suits_them(value: object, expected: str) -> None:
    assert seconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (9.996, "10.0"),
        (0.04117, "0.0412"),
        (3075.0, "3,080"),
        (-41.23, "-41.2"),
        (1e300 * 10, "1"),
    ],
)
def test_numbers_keep_three_digits(value: float, expected: str) -> None:
    assert number(value).startswith(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "100.0 %"),
        (0.0, "0.0 %"),
        (0.000_4, "0.04 %"),
        (0.000_01, "<0.01 %"),
        (None, "not measured"),
    ],
)
def test_percentages_never_round_something_to_nothing(value: object, expected: str) -> None:
    assert percent(value) == expected


def test_counts_agree_with_their_noun() -> None:
    assert [count(n, "step") for n in (0, 1, 1204, None)] == [
        "0 steps",
        "1 step",
        "1,204 steps",
        "steps not measured",
    ]


def test_a_column_of_times_adds_to_its_sum_in_every_unit() -> None:
    assert durations([1_234_567, 2_345_678]) == ["1.23 ms", "2.35 ms"]
    assert durations([1_005_000_000, 1_005_000_000]) == ["1.01 s", "1.00 s"]
    assert durations([150_040_000_000, 60_000_000_000]) == ["150.0 s", "60.0 s"]
    assert durations([9_000 * 10**9, 61 * 10**9]) == ["2:30:00", "0:01:01"]


def test_cleaned_text_is_one_printable_line() -> None:
    assert clean("a\tb\n c\x1b[1m\u202e") == "a b c\\x1b[1m\\u202e"
    assert clean("abcdef", 4) == "abc…"
    assert clean(None) == ""


def test_a_sentence_has_a_capital_and_one_full_stop() -> None:
    assert sentence("the loader waits") == "The loader waits."
    assert sentence("Done!") == "Done!"
    assert sentence("torch.compile goes on") == "torch.compile goes on."
    assert sentence("so it is.") == "So it is."
    assert sentence(None) == ""


def test_lines_break_between_parts_and_not_inside_them() -> None:
    assert wrapped("a 1 ms · b 2 ms · c 3 ms", 15) == "a 1 ms · b 2 ms\nc 3 ms"


def test_the_samples_are_summaries_as_they_are_published(
    input_bound: Summary, many_ranks: Summary
) -> None:
    validate(input_bound)
    validate(many_ranks)


def test_a_long_reason_takes_two_lines_at_most(input_bound: Summary) -> None:
    input_bound["families"]["memory"]["reason"] = "This is a long reason. " * 20
    text = render_text(input_bound)
    told = text[text.index("memory: this is a long") : text.index("Files")]
    assert 2 <= len(told.strip().splitlines()) <= 3
    assert told.strip().endswith("…")
