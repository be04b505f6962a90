"""Builds scenarios once a session: written through the real store, read back, analysed, summarised."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.scenarios.catalogue import BY_NAME, CATALOGUE
from tests.scenarios.record import Scenario
from tests.scenarios.writing import write_job
from traintrace import open_run
from traintrace.faults import FaultReporter
from traintrace_analysis import REQUIRED_COLUMNS, Analysis, analyse
from traintrace_reporting.finish import JSON_NAME, Summary, summarise_run, write_report

# A scenario waits for the disk most of the time, so some can be written at once.
_AT_ONCE = 4


@dataclass(frozen=True, slots=True, eq=False)
class Build:
    """One scenario as a run folder with its report, and what the analysis says of it.

    Attributes:
        summary: What the reporting made of the folder; its file was written from the same one.
    """

    scenario: Scenario
    folder: Path
    analysis: Analysis
    summary: Summary

    def file(self) -> dict[str, object]:
        """Give what `final_summary.json` holds."""
        content = json.loads((self.folder / JSON_NAME).read_text("utf-8"))
        assert isinstance(content, dict)
        return content


class Builds:
    """The scenarios under one folder, each built when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._build = cache(self._make)

    def one(self, name: str) -> Build:
        """Give the build of one scenario."""
        return self._build(name)

    def every(self) -> Mapping[str, Build]:
        """Give the builds of all scenarios, in the order of the catalogue."""
        names = [scenario.name for scenario in CATALOGUE]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(names, pool.map(self._build, names), strict=True))

    def _make(self, name: str) -> Build:
        scenario = BY_NAME[name]
        folder = write_job(scenario.make(), self._root, name)
        analysis = analyse(open_run(folder).facts(REQUIRED_COLUMNS))
        summary = summarise_run(folder)
        write_report(folder, summary, FaultReporter())
        return Build(scenario, folder, analysis, summary)
