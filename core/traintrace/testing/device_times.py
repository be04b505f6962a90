"""Run the recipe on the simulated device: device times must equal what was launched, to the nanosecond.

Every delay is `device.launch(...)` in place of a sleep, so the host runs through the training far ahead
of the device and its own times are near zero. An event that is recorded a call too early or too late is
found out at once, and so is a tracer that waits: the device has no method for it.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final

from traintrace import accounts, open_run
from traintrace.facts import RankFacts
from traintrace.patching import replace_attribute
from traintrace.testing.checking import Row, exact
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Delays, Parts, Recipe
from traintrace.testing.simulated_device import SimulatedDevice
from traintrace.testing.truth import Part, Truth

# Waiting for input is the host's affair and has no device time.
_PHASES: Final = tuple(phase for phase in accounts.PHASES if phase != "input_wait")
COLUMNS: Final = (
    "step",
    *(f"{phase}{suffix}" for phase in _PHASES for suffix in ("_ns", "_device_ns")),
)
_LAUNCHED: Final = Delays(data=0)  # only the host loads data
_LAUNCHED_PARTS: Final[tuple[Part, ...]] = ("transfer", "forward", "backward", "optimizer")
# Work that is queued before training starts, so that the host never catches up; more if it did.
_LEADS_MS: Final = (250, 1_000, 4_000)
_EVENTS: Final = 4_096


def run_on_device(integration: Integration, recipe: Recipe) -> list[Row]:
    """Train on the simulated device and check the device times of every step.

    Returns:
        A row per phase with the steps whose device time is not what was launched, and rows that say
        whether the run proves anything: the host stayed ahead, and its own times are shorter.

    Raises:
        ValueError: The integration does not say where its plugin gets its device clock.
    """
    if integration.device_clock is None:
        raise ValueError(f"{integration.name} does not name its device_clock")
    recipe = replace(integration.adapted(recipe), delays=_LAUNCHED)
    rows: list[Row] = []
    for lead_ms in _LEADS_MS:
        device, truth = SimulatedDevice(events=_EVENTS), Truth()
        parts = Parts(recipe, truth, spend=_launching(device), finish=_waiting(device))
        parts.spend(lead_ms)
        with tempfile.TemporaryDirectory() as folder:
            with device_in_place(integration.device_clock, device), parts.watched():
                run_folder = integration.train(recipe, parts, Path(folder))
            (rank,) = open_run(run_folder).facts(COLUMNS).ranks
        rows = _check(rank, truth, recipe, integration, device)
        if not device.ran_dry:
            break
    return rows


@contextmanager
def device_in_place(reference: str, clock: object) -> Iterator[None]:
    """Let the function "module:name" give `clock`, as the device clock that a plugin asks for."""
    module_name, _, name = reference.partition(":")
    module = import_module(module_name)
    getattr(module, name)  # a name that nobody looks up would replace nothing
    undo = replace_attribute(module, name, lambda *_: (clock, None))
    try:
        yield
    finally:
        undo()


def _launching(device: SimulatedDevice) -> Callable[[float], None]:
    return lambda milliseconds: device.launch(round(milliseconds * 1e6))


def _waiting(device: SimulatedDevice) -> Callable[[], None]:
    """What a script does last: wait for its device, as reading the loss would."""
    return lambda: time.sleep(device.backlog_ns / 1e9)


def _check(
    run: RankFacts,
    truth: Truth,
    recipe: Recipe,
    integration: Integration,
    device: SimulatedDevice,
) -> list[Row]:
    rows = [
        exact("host fell behind", 0, device.ran_dry),
        exact("steps", recipe.steps, len(run.columns["step"])),
    ]
    for phase in _PHASES:
        found = run.columns[f"{phase}_device_ns"]
        if phase in integration.unmeasured:
            measured = sum(value is not None for value in found)
            rows.append(exact(f"{phase}: steps with a device time", 0, measured))
            continue
        launched = _launched(phase, truth, recipe, integration)
        wrong = sum(one != other for one, other in zip(found, launched, strict=False))
        rows.append(exact(f"{phase}: steps with wrong device time", 0, wrong))
        if sum(launched):
            on_host = sum(value or 0 for value in run.columns[f"{phase}_ns"])
            waits = on_host > sum(launched)
            rows.append(exact(f"{phase}: host took as long as the device", 0, waits))
    return rows


def _launched(phase: str, truth: Truth, recipe: Recipe, integration: Integration) -> Sequence[int]:
    launched = [0] * recipe.steps
    for part in integration.parts_in(phase):
        if part in _LAUNCHED_PARTS:
            each_ns = round(getattr(recipe.delays, part) * 1e6)
            for step, count in enumerate(truth.step_counts(part, recipe.steps)):
                launched[step] += count * each_ns
    return launched
