"""Who waits for whom on an accelerator: the host for a busy device, or the device for its next kernel."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from traintrace_analysis.context import Context
from traintrace_analysis.thresholds import limit
from traintrace_analysis.wording import milliseconds, percent

Pace = Literal["device", "host", "unknown"]


@dataclass(frozen=True, slots=True)
class Launching:
    """Forward, backward and optimizer on both clocks, per step of the representative rank.

    A device phase lasts from its first kernel to its last, pauses between kernels included. So where
    the host is as long in a phase as the device, either may be the one that waits: a host that runs
    far ahead is held back once the queue is full. Only the driver's utilisation tells these apart.

    Attributes:
        host_ms, device_ms: Means of the compute phases.
        filled: Share of the phases, 0 to 1, in which a kernel ran; None without readings.
    """

    host_ms: float
    device_ms: float
    filled: float | None

    @property
    def pace(self) -> Pace:
        """Who sets the pace: "device", "host" (launch-bound) or "unknown"."""
        if self.host_ms < limit("launch_host_ahead") * self.device_ms:
            return "device"
        if self.filled is None:
            return "unknown"
        if self.filled <= limit("launch_filled_low"):
            return "host"
        return "device" if self.filled >= limit("launch_filled_high") else "unknown"

    def text(self) -> str:
        """Say who waits for whom, as a sentence to append."""
        host, device = milliseconds(self.host_ms), milliseconds(self.device_ms)
        if self.host_ms < limit("launch_host_ahead") * self.device_ms:
            return (
                f" The device sets the pace: the host issues in {host} what takes the device {device}, and "
                "waits for it elsewhere in the step, which is no time lost."
            )
        both = f" The host spends {host} on issuing what takes the device {device}"
        if self.pace == "host" and self.filled is not None:
            return (
                f"{both}, and kernels run in only {percent(self.filled)} of that: the device waits for its "
                "next kernel (launch-bound)."
            )
        if self.pace == "device" and self.filled is not None:
            return f"{both}, and kernels run in {percent(self.filled)} of that: the device sets the pace."
        return f"{both}, so which of them waits for the other cannot be told."

    def action(self) -> str:
        """Say what helps against the pace that the host sets; nothing where it does not."""
        if self.pace == "device":
            return ""
        remedy = (
            "fewer and larger kernels help: larger batches, torch.compile(mode='reduce-overhead') or CUDA "
            "graphs, a fused optimizer."
        )
        return (
            f" Since the device waits for the host, {remedy}"
            if self.pace == "host"
            else (f" If the device's utilisation is low, {remedy}")
        )

    def evidence(self) -> dict[str, float | str | None]:
        """Give the numbers behind it."""
        return {
            "host_compute_ms": self.host_ms,
            "device_compute_ms": self.device_ms,
            "filled_share": self.filled,
            "pace_set_by": self.pace,
        }


def measure_launching(context: Context) -> Launching | None:
    """Compare both clocks; None unless the window is on the device clock and the host was timed too."""
    compute = context.metrics["compute"]
    host, device = compute.host_mean_ms, compute.device_mean_ms
    if context.window.clock != "device" or host is None or not device:
        return None
    return Launching(host, device, _filled(context, device))


def _filled(context: Context, device_ms: float) -> float | None:
    """Give how much of its phases the device was busy, by the driver's readings in the steady steps.

    The driver's share is of all time; phases take only a part of that, the one that is divided by.
    """
    window, first = context.window, context.window.warmup_steps
    if not window.steady_steps:
        return None
    begin, end = int(window.open_ns[context.row, first]), int(window.close_ns[context.row, -1])
    readings = [
        reading.utilisation
        for reading in context.rank.devices
        if reading.utilisation is not None and begin < reading.at_ns <= end
    ]
    if len(readings) < limit("launch_readings") or end <= begin:
        return None
    moved = context.metrics["h2d"].device_mean_ms or 0.0
    phases = (device_ms + moved) * 1e6 * window.steady_steps / (end - begin)
    return min(1.0, float(np.mean(readings)) / phases) if phases > 0.0 else None
