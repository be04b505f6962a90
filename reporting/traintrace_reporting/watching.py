"""`traintrace watch` from beginning to end: run a program, read the machine meanwhile, report what it used.

Nothing of ours runs in the program. Its run has one rank, which stands for all of its processes, and no steps.
"""

import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from traintrace import facts
from traintrace.clock import HostAnchor
from traintrace.errors import UsageError
from traintrace.faults import FaultReporter
from traintrace.launch import LaunchPlan, Target
from traintrace.launch import launch as start
from traintrace.options import TraceOptions
from traintrace.publishing.filesystems import network_file_system
from traintrace.publishing.layout import RANKS
from traintrace.registry import REGISTRY
from traintrace.runs.folder import rank_file
from traintrace.runs.identity import Identity
from traintrace.runs.manifest import Manifest
from traintrace.runs.rebuild import head_of_file
from traintrace.runs.start import TOOL_VERSION
from traintrace.samplers import ProgramReader, pause_s
from traintrace.store.writer import RankWriter
from traintrace_reporting.endings import NOT_STARTED, quiet_interrupt, status_of_run
from traintrace_reporting.finish import finish_run
from traintrace_reporting.launchers import Launchers
from traintrace_reporting.runplace import LaunchedRun, make_run, read_manifest, update_manifest
from traintrace_reporting.settings import Settings

PLUGIN: Final = "watch"
# A quiet run still writes this often, so that a reader can tell it from a dead one.
_HEARTBEAT_S: Final = 2.0
_CLOSE_S: Final = 5.0
_LOST: Final = "all readings: the program runs unwatched"


def watch_program(
    target: Target, torchrun: tuple[str, ...], settings: Settings, options: TraceOptions
) -> int:
    """Run a program and watch it; give its exit code, 128 + n if signal n ended it.

    Raises:
        UsageError: A flag of torchrun cannot be used, or the run name is taken; nothing was started.
        OSError: No process can be started.
    """
    plan = LaunchPlan(target=target, torchrun=torchrun, disable=True)
    faults = FaultReporter(REGISTRY.raise_faults)
    watcher = None
    try:
        alone = Launchers(1, 0, 1, 1, "none", None)
        run = make_run(settings, options.name, target, alone)
        watcher = Watcher(run, options, faults)
    except UsageError:
        raise
    except OSError as error:
        print(
            f"traintrace: no run can be made in {settings.run_dir} ({error}); lost: {_LOST}",
            file=sys.stderr,
        )
    except Exception as error:  # noqa: BLE001 - reported, with what is lost
        faults.fault(error, _LOST)
    if watcher is None:
        return start(plan).exit_code
    code = NOT_STARTED
    try:
        code = start(plan, on_start=watcher.start).exit_code
    finally:
        with faults.guard("the report; `traintrace report` can make it"), quiet_interrupt():
            watcher.finish(code, settings)
    return code


