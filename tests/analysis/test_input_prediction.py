"""The advice to input-bound runs, followed for real: the wait goes, and wins what was predicted."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from traintrace import open_run
from traintrace_analysis import REQUIRED_COLUMNS, analyse
from traintrace_analysis.findings import Finding
from traintrace_plain_torch import trace

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]
TRIES = 4
WORK_MS = 25.0
LEFT_MS = 3.0


def burn(ms: float) -> None:
    """Use so much CPU time of this thread."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        pass


class Items(Dataset[torch.Tensor]):
    """Items that take `ms` each: asleep, as if a disk were read, or computing."""

    def __init__(self, count: int, ms: float, *, computing: bool) -> None:
        self.count, self.ms, self.computing = count, ms, computing

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.computing:
            burn(self.ms)
        else:
            time.sleep(self.ms / 1e3)
        return torch.ones(4)


@dataclass(frozen=True)
class Outcome:
    """One real run: its period, its wait, and what was said about it."""

    period_ms: float
    wait_ms: float
    finding: Finding | None


def train(
    folder: Path, workers: int, item_ms: float, *, computing: bool = False, steps: int = 70
) -> Outcome:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Items(steps, item_ms, computing=computing), num_workers=workers)
    with trace(model, optimizer, run_dir=folder, print_report=False) as tracer:
        for batch in tracer.batches(loader):
            with tracer.step():
                model(batch).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                if computing:
                    burn(WORK_MS)
                else:
                    time.sleep(WORK_MS / 1e3)
    assert tracer.run_folder is not None
    analysis = analyse(open_run(tracer.run_folder).facts(REQUIRED_COLUMNS))
    window, first = analysis.window, analysis.window.warmup_steps
    span_ns = int(window.close_ns[0, -1] - window.open_ns[0, first])
    found = (f for f in analysis.findings if f.kind == "INPUT_BOUND" and f.severity != "info")
    return Outcome(
        period_ms=span_ns / 1e6 / window.steady_steps,
        wait_ms=float(window.host["input_wait"][0, first:].mean()) / 1e6,
        finding=next(found, None),
    )


@pytest.mark.parametrize(("workers", "item_ms"), [(0, 50.0), (1, 50.0), (2, 100.0)])
def test_so_many_workers_as_advised_hide_the_wait_and_win_what_was_predicted(
    tmp_path: Path, workers: int, item_ms: float
) -> None:
    misses = []
    for attempt in range(TRIES):
        before = train(tmp_path / f"{attempt}a", workers, item_ms)
        finding = before.finding
        assert finding is not None
        advised, busy = (finding.evidence[k] for k in ("workers_needed_count", "node_busy_share"))
        assert isinstance(advised, int)
        assert finding.gain is not None
        after = train(tmp_path / f"{attempt}b", advised, item_ms)
        saved = 1.0 - after.period_ms / before.period_ms
        miss = abs(saved - (1.0 - 1.0 / finding.gain.speedup))
        # Where other processes hold the cores, they hold up the hand-over of batches as well.
        crowding = 4.0 if isinstance(busy, float) and busy > 0.9 else 1.0
        misses.append((miss / crowding, after.wait_ms / crowding, advised))
        if misses[-1][0] <= 0.02:
            break
    closest, wait_ms, advised = min(misses)
    assert closest <= 0.02, misses
    assert wait_ms < LEFT_MS  # of 50 ms and 25 ms: what handing a batch over costs is left
    assert advised <= 2 + item_ms / WORK_MS  # and not by asking for many more than it takes


@pytest.mark.parametrize("workers", [0, 1])
def test_items_that_compute_are_promised_no_more_than_the_cores_allow(
    tmp_path: Path, workers: int
) -> None:
    item_ms, cores = 60.0, len(os.sched_getaffinity(0))
    before = train(tmp_path / "a", workers, item_ms, computing=True)
    finding = before.finding
    assert finding is not None
    # Told for certain only where little else runs; never mistaken for a slow disk.
    assert finding.evidence["limited_by"] in ("cpu", "cores", "unknown")
    advised = finding.evidence["workers_needed_count"]
    if finding.evidence["limited_by"] != "cpu" or advised is None:
        assert finding.gain is None or finding.gain.low == 1.0
        return
    assert isinstance(advised, int)
    assert advised <= cores
    assert finding.gain is not None
    least_ms = (item_ms + WORK_MS) / cores
    assert before.period_ms / finding.gain.speedup >= 0.9 * min(least_ms, before.period_ms)
    after = train(tmp_path / "b", advised, item_ms, computing=True)
    assert after.period_ms >= 0.9 * least_ms  # the arithmetic of cores holds for real
