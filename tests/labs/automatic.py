"""Scripts that say nothing of tracing: what a launcher attaches, and what the script left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.labs.untouched import COLUMNS, Net
from traintrace import facts, open_run
from traintrace.options import TraceOptions
from traintrace_plain_torch.attach import attach


class Script:
    """Runs code as a script would run it under the launcher, and reads what that left."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.detach: Callable[[], None] = lambda: None

    def attach(self, **options: Any) -> None:
        self.detach = attach(TraceOptions(run_dir=self.runs, print_report=False, **options))

    def folders(self) -> list[Path]:
        return sorted(self.runs.iterdir()) if self.runs.exists() else []

    def rank(self) -> facts.RankFacts:
        """End the script and read its one run."""
        self.detach()
        (folder,) = self.folders()
        rank = open_run(folder).facts(COLUMNS).ranks[0]
        assert sum(rank.totals.account_ns.values()) == rank.totals.wall_ns
        return rank


def made(lr: float = 0.1) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = Net()
    return model, torch.optim.SGD(model.parameters(), lr=lr)
