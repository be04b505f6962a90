"""Waits for what the sampler's thread does in its own time, however busy the machine is."""

import time

import pytest

from traintrace.samplers.resident import ResidentSamples


class Sampled:
    """Counts the samples of resident memory that are taken from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._count = 0
        add = ResidentSamples.add

        def counting(samples: ResidentSamples) -> None:
            add(samples)
            self._count += 1

        monkeypatch.setattr(ResidentSamples, "add", counting)

    def wait(self) -> None:
        """Wait until one has begun and ended; the next that ends may have begun before."""
        before, end = self._count, time.monotonic() + 30
        while self._count < before + 2:
            assert time.monotonic() < end, "resident memory is not read"
            time.sleep(0.005)
