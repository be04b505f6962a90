"""`traintrace run` from beginning to end: prepare, train, look at how it ended, report.

Training decides the exit code. What fails on our side costs the trace and is said in one sentence; it
never costs the training, and never changes what that ends with.
"""

import sys
import time
from dataclasses import dataclass, replace
from typing import Final

from traintrace.errors import UsageError
from traintrace.faults import FaultReporter
from traintrace.launch import (
    Ended,
    LaunchPlan,
    NodeOutcome,
    Target,
    collect_outcomes,
    processes_per_node,
    write_outcome,
)
from traintrace.launch import launch as start
from traintrace.options import TraceOptions
from traintrace.publishing.fetch import fetch_run, forget_fetched, send_report
from traintrace.publishing.layout import RANKS, SEGMENTS
from traintrace.publishing.leftovers import publish_leftovers
from traintrace.publishing.location import Location
from traintrace.registry import REGISTRY
from traintrace.runs.folder import open_run, rank_files
from traintrace.runs.manifest import TrainingOutcome
from traintrace_reporting.endings import code_of_job, status_of_run
from traintrace_reporting.finish import finish_run
from traintrace_reporting.launchers import Launchers, find_launchers
from traintrace_reporting.runplace import (
    LaunchedRun,
    declared,
    make_run,
    read_manifest,
    runs_of,
    update_manifest,
)
from traintrace_reporting.settings import Settings, SettingsError

# How long the first launcher waits for the others to say how training ended on their nodes.
COLLECT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Launch:
    """What `traintrace run` was asked for.

    Attributes:
        torchrun: Flags of torchrun, as they were given.
        options: The settings as the tracer takes them, with the name of the run if one was given.
    """

    target: Target
    torchrun: tuple[str, ...]
    settings: Settings
    options: TraceOptions


def launch(asked: Launch) -> int:
    """Train, traced, and report; give training's exit code, 128 + n if signal n ended it.

    Raises:
        UsageError: A flag cannot be used, or the run name is taken; nothing was started.
        SettingsError: The settings are those of `traintrace watch`.
    """
    if asked.settings.mode != "summary":
        raise SettingsError(
            f"{asked.settings.source}: mode: {asked.settings.mode} is for `traintrace watch`; "
            "`traintrace run` takes summary"
        )
    untraced = LaunchPlan(target=asked.target, torchrun=asked.torchrun, disable=True)
    if not asked.settings.enabled:
        return start(untraced).exit_code
    launchers = find_launchers(asked.torchrun)
    faults = FaultReporter(REGISTRY.raise_faults)
    run = _prepare(asked, launchers, faults)
    if run is None:
        return start(untraced).exit_code
    ended = start(
        LaunchPlan(
            target=asked.target, options=asked.options, torchrun=asked.torchrun, run=run.place.text
        )
    )
    try:
        with faults.guard("the report; `traintrace report` can make it"):
            _conclude(asked, run, launchers, ended)
    except KeyboardInterrupt:
        _say("interrupted while making the report; `traintrace report` can make it")
    return ended.exit_code


def _prepare(asked: Launch, launchers: Launchers, faults: FaultReporter) -> LaunchedRun | None:
    """Make the run; None, and a sentence about it, if that fails for a reason that is not the user's."""
    lost = "the whole trace: training runs without it"
    try:
        return make_run(asked.settings, asked.options.name, asked.target, launchers)
    except UsageError:
        raise
    except OSError as error:
        _say(f"no run can be made in {asked.settings.run_dir} ({error}); lost: {lost}")
    except Exception as error:  # noqa: BLE001 - reported, with what is lost
        faults.fault(error, lost)
    return None


def _conclude(asked: Launch, run: LaunchedRun, launchers: Launchers, ended: Ended) -> None:
    """Say how training ended here; the first launcher does it for all, and reports."""
    place = run.place.text
    own = NodeOutcome(
        run=run.place.name,
        run_id=run.run_id,
        node_rank=run.number,
        nodes=launchers.count,
        nproc_per_node=processes_per_node(asked.torchrun),
        contract=declared(asked.settings.guard),
        exit_code=ended.exit_code,
        signal=ended.signal,
    )
    for one in runs_of(run):
        publish_leftovers(one)
    write_outcome(place, own)
    if run.number:
        return
    training = collect_outcomes(place, launchers.count, COLLECT_S, expected=own)
    made = [_finish(one, asked.settings, ended.exit_code, training) for one in runs_of(run)]
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


def _remove_history(place: Location) -> None:
    for name in (RANKS, SEGMENTS):
        (place / name).remove()


def _say(sentence: str) -> None:
    print(f"traintrace: {sentence}", file=sys.stderr)
