"""The simulated device on the machine's own clock: the host goes on, and nothing can be waited for."""

import time

import pytest

from traintrace.testing import FakeClock, SimulatedDevice
from traintrace.testing.simulated_device import LAUNCH_NS

MS = 1_000_000


def test_work_takes_the_device_exactly_its_time_and_the_host_almost_none() -> None:
    device = SimulatedDevice()
    began = time.perf_counter_ns()
    device.launch(400 * MS)
    events = [device.take()]
    for milliseconds in (30, 20):
        device.launch(milliseconds * MS)
        events.append(device.take())
    assert device.backlog_ns > 0, "this machine stood still for 0.4 s"
    assert not device.is_ready(events[0])
    with pytest.raises(RuntimeError, match="not ready"):
        device.elapsed_ns(events[0], events[2])
    time.sleep(device.backlog_ns / 1e9)
    assert time.perf_counter_ns() - began >= 450 * MS
    assert device.elapsed_ns(events[0], events[1]) == 30 * MS
    assert device.elapsed_ns(events[0], events[2]) == 50 * MS
    assert (device.backlog_ns, device.ran_dry, device.queries) == (0, 0, 6)


def test_a_launch_keeps_the_host_as_long_as_a_kernel_launch_does() -> None:
    device = SimulatedDevice()
    before = time.perf_counter_ns()
    device.launch(MS)
    assert time.perf_counter_ns() - before >= LAUNCH_NS


def test_a_host_that_falls_behind_is_noticed() -> None:
    clock = FakeClock()
    device = SimulatedDevice(clock)
    device.launch(10)
    clock.advance(9)
    device.take()
    assert device.ran_dry == 0
    clock.advance(2)
    device.launch(10)
    device.take()
    assert device.ran_dry == 1


def test_the_machine_s_clock_cannot_be_advanced_and_nothing_waits() -> None:
    device = SimulatedDevice()
    with pytest.raises(TypeError, match="FakeClock"):
        device.finish_all()
    assert not [name for name in dir(device) if "wait" in name or "sync" in name]
