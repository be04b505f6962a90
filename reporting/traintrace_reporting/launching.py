"""`traintrace run` from beginning to end: prepare, train, and have the end told and reported.

Training decides the exit code. What fails on our side costs the trace and is said in one sentence; it
never costs the training, and never changes what that ends with.
"""

import sys
from typing import Final

from traintrace.errors import UsageError
from traintrace.faults import FaultReporter
from traintrace.launch import Ended, LaunchPlan
from traintrace.launch import launch as start
from traintrace.publishing.patience import within
from traintrace.registry import REGISTRY
from traintrace_reporting.endings import NOT_STARTED, quiet_interrupt
from traintrace_reporting.guard_launch import check_guard
from traintrace_reporting.launch_request import Launch
from traintrace_reporting.launchers import Launchers, find_launchers
from traintrace_reporting.runplace import LaunchedRun, make_run
from traintrace_reporting.settings_keys import SettingsError

# A place that takes longer to make a run costs the trace; training starts without it.
START_S: Final = 60.0


def launch(asked: Launch) -> int:
    """Train, traced, and report; give training's exit code, 128 + n if signal n ended it.

    Raises:
        UsageError: A flag cannot be used, or the run name is taken; nothing was started.
        OSError: No process can be started.
        SettingsError: The settings are those of `traintrace watch`.
    """
    if asked.settings.mode != "summary":
        raise SettingsError(
            f"{asked.settings.source}: mode: {asked.settings.mode} is for `traintrace watch`; "
            "`traintrace run` takes summary"
        )
    untraced = LaunchPlan(target=asked.target, torchrun=asked.torchrun, disable=True)
    if not asked.settings.enabled:
        if asked.settings.guard is not None:
            _say(
                "guard: not captured, since tracing is off: this run can be compared with no other"
            )
        return start(untraced).exit_code
    contract = check_guard(asked.settings)
    launchers = find_launchers(asked.torchrun)
    faults = FaultReporter(REGISTRY.raise_faults)
    run = _prepare(asked, launchers, faults)
    if run is None:
        return start(untraced).exit_code
    if contract is not None and run.number == 0:
        _say(contract.sentence)
    ended = Ended(NOT_STARTED)
    try:
        ended = start(
            LaunchPlan(
                target=asked.target,
                options=asked.options,
                torchrun=asked.torchrun,
                run=run.place.text,
            )
        )
    finally:
        with faults.guard("the report; `traintrace report` can make it"), quiet_interrupt():
            # What it loads would keep training waiting for its start.
            from traintrace_reporting.concluding import conclude

            conclude(asked, run, launchers, ended)
    return ended.exit_code


def _prepare(asked: Launch, launchers: Launchers, faults: FaultReporter) -> LaunchedRun | None:
    """Make the run; None, and a sentence about it, if that fails for a reason that is not the user's."""
    lost = "the whole trace: training runs without it"
    settings, name, target = asked.settings, asked.options.name, asked.target
    try:
        return within(
            START_S, settings.run_dir, lambda: make_run(settings, name, target, launchers)
        )
    except UsageError:
        raise
    except OSError as error:
        _say(f"no run can be made in {asked.settings.run_dir} ({error}); lost: {lost}")
    except Exception as error:  # noqa: BLE001 - reported, with what is lost
        faults.fault(error, lost)
    return None


def _say(sentence: str) -> None:
    print(f"traintrace: {sentence}", file=sys.stderr)
