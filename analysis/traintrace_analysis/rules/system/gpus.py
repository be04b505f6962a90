"""The readings of the GPUs during the steady steps, as the rules of this family look at them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from traintrace.readings import DeviceReading
from traintrace_analysis.context import Context
from traintrace_analysis.reading_columns import by_device, of_steady_steps, unread
from traintrace_analysis.rules.observed import recorded
from traintrace_analysis.thresholds import limit


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device of one rank, with its readings during the rank's steady steps in time order."""

    rank: int
    device: int
    readings: list[DeviceReading]


def gpus(context: Context, *names: str) -> list[Gpu]:
    """Give the devices that have enough steady readings in which all of `names` are known."""
    return list(_each(context, names))


def _each(context: Context, names: tuple[str, ...]) -> Iterator[Gpu]:
    for rank in recorded(context):
        if not rank.devices:
            continue
        steady = of_steady_steps(context.window, rank, rank.devices)
        for device, readings in by_device(steady).items():
            full = readings
            for name in names:
                full = [one for one in full if getattr(one, name) is not None]
            if len(full) >= limit("machine_readings_minimum"):
                yield Gpu(rank.rank, device, full)


def needs_gpu(label: str, *names: str) -> Callable[[Context], str]:
    """Give a test for a rule's `missing`: why no device has `names` in the steady steps."""

    def missing(context: Context) -> str:
        if next(_each(context, names), None) is not None:
            return ""
        why = unread(recorded(context), "devices", *names)
        if why and not any(rank.devices for rank in recorded(context)):
            return f"readings of a GPU ({why})"  # the same words for all rules: said once
        return f"{label} ({why or 'too few readings in the steady steps'})"

    return missing