class Watcher:
    """Reads the program's processes until it is told that the program has ended."""

    def __init__(self, run: LaunchedRun, options: TraceOptions, faults: FaultReporter) -> None:
        """Prepare the run.

        Args:
            run: Where it lies.
            options: Its `interval_s` and `level` matter here.
            faults: Told of what fails.

        Raises:
            OSError, sqlite3.Error: The run cannot be written.
        """
        self._run = run
        self._interval_s = options.interval_s
        self._faults = faults
        self._anchor = HostAnchor.read()
        self._unmeasured: dict[str, str] = {}
        self._began_ns = self._now()
        self._cpu_s = 0.0
        local = run.place.local
        is_direct = local is not None and network_file_system(local) is None
        self._folder = (
            local if is_direct and local else Path(tempfile.mkdtemp(prefix="traintrace-"))
        )
        (self._folder / "ranks").mkdir(exist_ok=True)
        manifest = replace(
            read_manifest(run.place),
            plugin=PLUGIN,
            plugin_version=TOOL_VERSION,
            folder=self._folder,
        )
        manifest.write()
        update_manifest(run.place, plugin=PLUGIN, plugin_version=TOOL_VERSION)
        self._writer = self._open(manifest)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def _open(self, manifest: Manifest) -> RankWriter:
        return RankWriter(rank_file(self._folder, 0, 0), head_of_file(manifest, Identity()))

    def start(self, pid: int) -> None:
        """Start reading the program whose first process is `pid`."""
        with self._faults.guard(_LOST):
            thread = threading.Thread(
                target=self._watch, args=(pid,), name="traintrace-watch", daemon=True
            )
            thread.start()
            self._thread = thread

    def finish(self, exit_code: int, settings: Settings) -> None:
        """Stop reading, complete the run, write its report and print it.

        Raises:
            OSError, RunReadError: The run cannot be written or read.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        # E.g. in a driver that hangs; nobody else may write to its file.
        if self._thread is not None and self._thread.is_alive():
            self._faults.warn(
                "a reading of the machine hangs; `traintrace report` shows those before it"
            )
            return
        status = status_of_run("running", exit_code)
        self._write({}, status)
        self._writer.close()
        place = self._run.place
        update_manifest(place, status=status, exit_code=exit_code, ended_at=time.time())
        if self._folder != place.local:
            (place / "manifest.json").download(self._folder / "manifest.json")
            (place / "ranks/rank-00000.sqlite").upload(rank_file(self._folder, 0, 0))
        summary = finish_run(self._folder, print_report=settings.print_report, stream=sys.stderr)
        update_manifest(place, telemetry_status=summary["run"]["telemetry_status"])
        if self._folder != place.local:
            for name in summary["artifacts"].values():
                (place / name).upload(self._folder / name)
        if summary["artifacts"] and not settings.history_enabled:
            (place / RANKS).remove()
        self._writer.release()

    def _now(self) -> int:
        return time.perf_counter_ns() + self._anchor.offset_ns

    def _watch(self, pid: int) -> None:
        with self._faults.guard("the readings of the machine"):
            reader = ProgramReader(pid, self._now, self._unmeasured)
            began = last_written = time.monotonic()
            due = began
            # The less of two: the first reading takes longer than all others.
            costs_s = deque([0.0], maxlen=2)
            while not self._ended.is_set():
                moment = time.monotonic()
                if moment >= due:
                    spent = time.thread_time()
                    self._write(reader.read(), "running")
                    costs_s.append(time.thread_time() - spent)
                    pause = pause_s(time.monotonic() - began, min(costs_s), self._interval_s)
                    due, last_written = time.monotonic() + pause, moment
                elif moment - last_written >= _HEARTBEAT_S:
                    self._write({}, "running")
                    last_written = moment
                self._cpu_s = time.thread_time()
                self._ended.wait(min(_HEARTBEAT_S, max(0.0, due - time.monotonic())))
            reader.close()

    def _write(self, readings: dict[str, Any], status: facts.RunStatus) -> None:
        self._writer.write([], self._totals(), readings=readings, meta=self._meta(status))

    def _totals(self) -> facts.Totals:
        wall_ns = self._now() - self._began_ns
        return facts.Totals(
            # Whatever the program does, no step of it is seen.
            account_ns={"startup": wall_ns},
            inside_ns={},
            calls={},
            wall_ns=wall_ns,
            start_ns=self._began_ns,
            steps=0,
            steps_aborted=0,
            dropped_rows=0,
            micro_batches=0,
            samples=None,
            tokens=None,
            padded_tokens=None,
            updates_skipped=None,
            epochs=None,
            transitions=0,
            foreign_calls=0,
            unbalanced=0,
        )

    def _meta(self, status: facts.RunStatus) -> dict[str, Any]:
        return {
            "rank": 0,
            "attempt": 0,
            "node": 0,
            "status": status,
            "seen": [self._now(), time.time_ns()],
            "level": "step",
            "device_clock": None,
            "setup": asdict(facts.Setup()),
            "cost": asdict(facts.TracerCost(0.0, None, 0.0, None, self._cpu_s)),
            "unmeasured": dict(self._unmeasured),
            "warnings": list(self._faults.messages),
        }
