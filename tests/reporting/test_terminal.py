"""The report in the terminal: complete, honest about gaps, and never wider than it was asked to be."""

import copy
import io
import re
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from traintrace_analysis import wording
from traintrace_reporting import bars
from traintrace_reporting import format as plain
from traintrace_reporting.terminal import print_report

Summary = dict[str, Any]
Printed = Callable[..., str]

SAMPLES = [
    "input_bound",
    "balanced",
    "one_step",
    "zero_steps",
    "failed",
    "nothing_measured",
    "many_ranks",
    "hostile",
]
WALL_ROW = re.compile(r"^  \S.* ([\d.:]+)( s| ms)? +(\d+\.\d) %$")


def wall_rows(text: str) -> list[str]:
    lines = text.splitlines()
    start = next(
        index for index, line in enumerate(lines) if line.startswith("Where the time went")
    )
    return [line for line in lines[start + 1 : lines.index("", start)] if WALL_ROW.match(line)]


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> Summary:
    summary: Summary = request.getfixturevalue(request.param)
    return summary


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_asked(sample: Summary, printed: Printed, width: int) -> None:
    for line in printed(sample, width).splitlines():
        assert cell_len(line) <= width, line


def test_nothing_looks_like_a_missing_value(sample: Summary, printed: Printed) -> None:
    assert not re.search(r"\b(nan|none|null|inf)\b|[{}]", printed(sample), re.IGNORECASE)


def test_not_even_nan_in_the_summary_is_printed(input_bound: Summary, printed: Printed) -> None:
    for metric in input_bound["step_time"]["metrics"].values():
        metric.update(mean=float("nan"), p95=float("inf"), share=float("nan"))
    input_bound["overhead"].update(share=float("nan"), setup_s=float("inf"))
    assert not re.search(r"\b(nan|inf)\b", printed(input_bound), re.IGNORECASE)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_printed_shares_add_to_a_hundred(
    input_bound: Summary, printed: Printed, width: int
) -> None:
    rows = [WALL_ROW.match(row) for row in wall_rows(printed(input_bound, width))[-9:]]
    tenths = [round(float(row[3]) * 10) for row in rows if row]
    assert len(tenths) == 9
    assert sum(tenths) == 1000


def test_printed_seconds_add_to_the_wall_time(input_bound: Summary, printed: Printed) -> None:
    hundredths = [
        round(float(row[1]) * 100)
        for line in wall_rows(printed(input_bound))
        if (row := WALL_ROW.match(line))
    ]
    assert sum(hundredths) == round(input_bound["wall"]["total_ns"] / 1e7)


def test_accounts_are_sorted_by_time_and_small_ones_share_a_line(
    input_bound: Summary, printed: Printed
) -> None:
    names = [row.split("  ")[1].strip() for row in wall_rows(printed(input_bound))]
    assert names[:4] == ["input_wait", "backward", "forward", "optimizer"]
    assert names[-1].startswith("5 smaller accounts")
    assert "gap" in names


def test_a_single_small_account_is_named_rather_than_folded(
    input_bound: Summary, printed: Printed
) -> None:
    input_bound["wall"]["accounts_ns"] = {"forward": 10**9, "gap": 10**6}
    text = printed(input_bound)
    assert "smaller account" not in text
    assert any(row.startswith("  gap ") for row in wall_rows(text))


def test_the_verdict_comes_before_everything_else(input_bound: Summary, printed: Printed) -> None:
    text = printed(input_bound)
    order = [
        "INPUT_BOUND",
        "Training waits for data",
        "7.26 s of 10.2 s",
        "confidence 97 %",
        "3.47x faster",
    ]
    order += [
        "(3.10x to 3.49x, host clock)",
        "Set num_workers=3",
        "Where the time went",
        "One step",
    ]
    order += ["Also found", "Throughput", "Set-up", "Tracing cost", "Findings in", "Files"]
    places = [text.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_finding_of_the_verdict_is_not_listed_again(
    input_bound: Summary, printed: Printed
) -> None:
    text = printed(input_bound)
    assert text.count("INPUT_BOUND") == 1
    assert "EVALUATION_COST" in text


def test_what_was_not_measured_says_why(input_bound: Summary, printed: Printed) -> None:
    assert re.search(r"^  h2d +not measured: no accelerator$", printed(input_bound), re.MULTILINE)


def test_a_measured_zero_is_printed_as_zero(input_bound: Summary, printed: Printed) -> None:
    input_bound["step_time"]["metrics"]["h2d"] = {
        "median": 0.0,
        "mean": 0.0,
        "p95": 0.0,
        "share": 0.0,
    }
    assert re.search(r"^  h2d +0 +0 +0 +0\.0 %$", printed(input_bound), re.MULTILINE)


def test_a_time_too_small_for_the_table_is_not_printed_as_zero(
    input_bound: Summary, printed: Printed
) -> None:
    input_bound["step_time"]["metrics"]["h2d"] = {
        "median": 0.0004,
        "mean": 0.0,
        "p95": 0.0,
        "share": 0.00004,
    }
    assert re.search(r"^  h2d +<0\.01 +0 +0 +<0\.01 %$", printed(input_bound), re.MULTILINE)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("failed", "Training failed after 411 completed steps, exit code 1."),
        ("interrupted", "Training was interrupted after 411 completed steps, exit code 1."),
        ("lost", "Training stopped without a word"),
        ("running", "This run has not ended"),
    ],
)
def test_a_run_that_did_not_complete_says_so(
    failed: Summary, printed: Printed, status: str, told: str
) -> None:
    failed["run"]["status"] = status
    text = printed(failed, 120)
    assert text.splitlines()[0].endswith(status)
    assert told in text


