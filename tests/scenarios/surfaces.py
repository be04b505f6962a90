"""What each surface says about a run, reduced to the facts on which all of them must agree."""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.scenarios.builds import Build
from traintrace_reporting.cli import main
from traintrace_reporting.finish import JSON_NAME, TEXT_NAME
from traintrace_reporting.terminal import print_report

_FRAME = re.compile(r"[\s│╭╮╰╯─]+")
_WINDOW = re.compile(r"([\d,]+) steps? (?:after ([\d,]+) of warm-up )?on the (host|device) clock")
WIDTH = 80


@dataclass(frozen=True, slots=True)
class Told:
    """Facts that a machine-readable surface tells in full.

    Attributes:
        window: First step, last step, steps, steps of warm-up.
        means: Mean by metric, None where null. by_rank: the same for every rank.
        states: State of coverage by signal. families: state by family.
        findings: Kind, severity and ranks, in order.
    """

    clock: str
    window: tuple[int | None, int | None, int, int]
    ranks: tuple[int, ...]
    seen: tuple[int, ...]
    means: Mapping[str, float | None]
    by_rank: Mapping[str, Mapping[str, float | None]]
    states: Mapping[str, str]
    families: Mapping[str, str]
    verdict: tuple[str, str, str, str]
    findings: tuple[tuple[str, str, tuple[int, ...]], ...]


def told_by_analysis(build: Build) -> Told:
    """Give what the analysis itself says."""
    analysis, window = build.analysis, build.analysis.window
    ids = window.steps.tolist()
    verdict = analysis.verdict
    metrics = analysis.metrics
    return Told(
        clock=window.clock,
        window=(
            ids[0] if ids else None,
            ids[-1] if ids else None,
            len(ids),
            window.warmup_steps,
        ),
        ranks=window.expected_ranks,
        seen=window.ranks,
        means={name: metric.mean_ms for name, metric in metrics.items()},
        by_rank={
            name: {str(rank): mean for rank, mean in metric.by_rank.items()}
            for name, metric in metrics.items()
        },
        states={name: entry.state for name, entry in analysis.coverage.items()},
        families={name: entry.state for name, entry in analysis.families.items()},
        verdict=(verdict.kind, verdict.outcome, verdict.severity, verdict.headline),
        findings=tuple((f.kind, f.severity, f.ranks) for f in analysis.findings),
    )


def told_by_summary(summary: Mapping[str, Any]) -> Told:
    """Give what a summary says, whether it comes from memory, a file, or a command."""
    steps, verdict = summary["step_time"], summary["verdict"]
    window, metrics = steps["window"], steps["metrics"]
    return Told(
        clock=steps["clock"],
        window=tuple(window[k] for k in ("start_step", "end_step", "steps", "warmup_steps")),
        ranks=tuple(int(rank) for rank in metrics["step_time"]["by_rank"]),
        seen=tuple(summary["run"]["ranks_seen"]),
        means={name: metric["mean"] for name, metric in metrics.items()},
        by_rank={name: metric["by_rank"] for name, metric in metrics.items()},
        states={
            name: entry["state"]
            for name, entry in summary["coverage"].items()
            if name != "section.guard"  # the one section that the analysis knows nothing of
        },
        families={name: entry["state"] for name, entry in summary["families"].items()},
        verdict=tuple(verdict[k] for k in ("kind", "outcome", "severity", "headline")),
        findings=tuple((f["kind"], f["severity"], tuple(f["ranks"])) for f in summary["findings"]),
    )


def json_of_command(path: Path) -> dict[str, Any]:
    """Give what `traintrace report PATH --json` prints."""
    done = CliRunner().invoke(main, ["report", str(path), "--json"])
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert isinstance(content, dict)
    return content


@cache
def pages(build: Build) -> dict[str, str]:
    """Give every page that people read: the text file, the terminal, and the command on both."""
    printed = io.StringIO()
    print_report(build.file(), file=printed, width=WIDTH, color=False)
    commands = {
        f"report {path.name}": ["report", str(path), "--width", str(WIDTH), "--no-color"]
        for path in (build.folder, build.folder / JSON_NAME)
    }
    found = {
        "text file": (build.folder / TEXT_NAME).read_text("utf-8"),
        "terminal": printed.getvalue(),
    }
    for name, command in commands.items():
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        found[name] = done.stdout
    return found


@dataclass(frozen=True, slots=True)
class Page:
    """A page for people, as one line of words."""

    words: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Page":
        """Take the frame and the line breaks out of a page."""
        return cls(_FRAME.sub(" ", text), tuple(text.splitlines()))

    def says(self, text: str) -> bool:
        """Tell whether a sentence stands on the page, however it is wrapped."""
        return _FRAME.sub(" ", text).strip() in self.words

    def window(self) -> tuple[int, int, str] | None:
        """Give steady steps, warm-up steps and clock of the table of one step."""
        found = _WINDOW.search(self.words)
        if found is None:
            return None
        steady, warmup, clock = found.groups()
        return int(steady.replace(",", "")), int((warmup or "0").replace(",", "")), clock

    def row(self, metric: str) -> str | None:
        """Give the row of a metric in the table of one step, None if it has none."""
        begin = next((i for i, line in enumerate(self.lines) if line.startswith("One step")), None)
        for line in self.lines[begin:] if begin is not None else ():
            if re.match(rf"  {metric} ", line):
                return line[len(metric) + 2 :].strip()
        return None

    def order(self, kinds: tuple[str, ...]) -> list[str]:
        """Give the kinds that stand under "Also found", in the order of the page."""
        _, _, rest = self.words.partition("Also found")
        places = {kind: rest.find(f" {kind} ") for kind in kinds}
        return sorted((kind for kind in kinds if places[kind] >= 0), key=lambda kind: places[kind])
