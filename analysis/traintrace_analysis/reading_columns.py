"""Readings of the machine as NumPy columns, cut to the steps that a claim is about."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from traintrace.facts import RankFacts
from traintrace.readings import DeviceReading, ProcessReading, Reading, SystemReading
from traintrace_analysis.step_window import Floats, StepWindow

Table: TypeAlias = Literal["system", "process", "devices"]
AnyReading = TypeVar("AnyReading", SystemReading, ProcessReading, DeviceReading)

_UNREAD = {
    "system": "nothing was read of the node",
    "process": "nothing was read of the process",
    "devices": "nothing was read of a device",
}


def column(readings: Sequence[Reading], name: str) -> Floats:
    """Give one attribute of all readings, NaN where it was not measured."""
    return np.asarray([getattr(reading, name) for reading in readings], dtype=np.float64)


def steady_span(window: StepWindow, row: int) -> tuple[int, int] | None:
    """Give the begin of the first and the end of the last steady step of a rank; None without one.

    What lies before that first step, as the loading of the model, is none of it though its row holds it.
    """
    if window.steady_steps < 1:
        return None
    return int(window.open_ns[row, window.warmup_steps]), int(window.close_ns[row, -1])


def within(readings: Sequence[AnyReading], span: tuple[int, int] | None) -> Sequence[AnyReading]:
    """Give the readings that lie wholly inside a span, with all that they sum up; all without one."""
    if span is None:
        return readings
    first = bisect_left(readings, span[0], key=_covers_from)
    return readings[first : bisect_right(readings, span[1], key=lambda one: one.at_ns)]


def _covers_from(reading: Reading) -> int:
    """Give where the stretch begins that a reading sums up; a device's reading is of one moment."""
    if isinstance(reading, DeviceReading):
        return reading.at_ns
    return reading.at_ns - (reading.interval_ns or 0)


def of_steady_steps(
    window: StepWindow, rank: RankFacts, readings: Sequence[AnyReading]
) -> Sequence[AnyReading]:
    """Give the part of a rank's readings that was taken during its steady steps; all if it has none."""
    row = window.ranks.index(rank.rank) if rank.rank in window.ranks else None
    return within(readings, None if row is None else steady_span(window, row))


def by_node(ranks: Iterable[RankFacts]) -> dict[int, list[RankFacts]]:
    """Group ranks by the node that they ran on."""
    nodes: dict[int, list[RankFacts]] = {}
    for rank in ranks:
        nodes.setdefault(rank.node, []).append(rank)
    return nodes


def by_device(readings: Iterable[DeviceReading]) -> dict[int, list[DeviceReading]]:
    """Group the readings of a rank by device."""
    devices: dict[int, list[DeviceReading]] = {}
    for reading in readings:
        devices.setdefault(reading.device, []).append(reading)
    return devices


def largest(values: Floats) -> float | None:
    """Give the largest measured value; None without one."""
    most = float(np.fmax.reduce(values)) if len(values) else np.nan
    return most if np.isfinite(most) else None


def mean(values: Floats) -> float | None:
    """Give the mean of the measured values; None without one."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def row_peaks(matrix: Floats | None, ranks: int) -> Floats:
    """Give each rank's largest value in a matrix of ranks by steps, NaN where it has none."""
    if matrix is None or not matrix.shape[1]:
        return np.full(ranks, np.nan)
    peaks: Floats = np.fmax.reduce(matrix, axis=1)
    return peaks


def unread(ranks: Sequence[RankFacts], table: Table, *names: str) -> str:
    """Say why no rank has a reading with all of `names`, to stand in brackets; "" if one has."""
    some = False
    for rank in ranks:
        readings: Sequence[Reading] = getattr(rank, table)
        some = some or bool(readings)
        if any(all(getattr(one, name) is not None for name in names) for one in readings):
            return ""
    if some:
        return "the machine does not tell"
    if table == "devices" and all(rank.setup.device_kind in (None, "cpu") for rank in ranks):
        return "no accelerator"
    declared = (rank.unmeasured.get(table) for rank in ranks)
    return next((why for why in declared if why), _UNREAD[table])


def quotients(numerators: Floats, denominators: Floats) -> Floats:
    """Divide element by element; NaN where a part is unknown or the denominator is not positive."""
    result = np.full(np.broadcast_shapes(numerators.shape, denominators.shape), np.nan)
    # A reading of next to nothing is a broken one, and no error of ours.
    with np.errstate(over="ignore"):
        np.divide(numerators, denominators, out=result, where=denominators > 0.0)
    return result