def test_a_completed_run_says_nothing_of_its_ending(input_bound: Summary, printed: Printed) -> None:
    assert "exit code" not in printed(input_bound)


def test_a_run_without_steps_has_a_verdict_and_no_tables(
    zero_steps: Summary, printed: Printed
) -> None:
    text = printed(zero_steps)
    assert "Too few steps to judge" in text
    assert "0 steps" in text
    assert "Where the time went" not in text
    assert "One step" not in text


def test_a_run_of_one_step_still_shows_where_its_time_went(
    one_step: Summary, printed: Printed
) -> None:
    text = printed(one_step)
    assert "1 step ·" in text
    assert "Where the time went" in text


def test_ranks_that_left_no_record_are_missed(many_ranks: Summary, printed: Printed) -> None:
    text = printed(many_ranks)
    assert "1 of 8 ranks left no record." in text
    assert "rank 3, 10.2 s in all" in text
    assert re.search(r"^  step_time .* 12\.49 \(3\)$", text, re.MULTILINE)
    assert re.search(r"^  gradient_sync +not measured$", text, re.MULTILINE)


def test_the_ranks_are_shown_with_the_slowest_first(many_ranks: Summary, printed: Printed) -> None:
    text = printed(many_ranks)
    assert "the 4 with most work of 6" not in text
    assert "3 with most work and the one with least, of 6" in text
    rows = re.findall(
        r"^  rank (\d) +([\d.]+) +([\d.]+) +(0|\S+ \(.*?\)) +(.*)$", text, re.MULTILINE
    )
    assert len(rows) == 4
    assert rows[0] == ("3", "12.00", "0.50", "+2.00 (16 %)", "100.0 %")
    assert rows[-1] == ("7", "10.00", "2.50", "0", "0.0 %")
    assert "rank 2 is not compared: backward was not measured" in text


def test_ranks_that_are_not_compared_say_why(many_ranks: Summary, printed: Printed) -> None:
    many_ranks["ranks"] = None
    many_ranks["coverage"]["section.ranks"] = {"reason": "one rank measured its steps"}
    assert "not compared (one rank measured its steps)" in printed(many_ranks)


def test_memory_and_machine_name_the_rank_of_the_largest_value(
    many_ranks: Summary, printed: Printed
) -> None:
    words = " ".join(printed(many_ranks, 120).split())
    assert "process 3.22 GB (rank 5) · device 42.9 GB allocated (rank 3)" in words
    assert "2 nodes, the first with 32 CPUs · 7.00 busy on average" in words
    assert "24 % of RAM used at most (rank 4)" in words
    assert "8 GPUs · at least 61 % busy (rank 5)" in words
    assert "71 degrees at most" in words


def test_a_single_rank_has_no_column_for_ranks(input_bound: Summary, printed: Printed) -> None:
    text = printed(input_bound)
    assert "most (rank)" not in text
    assert "Ranks" not in text
    assert "gradient_sync" not in text


def test_names_cannot_style_the_terminal(hostile: Summary, printed: Printed) -> None:
    text = printed(hostile)
    assert "[red]" in text
    assert {char for char in text if unicodedata.category(char)[0] == "C"} == {"\n"}


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "cp437"])
def test_a_terminal_without_unicode_gets_bars_of_number_signs(
    sample: Summary, printed: Printed, encoding: str
) -> None:
    text = printed(sample, 80, encoding)
    assert "Where the time went" not in text or re.search(r"^  input_wait +#+ ", text, re.MULTILINE)
    assert not set(text) & set("█▒─…·")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


