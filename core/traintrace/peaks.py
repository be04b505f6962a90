"""What devices can do at most, by their exact name: dense figures, published or derived, each with its source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

# What the source of a figure begins with that no vendor publishes.
DERIVED: Final = "derived from "


@dataclass(frozen=True, slots=True)
class DevicePeaks:
    """The published peaks of one device.

    Attributes:
        tflops: Operations a second [1e12] by number format; one that is missing has no dense figure.
        source: Where the vendor says so; behind "derived from ..." where only what they follow from stands.
    """

    tflops: Mapping[str, float]
    source: str


def peaks_of(device_name: str) -> DevicePeaks | None:
    """Give the peaks of the device that a driver calls `device_name`; None if exactly that is not known.

    No part of a name is looked for: an L40S is no L4, and the same chip has other peaks on other boards.
    """
    return _table().get(device_name)


def known_devices() -> tuple[str, ...]:
    """Give the names of all devices in the table."""
    return tuple(_table())


@cache
def _table() -> Mapping[str, DevicePeaks]:
    content = json.loads(files("traintrace").joinpath("device_peaks.json").read_text("utf-8"))
    return {
        name: DevicePeaks(dict(device["tflops"]), _source(device))
        for device in content["devices"]
        for name in device["names"]
    }


def _source(device: Mapping[str, Any]) -> str:
    derived = device.get("derived")
    return f"{DERIVED}{derived}: {device['source']}" if derived else str(device["source"])
