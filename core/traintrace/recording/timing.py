"""On which clocks a session times its steps, and when it goes down to the host clock alone."""

from typing import Final

from traintrace import facts
from traintrace.clock import DeviceClock
from traintrace.faults import FaultReporter
from traintrace.options import LevelOption
from traintrace.recording.device import EventRecorder, PendingSteps
from traintrace.recording.journal import Clock

# Downgrade to the host clock when recording events costs more than this share of step time ...
EVENT_COST_SHARE: Final = 0.01
# ... and more than this per step [ns]; below it nobody cares.
EVENT_COST_FLOOR_NS: Final = 50_000
_JUDGED_AFTER_STEPS: Final = 50


class Timing:
    """The clocks of one session.

    Attributes:
        level: What is timed.
        recorder: Records events on the device. pending: matches them with steps. None without a
            device clock.
    """

    def __init__(self, option: LevelOption, device: DeviceClock | None, now: Clock) -> None:
        clock = device if option in ("auto", "full") else None
        self._option = option
        self._clock = clock
        self.recorder = None if clock is None else EventRecorder(clock, now)
        self.pending = None if clock is None else PendingSteps(clock, now)
        self.level: facts.Level = "host" if clock is None else "full"
        if option == "step":
            self.level = "step"

    @property
    def device_clock(self) -> str | None:
        """Give the name of the device clock in use."""
        return None if self._clock is None or self.level != "full" else self._clock.name

    def judge(self, totals: facts.Totals, faults: FaultReporter) -> None:
        """Go down to the host clock if recording device events costs too much (level "auto")."""
        recorder = self.recorder
        if self._option != "auto" or recorder is None or not recorder.enabled:
            return
        if totals.steps < _JUDGED_AFTER_STEPS:
            return
        per_step = recorder.spent_ns / totals.last_step
        step_ns = sum(totals.inside_ns.values()) / totals.steps
        if per_step > max(EVENT_COST_FLOOR_NS, EVENT_COST_SHARE * step_ns):
            recorder.enabled = False
            self.level = "host"
            faults.warn(
                f"timing the device took {per_step / 1e3:.0f} us a step, more than "
                f"{EVENT_COST_SHARE:.0%} of it; traintrace goes on with the host clock alone"
            )