def test_a_terminal_gets_colours(input_bound: Summary, terminal: Terminal) -> None:
    print_report(input_bound, file=terminal, width=80)
    assert "\x1b[" in terminal.getvalue()


def test_no_color_leaves_no_escape_code(
    input_bound: Summary, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    print_report(input_bound, file=terminal, width=80)
    assert "\x1b" not in terminal.getvalue()


def test_color_false_leaves_no_escape_code(input_bound: Summary, terminal: Terminal) -> None:
    print_report(input_bound, file=terminal, width=80, color=False)
    assert "\x1b" not in terminal.getvalue()


def test_an_empty_summary_prints_a_report_without_a_verdict(printed: Printed) -> None:
    assert "No verdict." in printed({})


JUNK = [None, True, -1, 3.5, float("nan"), 10**400, "", "text", [], [1], {}, {"a": None}]


@given(st.data())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_damaged_summary_is_drawn_as_far_as_it_goes(
    many_ranks: Summary, data: st.DataObject
) -> None:
    summary = copy.deepcopy(many_ranks)
    node: Any = summary
    while True:
        key = data.draw(
            st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node)))
        )
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(st.sampled_from(JUNK))
    page = io.StringIO()
    print_report(summary, file=page, width=80)
    assert all(cell_len(line) <= 80 for line in page.getvalue().splitlines())


@pytest.mark.parametrize("width", range(40, 121, 5))
def test_the_cells_of_a_row_never_run_together(
    many_ranks: Summary, printed: Printed, width: int
) -> None:
    metrics = many_ranks["step_time"]["metrics"]
    for metric in metrics.values():
        for key in ("median", "mean", "p95", "worst"):
            metric[key] = None if metric[key] is None else metric[key] * 1_000
    lines = printed(many_ranks, width).splitlines()
    heads = next(line for line in lines if line.startswith("  milliseconds"))
    row = next(line for line in lines if line.startswith("  step_time"))
    assert len(re.split(r" {2,}", row.strip())) == len(re.split(r" {2,}", heads.strip()))
    assert heads.split()[1] == "median"
    assert "share" in heads


def test_no_cause_has_no_price(balanced: Summary, printed: Printed) -> None:
    text = printed(balanced)
    assert "Cost" not in text
    assert "no cause named" not in text


def test_an_observation_has_no_price(input_bound: Summary, printed: Printed) -> None:
    line = next(row for row in printed(input_bound).splitlines() if "EVALUATION_COST" in row)
    assert "402 ms" not in line


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "Training loop 3.47x faster without it (3.10x to 3.49x, host clock)"),
        ({"low": None, "high": None}, "Training loop 3.47x faster without it (host clock)"),
        ({"low": 1.0}, "Training loop at most 3.47x faster without it"),
        ({"low": 3.47, "high": 3.47, "scope": "run"}, "Whole run 3.47x faster without it"),
    ],
)
def test_a_gain_says_of_what_and_how_sure(
    input_bound: Summary, printed: Printed, change: Summary, told: str
) -> None:
    input_bound["verdict"]["gain"].update(change)
    assert re.search(rf"Gain +{re.escape(told)} *│", printed(input_bound, 100))


def test_names_that_say_little_are_explained_where_they_are_shown(
    input_bound: Summary, printed: Printed
) -> None:
    text = printed(input_bound)
    assert "other: inside the step, in no phase or mark" in text
    assert "gap: between steps, in no mark" in text
    assert "shutdown:" not in text  # folded away
    assert "residual: batch_prep + communication + clip" in text


@pytest.mark.parametrize("width", [80, 120])
def test_no_name_is_lost_among_the_smaller_accounts(
    input_bound: Summary, printed: Printed, width: int
) -> None:
    text = " ".join(printed(input_bound, width).split())
    assert "checkpoint, epoch_boundary, batch_prep, callbacks, shutdown" in text


def test_first_fetches_are_shown_in_the_bar_that_holds_them(
    input_bound: Summary, printed: Printed
) -> None:
    assert "first fetches" not in printed(input_bound)
    input_bound["verdict"]["kind"] = input_bound["findings"][0]["kind"] = "EPOCH_START_COST"
    input_bound["findings"][0]["evidence"] = {"first_fetch_excess_s": 3.0}
    assert "input_wait: of which 3.00 s in first fetches of epochs" in printed(input_bound)
    assert bars.blamed(input_bound) == ("epoch_boundary", "input_wait")
    input_bound["findings"][0]["evidence"] = {"first_fetch_excess_s": 0.0}
    assert bars.blamed(input_bound) == ("epoch_boundary",)


