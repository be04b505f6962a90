"""Every surface tells the same run: the summary, its file, the command, the text, the terminal, the tracker."""

import json
import shutil
from pathlib import Path

import pytest

from tests.scenarios.builds import Build, Builds
from tests.scenarios.catalogue import CATALOGUE
from tests.scenarios.surfaces import (
    WIDTH,
    Page,
    json_of_command,
    pages,
    told_by_analysis,
    told_by_summary,
)
from traintrace_reporting.finish import JSON_NAME, TEXT_NAME
from traintrace_reporting.format import STEP_ROWS, sentence
from traintrace_reporting.schema import validate

EVERY = pytest.mark.parametrize("name", [scenario.name for scenario in CATALOGUE])


@pytest.fixture
def build(builds: Builds, name: str) -> Build:
    return builds.one(name)


@EVERY
def test_summary_file_and_command_tell_what_the_analysis_found(build: Build) -> None:
    truth = told_by_analysis(build)
    written = build.file()
    validate(written)
    assert written == json.loads(json.dumps(build.summary, allow_nan=False))
    for surface in (
        build.summary,
        written,
        json_of_command(build.folder),
        json_of_command(build.folder / JSON_NAME),
    ):
        assert told_by_summary(surface) == truth


@EVERY
def test_every_page_tells_the_verdict_the_window_and_what_was_not_measured(build: Build) -> None:
    analysis, summary = build.analysis, build.summary
    for surface, text in pages(build).items():
        page = Page.of(text)
        assert max(map(len, page.lines)) <= WIDTH, surface
        assert "\x1b" not in text, surface
        assert page.says(analysis.verdict.kind), surface
        assert page.says(sentence(analysis.verdict.headline)), surface
        assert page.says(sentence(analysis.verdict.why)), surface
        assert page.says(sentence(analysis.verdict.action)), surface
        if len(analysis.window.steps):
            window = analysis.window
            assert page.window() == (window.steady_steps, window.warmup_steps, window.clock)
            _check_rows(page, build, surface)
        if (lost := summary["run"]["world_size"] - len(summary["run"]["ranks_seen"])) > 0:
            assert page.says(f"{lost} of {summary['run']['world_size']} ranks left no record") or (
                page.says("No rank left a record")
            ), surface


def _check_rows(page: Page, build: Build, surface: str) -> None:
    """Check that a row says "not measured" exactly where the metric is null, and not for a zero."""
    several = build.summary["run"]["world_size"] > 1
    for metric in STEP_ROWS:
        mean, row = build.analysis.metrics[metric].mean_ms, page.row(metric)
        if mean is None and metric == "gradient_sync" and not several:
            continue  # one rank has no other to wait for, and no row
        assert row is not None, (surface, metric)
        assert row.startswith("not measured") == (mean is None), (surface, metric, row)
        if mean == 0.0:
            assert row.startswith("0"), (surface, metric, row)
        if mean is not None and mean < 0.0:
            assert row.startswith("-"), (surface, metric, row)


@EVERY
def test_every_page_lists_the_other_findings_in_the_same_order(build: Build) -> None:
    others = [finding.kind for finding in build.analysis.findings]
    if build.analysis.verdict.kind in others:
        others.remove(build.analysis.verdict.kind)
    for surface, text in pages(build).items():
        assert Page.of(text).order(tuple(others)) == others, surface


@EVERY
def test_the_tracker_gets_a_number_exactly_where_one_was_measured(build: Build) -> None:
    flat = build.summary.flat()
    for name, metric in build.analysis.metrics.items():
        key = f"traintrace/{name}/mean_ms"
        assert flat.get(key) == metric.mean_ms
        assert (key in flat) == (metric.mean_ms is not None)
    assert flat["traintrace/verdict/confidence"] == build.analysis.verdict.confidence
    assert flat.get("traintrace/verdict/cost_s") == build.analysis.verdict.cost_s


@pytest.mark.parametrize("name", ["jittered_ddp", "h2d_bound_gpu", "restart", "no_record"])
def test_a_report_that_is_gone_is_made_again_and_says_the_same(
    build: Build, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(build.folder, folder)
    for name in (JSON_NAME, TEXT_NAME):
        (folder / name).unlink()
    again = json_of_command(folder)
    before = build.file()
    for one in (again, before):
        del one["generated_at"]
    assert again == before
    assert (folder / TEXT_NAME).read_text("utf-8") == (build.folder / TEXT_NAME).read_text("utf-8")
