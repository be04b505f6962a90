"""A session: one traced span of one process, from set-up to the finished run.

A plugin opens a session, writes boundaries into its journal and captures, and ends it. The session
owns everything else: run folder, drain, memory readings, faults, and the order in which it all stops.

    set-up | begin ....... the traced span ....... end | hooks off, drain, manifest, report
"""

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from traintrace import facts
from traintrace.clock import HostAnchor
from traintrace.faults import FaultReporter
from traintrace.options import TraceOptions
from traintrace.ports import PluginIdentity, Ports
from traintrace.publishing.location import location
from traintrace.recording.cost import hot_transition_ns, stored_in_situ_transition_ns
from traintrace.recording.counting import FlopRecord
from traintrace.recording.drain import Drain
from traintrace.recording.ending import EndStatus, error_of_script, status_of
from traintrace.recording.garbage import GarbageWatch
from traintrace.recording.handover import Handover
from traintrace.recording.incidents import Incidents
from traintrace.recording.journal import ABANDON, ABORT, REGION, Clock
from traintrace.recording.ledger import Ledger
from traintrace.recording.profiled import profile_steps
from traintrace.recording.regions import RegionNames
from traintrace.recording.stagelog import StageLog
from traintrace.recording.stepmemory import StepMemory
from traintrace.recording.steps import StepCapture
from traintrace.recording.timing import Timing
from traintrace.registry import REGISTRY
from traintrace.runs.conclusion import Conclusion
from traintrace.runs.environment import describe_environment
from traintrace.runs.folder import Run
from traintrace.runs.identity import Identity
from traintrace.runs.liveness import describe_process
from traintrace.runs.start import start_run
from traintrace.samplers import Sampler, Watched

__all__ = ["EndStatus", "Session", "status_of"]


