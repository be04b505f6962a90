"""R09 to R19: what changed, whether that is noise, what ends a pipeline, and files that say nothing."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases.reports.clocked import STEP, Clocked
from tests.cases.reports.commands import THRESHOLD, command, content, named, page, written
from tests.labs.guarded import make_summary
from tests.labs.runs import CPU_STEP
from traintrace import open_run
from traintrace_reporting.guard_contract import Contract

EVERY_STEP = Contract("digits", 1, 200, {"lr": 0.1})


def test_r09_old_new_difference_and_percent_are_told_by_phase_the_largest_first(
    clocked: Clocked,
) -> None:
    """pytorch/kineto#655: two timelines were compared by eye."""
    before = clocked.train("before", {**STEP, "forward": 20.0})
    after = clocked.train("after", {**STEP, "forward": 30.0})
    compared = content("compare", before, after)
    forward = named(compared["metrics"], "forward")
    assert (forward["a"]["mean_ms"], forward["b"]["mean_ms"]) == pytest.approx((20, 30), rel=0.02)
    assert forward["difference_ms"] == pytest.approx(10.0, abs=0.3)
    assert forward["ratio"] == pytest.approx(1.5, rel=0.01)
    first, *rest = compared["phases"]
    assert (first["name"], first["judged"]) == ("forward", "regressed")
    assert first["difference_s"] == pytest.approx(10e-3, abs=0.3e-3)
    assert all(abs(one["difference_s"] or 0.0) < 0.5e-3 for one in rest)
    row = re.search(r"forward (\S+) (\S+) (\S+) \S+ to \S+ (\S+) regressed", page("compare", before, after))  # fmt: skip
    assert row is not None
    assert [float(one) for one in row.groups()] == pytest.approx([20, 30, 10, 50], rel=0.02)


def _jittered(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    stretch = [1.0 + chance.uniform(-0.08, 0.08) for _ in range(200)]
    ms = {phase: [spent * one for one in stretch] for phase, spent in CPU_STEP.items()}  # type: ignore[operator]
    return make_summary(f"run{seed}", ms=ms, jitter=0.0, contract=EVERY_STEP)


def test_r11_the_same_code_with_eight_percent_of_jitter_passes_20_of_20(tmp_path: Path) -> None:
    """pytorch/benchmark#1681, #1339: alarms every day, until the limit was 30 %."""
    codes = []
    for seed in range(0, 40, 2):
        pair = [written(tmp_path / f"{one}.json", _jittered(100 + one)) for one in (seed, seed + 1)]
        codes.append(command("compare", *pair, THRESHOLD, 10).exit_code)
    assert codes == [0] * 20


def test_r12_a_regression_ends_the_job_with_a_line_that_names_the_phase(tmp_path: Path) -> None:
    """coiled/benchmarks#190: numbers were printed and nobody read them."""
    places = [
        written(
            tmp_path / f"{name}.json",
            make_summary(name, ms={**CPU_STEP, "forward": forward_ms}, contract=EVERY_STEP),
        )
        for name, forward_ms in (("before", 20.0), ("after", 30.0))
    ]
    result = command("compare", *places, THRESHOLD, 20)
    assert result.exit_code == 4
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("SLOWER")]
    assert "forward +10" in line
    assert command("compare", *places[::-1], THRESHOLD, 20).exit_code == 0
    quiet = command("compare", *places, THRESHOLD, 20, "--json")
    assert (quiet.exit_code, json.loads(quiet.stdout)["guard"]["phase"]) == (4, "forward")
    assert "forward" in quiet.stderr


def test_r13_a_short_and_a_long_capture_of_the_same_code_are_no_change(clocked: Clocked) -> None:
    """nsys-ai#523: captures of other lengths gave confident nonsense."""
    ms = {**STEP, "forward": 12.0}
    short = clocked.train("short", ms, steps=50, warmup=5)
    long = clocked.train("long", ms, steps=500, warmup=5)
    for run, steps in ((short, 50), (long, 500)):
        window = content("report", run)["step_time"]["window"]
        assert window["warmup_steps"] >= 5, "what is slow at first is no part of it"
        assert window["steps"] + window["warmup_steps"] >= steps
    compared = content("compare", short, long)
    assert compared["verdict"] in ("EQUIVALENT", "INCONCLUSIVE")
    step = named(compared["metrics"], "step_time")
    assert step["a"]["mean_ms"] == pytest.approx(20.0, rel=0.02)
    assert step["ratio"] == pytest.approx(1.0, abs=0.02)
    assert any("45 to 495 steps" in told for told in compared["warnings"])


READERS = (
    ("report", "{bad}"),
    ("compare", "{good}", "{bad}"),
    ("compare", "{bad}", "{good}", THRESHOLD, "5"),
    ("compare", "{good}", "{good}", "{bad}"),
    ("diff", "{bad}", "{good}"),
    ("guard", "history", "{bad}", "--baseline", "{good}"),
    ("guard", "history", "{good}", "--baseline", "{bad}"),
    ("guard", "calibrate", "{good}", "{bad}"),
)


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("what", ["empty", "truncated", "made by hand"])
def test_r18_a_file_that_says_nothing_is_named_with_the_reason_and_a_code(
    tmp_path: Path, words: tuple[str, ...], what: str
) -> None:
    """HTA#233, HTA#148: files were read, nothing was shown, and no reason given."""
    good = written(tmp_path / "good.json", make_summary("good", steps=40))
    bad = tmp_path / "bad.json"
    text, reason = {
        "empty": ("", "cannot be read as JSON"),
        "truncated": (good.read_text("utf-8")[:-300], "cannot be read as JSON"),
        "made by hand": ('{"schema_version": "0.3", "step_time": {}}', "not a valid summary: at "),
    }[what]
    bad.write_text(text, "utf-8")
    result = command(*(word.format(good=good, bad=bad) for word in words))
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(bad) in result.stderr
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_r18_a_run_without_a_step_is_shown_and_says_why_nothing_follows(tmp_path: Path) -> None:
    good = written(tmp_path / "good.json", make_summary("good", steps=40))
    empty = written(tmp_path / "empty.json", make_summary("empty", steps=0))
    told = page("report", empty)
    assert "TOO_FEW_STEPS" in told
    assert "No completed step from rank 0." in told
    compared = content("compare", good, empty)
    assert compared["verdict"] == "INCOMPARABLE"
    assert "step" in compared["headline"]
    judged = command("guard", "history", empty, "--baseline", good)
    assert judged.exit_code == 3
    assert "empty has no step after its warm-up" in judged.stdout


def test_r19_every_step_of_a_run_with_default_settings_has_its_row(clocked: Clocked) -> None:
    """torchtune#2541: the default schedule captured two steps."""
    ms = {"input_wait": 1.0, "forward": 3.0, "backward": 5.0, "optimizer": 1.0}
    run = clocked.train("all", ms, steps=20, cv=0.0)
    columns = open_run(run).facts(("step", "duration_ns")).ranks[0].columns
    assert columns["step"] == list(range(1, 21))
    assert columns["duration_ns"] == [10_000_000] * 20
    summary = content("report", run)
    assert summary["counts"]["steps"] == 20
    assert summary["series"]["step_time_ms"] == [10.0] * 20
