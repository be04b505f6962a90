"""The same recipe on a real CUDA device: kernels of known length, and not one synchronisation by us."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from traintrace import accounts, open_run
from traintrace.testing.integration import Integration
from traintrace.testing.recipe import Delays, Parts, Recipe
from traintrace.testing.truth import Truth

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the frameworks' own
]

_CUDA: Any = torch.cuda  # its events and `_sleep` have no types
# Every part has a length of its own, so that kernels can be told apart by it.
DELAYS = Delays(data=0, transfer=2, forward=3, backward=4, optimizer=5)
PARTS = ("forward", "backward", "optimizer")
COLUMNS = tuple(f"{phase}_device_ns" for phase in accounts.PHASES)
# These loops wait for nothing themselves; the Trainers read losses.
LOOPS = ("plain:MARKED", "plain:AUTOMATIC")
EVERY = (
    *LOOPS,
    "loops:ACCELERATE",
    "loops:FABRIC",
    "lightning_trainer:LIGHTNING",
    "huggingface:HUGGINGFACE",
)


class Kernels:
    """Keeps the device busy for known times; truth is its own pair of events around each kernel."""

    def __init__(self) -> None:
        self.pairs: dict[float, list[tuple[Any, Any]]] = defaultdict(list)
        self._cycles_per_ms = self._calibrate()
        # Made beforehand: creating an event may synchronise.
        self._events = [_CUDA.Event(enable_timing=True) for _ in range(512)]
        for event in self._events:
            event.record()
        torch.cuda.synchronize()

    @staticmethod
    def _calibrate() -> float:
        """Measure how many cycles of `torch.cuda._sleep` last a millisecond, the device warmed up."""
        cycles = 20_000_000
        start, end = (_CUDA.Event(enable_timing=True) for _ in range(2))
        for _ in range(3):
            start.record()
            _CUDA._sleep(cycles)
            end.record()
        torch.cuda.synchronize()
        return cycles / float(start.elapsed_time(end))

    def spend(self, milliseconds: float) -> None:
        """Launch a kernel; the host goes on at once."""
        start, end = self._events.pop(), self._events.pop()
        start.record()
        _CUDA._sleep(int(milliseconds * self._cycles_per_ms))
        end.record()
        self.pairs[milliseconds].append((start, end))

    def true_ns(self, milliseconds: float) -> float:
        """Give the device time of all kernels of this length [ns]."""
        return sum(start.elapsed_time(end) * 1e6 for start, end in self.pairs[milliseconds])


@contextmanager
def _no_synchronisation(is_forbidden: bool) -> Iterator[None]:
    """Let torch raise at any call that makes the host wait for the device."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error" if is_forbidden else before)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _load(reference: str) -> Integration:
    module, attribute = reference.split(":")
    integration: Integration = getattr(import_module(f"tests.conformance.{module}"), attribute)
    return integration


@pytest.mark.parametrize("reference", EVERY)
@pytest.mark.parametrize("accumulation", [1, 4])
def test_device_times_are_those_of_the_kernels(
    reference: str, accumulation: int, tmp_path: Path
) -> None:
    recipe = Recipe(accumulation=accumulation, delays=DELAYS)
    kernels, truth = Kernels(), Truth()
    parts = Parts(recipe, truth, spend=kernels.spend, device="cuda", finish=torch.cuda.synchronize)
    for size in (
        recipe.batch_size,
        1,
    ):  # cuBLAS and the allocator are set up before anything counts
        x = torch.zeros(size, 4, device="cuda")
        parts.model(x, torch.zeros(size, device="cuda"))["loss"].backward()
    parts.model.zero_grad()
    torch.cuda.synchronize()
    kernels.pairs.clear()
    with parts.watched(), _no_synchronisation(reference in LOOPS):
        folder = _load(reference).train(recipe, parts, tmp_path)
    (rank,) = open_run(folder).facts(COLUMNS).ranks
    assert rank.device_clock == "cuda"
    assert rank.level == "full"
    for part in PARTS:
        column = rank.columns[f"{part}_device_ns"]
        assert None not in column, part
        measured = sum(ns or 0 for ns in column)
        true = kernels.true_ns(getattr(DELAYS, part))
        # The kernels between a boundary's event and the recipe's own are microseconds long.
        assert true - 10_000 <= measured <= true + max(0.02 * true, 500_000 * recipe.steps), part
    # The host was not made to wait: its own times are far shorter.
    if reference in LOOPS:
        host = sum(rank.totals.account_ns[part] for part in PARTS)
        assert host < sum(kernels.true_ns(getattr(DELAYS, part)) for part in PARTS)