def test_only_what_is_undecided_or_not_measured_gives_a_reason(
    input_bound: Summary, printed: Printed
) -> None:
    text = printed(input_bound, 120)
    assert "Nothing stands out" not in text
    assert "convergence, efficiency: no loss was logged" in text


def test_a_reason_that_the_verdict_gives_is_not_given_twice(
    input_bound: Summary, printed: Printed
) -> None:
    input_bound["families"]["convergence"]["reason"] = input_bound["verdict"]["why"]
    assert "convergence: see Why" in printed(input_bound)


def test_a_finding_without_seconds_does_not_cost_zero(
    input_bound: Summary, printed: Printed
) -> None:
    input_bound["verdict"].update(cost_s=0.0, gain=None)
    text = printed(input_bound)
    assert "no time lost that was measured · confidence 97 %" in text
    assert "0 s of" not in text


def test_other_findings_say_what_they_cost_and_how_sure_they_are(
    input_bound: Summary, printed: Printed
) -> None:
    other = input_bound["findings"][1]
    other.update(severity="warning", cost_s=0.402, confidence=0.9)
    assert re.search(r"EVALUATION_COST +402 ms +90 % ", printed(input_bound))
    other.update(cost_s=0.0)
    assert re.search(r"EVALUATION_COST +- +90 % ", printed(input_bound))
    other.update(severity="info")
    assert re.search(r"EVALUATION_COST +info +90 % ", printed(input_bound))


def test_a_number_keeps_its_unit_on_its_line(input_bound: Summary, printed: Printed) -> None:
    for filler in range(40):
        input_bound["verdict"]["why"] = f"{'x' * filler} " + "takes 12.0 ms of 45 % " * 8
        card = printed(input_bound).split("Where the time went")[0]
        assert not re.search(r"[\d.]+ *│\n│ +(ms|%)", card)


def test_a_restart_is_told_above_the_verdict(input_bound: Summary, printed: Printed) -> None:
    first = {"n": 0, "status": "lost", "wall_s": 9.3, "downtime_before_s": None, "steps": 50}
    last = {"n": 1, "status": "completed", "wall_s": 12.0, "downtime_before_s": 50.7, "steps": 120}
    input_bound["run"]["attempts"] = [first, last]
    told = " ".join(printed(input_bound).split("INPUT_BOUND")[0].split())
    assert "Started 2 times; this is about the last start." in told
    assert "The one before: lost after 50 steps, 50.7 s before it." in told


def test_throughput_is_told_once_where_nothing_lies_between_the_steps(
    input_bound: Summary, printed: Printed
) -> None:
    assert "with what lies between" in printed(input_bound)
    for rate in input_bound["throughput"].values():
        rate["round_trip"] = rate["step"]
    text = printed(input_bound)
    assert text.count("steps/s") == 1
    assert "within steps" not in text


def test_a_long_reason_for_a_missing_row_stays_in_its_column(
    input_bound: Summary, printed: Printed
) -> None:
    input_bound["coverage"]["h2d"] = {"reason": "not_observed: " + "no transfer was seen " * 6}
    lines = printed(input_bound).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("  h2d"))
    assert "not_observed" not in lines[at]
    assert re.match(r" {20}\S", lines[at + 1])


def test_the_report_writes_a_length_of_time_as_the_findings_do() -> None:
    for value in (3.0, 0.00176, 42.0, 7_777.0):
        assert plain.seconds(value) == wording.seconds(value)
    assert wording.seconds(3.0) == "3.00 s"
    assert wording.count(1, "call") == "1 call"


def test_only_the_whole_is_a_hundred_per_cent_in_a_sentence() -> None:
    written = [wording.percent(share) for share in (0.38, 0.994, 0.996, 0.9999, 1.0, 0.044)]
    assert written == ["38 %", "99 %", "99.6 %", "99.9 %", "100 %", "4.4 %"]


def test_a_limit_is_written_with_its_unit_and_no_empty_digits() -> None:
    limits = ((0.1, "share"), (2.0, "ms"), (0.5, "log"), (1_000.0, "steps"), (1.4e9, "bytes/s"))
    assert [wording.quantity(*one) for one in limits] == [
        "10 %",
        "2 ms",
        "0.5 log",
        "1,000 steps",
        "1.40 GB/s",
    ]
