"""The end of `traintrace run`: say how training ended on this node, collect the others, complete the runs, report."""

import sys
import time
from dataclasses import replace
from pathlib import Path

from traintrace.launch import (
    Ended,
    NodeOutcome,
    collect_outcomes,
    processes_per_node,
    write_outcome,
)
from traintrace.publishing.fetch import fetch_run, forget_fetched, send_report
from traintrace.publishing.layout import RANKS, SEGMENTS
from traintrace.publishing.leftovers import publish_leftovers
from traintrace.publishing.place import Location
from traintrace.runs.folder import open_run, rank_files
from traintrace.runs.manifest import TrainingOutcome
from traintrace_reporting.endings import code_of_job, status_of_run
from traintrace_reporting.finish import finish_run
from traintrace_reporting.launch_request import Launch
from traintrace_reporting.launchers import Launchers
from traintrace_reporting.runplace import (
    LaunchedRun,
    declared,
    read_manifest,
    runs_of,
    update_manifest,
)
from traintrace_reporting.settings import Settings


def conclude(asked: Launch, run: LaunchedRun, launchers: Launchers, ended: Ended) -> None:
    """Say how training ended here; the first launcher does it for all, and reports."""
    place, settings = run.place.text, asked.settings
    own = NodeOutcome(
        run=run.place.name,
        run_id=run.run_id,
        node_rank=run.number,
        nodes=launchers.count,
        nproc_per_node=processes_per_node(asked.torchrun),
        contract=declared(settings.guard),
        exit_code=ended.exit_code,
        signal=ended.signal,
    )
    for one in runs_of(run):
        kept = publish_leftovers(one)
        if kept:
            _say(_unsent(one, kept))
    write_outcome(place, own)
    if run.number:
        return
    training = collect_outcomes(
        place, launchers.count, asked.options.wait_for_ranks_s, expected=own
    )
    made = [_finish(one, settings, ended.exit_code, training) for one in runs_of(run)]
    if not any(made):
        _say(f"no training was seen in {asked.target.name}, so there is no report")


def _finish(place: Location, settings: Settings, exit_code: int, training: TrainingOutcome) -> bool:
    """Complete one run and report it; False if no rank recorded anything in it."""
    manifest = read_manifest(place)
    code = code_of_job(exit_code, training)
    update_manifest(
        place,
        status=status_of_run(manifest.status, code),
        exit_code=code,
        ended_at=manifest.ended_at or time.time(),
        training=training,
    )
    folder = fetch_run(place.text)
    if not rank_files(folder):
        update_manifest(place, telemetry_status="none")
        return False
    run = open_run(folder)
    if place.local != folder:
        run = replace(run, place=place.text)
    summary = finish_run(run, print_report=settings.print_report, stream=sys.stderr)
    update_manifest(place, telemetry_status=summary["run"]["telemetry_status"])
    written = bool(summary["artifacts"])
    if written and place.local != folder:
        send_report(place)
        forget_fetched(place)
    if written and not settings.history_enabled:
        _remove_history(place)
    return True


def _unsent(place: Location, kept: list[Path]) -> str:
    """Say what lies on this machine alone, and where: nobody sends it by himself any more."""
    files = ", ".join(map(str, kept))
    return f"{len(kept)} of the rank files of {place} could not be sent; kept here: {files}"


def _remove_history(place: Location) -> None:
    for name in (RANKS, SEGMENTS):
        (place / name).remove()


def _say(sentence: str) -> None:
    print(f"traintrace: {sentence}", file=sys.stderr)