class Session:
    """One traced span; but for what the drain asks, every method is for the thread that opened it.

    Attributes:
        journal: Where hooks write.
        capture: The step that is open or comes next.
        recording: True from `begin` until `max_steps` or the end.
        update_seen: True once a hook saw an update; then updates need not be guessed.
        undo: What takes hooks off again, run when recording stops.
        unmeasured: Reason by signal that cannot be measured.
        faults: Reports defects without disturbing training.
        stages: Records stages and queues.
        close_at_exit: What ends the session when the interpreter ends first; gets what ended the script.
        open_memory: Call it when the first batch of a step is about to be requested, so that memory
            peaks start there; None if there is nothing to reset.
        setup_s: Seconds of set-up before the span.
    """

    def __init__(
        self,
        options: TraceOptions,
        plugin: PluginIdentity,
        ports: Ports,
        *,
        on_finish: Callable[[Run, bool], object] | None = None,
        identity: Identity | None = None,
        now: Clock = time.perf_counter_ns,
    ) -> None:
        self._setup_began = now()
        self._process = os.getpid()
        self.options = options
        self.faults = FaultReporter(REGISTRY.raise_faults)
        self.undo = ExitStack()
        self.unmeasured: dict[str, str] = {}
        self.setup = facts.Setup()
        self.recording = self.update_seen = False
        self._finish_began: int | None = None
        self._ports = ports
        self._now = now
        self._status: facts.RunStatus = "running"
        reader = ports.memory if options.step_memory else None
        self._memory = None if reader is None else StepMemory(reader, self.faults, self.unmeasured)
        self.open_memory = None if self._memory is None else self._memory.open_step
        self.close_at_exit: Callable[[BaseException | None], None] = self._finish_with
        # The numbers of the last step of the warm-up and of the last one that is recorded.
        self._warmup_until, self._record_until = options.warmup_steps or 0, options.max_steps
        # A framework that starts its own processes knows the rank better than the environment.
        self._identity = identity or Identity.from_environment()
        self._hot_ns, self._in_situ_ns = hot_transition_ns(), stored_in_situ_transition_ns()
        self._number, REGISTRY.started = REGISTRY.started, REGISTRY.started + 1
        self._run, self._writer = start_run(
            options,
            plugin,
            self._identity,
            describe_environment(ports.packages, ports.runtime),
            ports.agree_on_run,
            self.faults,
            self._number,
        )
        self._conclusion = Conclusion(
            self._run, self._writer, self._identity, options, self.faults, on_finish
        )
        self._described_process = describe_process()
        self._regions = RegionNames()
        self._steps = 0
        self.capture: StepCapture
        self._timing = Timing(options.level, ports.device_clock, now)
        owner = threading.get_ident()
        self._flops = FlopRecord(options, ports.flops, self)
        recorder = self._timing.recorder
        self.journal = self._flops.journal(owner, lambda segment: None, now, recorder)
        self._end = self.end_step  # bound once, not at every step
        self._renew_capture()
        self._anchor = HostAnchor.read(now)
        self.stages = StageLog(
            self._run.folder, self._writer.path.stem, self.faults, self._anchor, now
        )
        self._ledger = Ledger(now())
        self._handover = Handover(self._ledger, self._timing.pending)
        self._incidents = Incidents(GarbageWatch(owner, now), ports.watches, self.unmeasured)
        self._drain = Drain(
            self._handover,
            self._writer,
            self,
            self.faults,
            self._anchor,
            self._regions.names,
            self._timing.pending,
            self._make_sampler(),
            self._incidents,
            self.stages,
            options.retention_steps,
            options.keep_steps,
        )
        self.setup_s = 0.0

    def _make_sampler(self) -> Sampler:
        watched = Watched(
            self._identity.local_rank, self._ports.used_devices, self.options.step_memory
        )
        return Sampler(
            watched,
            self._now,
            self._anchor.offset_ns,
            self.faults,
            self.unmeasured,
            self.options.interval_s,
        )

    # -- the span --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the traced span at this instant; the last act of set-up."""
        REGISTRY.add(self)
        atexit.register(self._finish_at_exit)
        self.undo.callback(self._incidents.close)
        self.undo.callback(self.stages.end)
        with self.faults.guard("garbage collections and compilations"):
            self._incidents.begin()
        if self.options.profile_steps is not None:
            self.profile(self.options.profile_steps)
        self._drain.start()
        if self._run.publisher is not None:
            self._run.publisher.start()
        self.recording = True
        self.journal.publish_to(self._handover)
        start = self._now()
        self._ledger.begin(start)
        self.setup_s = (start - self._setup_began) / 1e9
        self.stages.begin()  # last: the accounts of workers that are taken up start inside the span

    def end_step(self, capture: StepCapture, completed: bool) -> None:
        """End the step of `capture` at this instant; one that has ended already changes nothing.

        `StepCapture.complete` and `abort` end up here; the plugin's hot path comes directly.
        """
        if capture.ended or not self.recording:
            return
        # First, so that a signal handler that raises from here on cannot leave an ended capture.
        # (`_renew_capture` written out: this runs at every step.)
        capture.ended = True
        self.capture = fresh = StepCapture()
        fresh.on_end = self._end
        if not completed:
            self.journal.write(ABORT)
            return
        self._steps += 1
        if self._memory is not None:
            self._memory.read(capture)
        if self._steps <= self._warmup_until:
            capture.flags |= facts.WARMUP
        self.journal.cut(capture)
        if self._steps == self._record_until:
            self.stop_recording()

    def end_steps_by(self, end: Callable[[StepCapture, bool], None]) -> None:
        """Let `end` end steps from now on; for what watches some of them and calls `end_step` itself."""
        self.end_step = self._end = self.capture.on_end = end  # type: ignore[method-assign, assignment]

    def current_capture(self) -> StepCapture:
        """Give the capture that is open; a fresh one if a signal handler's exception lost that."""
        if self.capture.ended and self.recording:
            self._renew_capture()
        return self.capture

    def _renew_capture(self) -> None:
        self.capture = fresh = StepCapture()
        fresh.on_end = self._end

    @property
    def steps(self) -> int:
        """Give the number of steps completed so far, abandoned ones included."""
        return self._steps

    @property
    def level(self) -> facts.Level:
        """Give what is timed."""
        return self._timing.level

    def abandon_steps(self) -> None:
        """Let the steps completed so far count no more; recording goes on.

        For a framework that starts over in the same process, e.g. with a smaller batch. A step that
        is open is dropped. The time inside the steps becomes `aborted`, their rows stay and say so,
        numbers of steps go on, and warm-up and `max_steps` count from here. If recording has ended
        they stay, and the report says so. (`discard` is another matter: it takes back a session
        whose set-up failed.)
        """
        if not self.recording:
            if self._steps and not self.finished:
                self.faults.warn(
                    "training started over after the recording had ended (max_steps); "
                    "the steps of this run are of what was given up"
                )
            return
        self.capture.abort()
        self.journal.write(ABANDON)
        self.journal.cut(None)
        self._warmup_until = self._steps + (self.options.warmup_steps or 0)
        if self.options.max_steps is not None:
            self._record_until = self._steps + self.options.max_steps

    def leave_to_parent(self) -> None:
        """In a forked child: record nothing here; the run is the parent's."""
        self.recording = False
        self.journal.disown()
        self._incidents.close_in_child()

    def stop_recording(self) -> None:
        """End the span here: drop an open step, take the hooks off; what was published still drains."""
        if not self.recording:
            return
        self.capture.abort()
        self.recording = False
        self.journal.cut(None)
        self.journal.disown()
        REGISTRY.remove(self)
        with self.faults.guard("some hooks stay installed"):
            self.undo.close()

    # -- what users and plugins say during the span ----------------------------------------------

    def log(self, name: str, value: object) -> None:
        """Log one value at the step that is open; a tensor on a device is read when it is ready."""
        if isinstance(value, (int, float)) or self._ports.read_scalar is None:
            self.capture.log(name, float(value))  # type: ignore[arg-type]  # NumPy's scalars too
        else:
            self.capture.log(name, self._ports.read_scalar(value))

    def log_completed(self, name: str, value: float, step: int | None = None) -> None:
        """Log one value of the step that was completed last, or of `step`; for frameworks that log between steps."""
        if self.recording and self._steps:
            self._drain.add_scalar(facts.Scalar(step or self._steps, name, value))

    def region_code(self, name: str) -> int:
        """Give the journal code that enters the region called `name`; one more leaves it."""
        return REGION + 2 * self._regions.number_of(name)

    def profile(self, steps: tuple[int, int]) -> None:
        """Let the framework's profiler trace the steps from the first to the last of `steps`."""
        with self.faults.guard("the profile of the chosen steps"):
            profile_steps(self, steps, self._ports.profiler, self._identity)

    def add_event(self, kind: str, detail: str, duration_ns: int | None = None) -> None:
        """Note something that happened once, and how long it took if that is known."""
        at_ns = self._now() + self._anchor.offset_ns - (duration_ns or 0)
        self._drain.add_event(facts.Event(at_ns, kind, self._steps + 1, detail, duration_ns))

    # -- the end ---------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Say whether the session has ended."""
        return self._status != "running"

    def finish(self, status: EndStatus, error: BaseException | None = None) -> None:
        """End the span at this instant and finish the run; a second call does nothing.

        Args:
            status: How training ended.
            error: What ended it, if anything; only its type is kept.
        """
        if self.finished or self._is_copy:
            return
        was_recording = self.recording
        if was_recording and error is not None:
            self.add_event("exception", type(error).__name__)
        self.stop_recording()
        self._finish_began = self._now()
        self._status = status
        atexit.unregister(self._finish_at_exit)
        with self.faults.guard("the last rows of the run"), self._run.not_publishing():
            self._drain.close()
        self._drain.stop()
        self._conclusion.conclude(status, self._drain.dropped_rows, REGISTRY.launched)
        self._writer.release()

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Take everything back if the block does not get through; its error goes on to the caller."""
        try:
            yield
        except BaseException:  # an interrupt too: nobody would ever end this session
            self.discard()
            raise

    def discard(self) -> None:
        """Take everything back after set-up failed half-way; nothing was or will be recorded.

        The number of the run is free again: the next session joins the run that this one had joined.
        """
        if self._is_copy:
            return
        self.recording = False
        self.journal.disown()
        REGISTRY.remove(self)
        atexit.unregister(self._finish_at_exit)
        self.undo.close()
        self._drain.stop()
        self._writer.release()
        self._run.discard(self._identity)
        if REGISTRY.started == self._number + 1:
            REGISTRY.started = self._number

    @property
    def _is_copy(self) -> bool:
        """Say whether this is a forked child's copy: the run is the parent's, and so are its files."""
        return os.getpid() != self._process

    def _finish_with(self, error: BaseException | None) -> None:
        self.finish(status_of(error), error)

    def _finish_at_exit(self) -> None:
        """The interpreter ends and nobody closed the session: finish with what ended the script."""
        if not self._is_copy:
            self.close_at_exit(error_of_script())

    @property
    def folder(self) -> Path:
        """Give the folder in which this process records, on a disk of its machine."""
        return self._run.folder

    @property
    def place(self) -> str:
        """Give where the run is for everybody: the path of its folder, or its URL."""
        return self._run.place or str(self._run.folder)

    @property
    def run_folder(self) -> Path | None:
        """Give the folder of the run, wherever it is published; None if that is a URL of no file system here."""
        return location(self.place).local

    def as_run(self) -> Run:
        """Give the run for reading, as of the last flush."""
        return self._conclusion.read()

    @property
    def finish_s(self) -> float | None:
        """Give the seconds since the span ended, up to now; None while it lasts."""
        began = self._finish_began
        return None if began is None else (self._now() - began) / 1e9

    def flush(self) -> None:
        """Write everything published so far."""
        if not self.finished and not self._is_copy:
            self._drain.flush()

    # -- what the drain asks ---------------------------------------------------------------------

    def meta(self, largest_group: int) -> Mapping[str, Any]:
        """Give everything about the rank that is not a row."""
        identity, setup = self._identity, self.setup
        if setup.accumulation is None and largest_group:  # the loop's own code decides it
            setup = replace(setup, accumulation=largest_group)
        cost = facts.TracerCost(
            self._hot_ns, self._in_situ_ns, self.setup_s, self.finish_s, self._drain.cpu_s
        )
        return {
            "rank": identity.rank,
            "attempt": identity.attempt,
            "node": identity.node,
            "process": self._described_process,
            "status": self._status,
            # One moment on both clocks: when it was alive last, and how far the wall clock has jumped.
            "seen": [self._now() + self._anchor.offset_ns, time.time_ns()],
            "level": self.level,
            "device_clock": self._timing.device_clock,
            "setup": asdict(setup),
            "cost": asdict(cost),
            "flops": self._flops.to_json(),
            "process_peak_allocated_bytes": (
                None if self._memory is None else self._memory.lifetime_peak_bytes
            ),
            "unmeasured": dict(self.unmeasured),
            "warnings": list(self.faults.messages),
        }

    def foreign_calls(self) -> int:
        """Give the number of hook calls on other threads."""
        return self.journal.foreign_calls

    def after_flush(self, totals: facts.Totals) -> None:
        """Look at what timing the device has cost so far."""
        self._timing.judge(totals, self.faults)
