"""A recipe of known delays for real Trainers; truth is what its own clock recorded around each body."""

import collections
import logging
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.labs.cores import waited_for_a_core_ns
from traintrace import accounts, facts
from traintrace_lightning import TraceCallback

NAMES = ("lightning.pytorch", "pytorch_lightning")
COLUMNS = (
    *("step", "framework_step", "epoch", "micro_batches", "samples", "start_ns", "open_ns"),
    *("duration_ns", "flags"),
    *(f"{name}_ns" for name in accounts.STEP_ACCOUNT_NAMES),
    *(f"{name}_calls" for name in accounts.PHASES),
)


def let_lightning_warn(items: list[pytest.Item], folder: Path) -> None:
    """Let Lightning warn in the tests of `folder`; what the tracer warns of is asserted there."""
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(params=NAMES)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> "Lab":
    return Lab(request.param, tmp_path)


@pytest.fixture
def lab(tmp_path: Path) -> "Lab":
    return Lab(NAMES[0], tmp_path)


@pytest.fixture
def read() -> "Callable[..., Run]":
    return Run


class Books:
    """What one rank recorded of one fit."""

    def __init__(self, rank: facts.RankFacts) -> None:
        self.rank = rank
        self.steps: dict[str, list[Any]] = {k: list(v) for k, v in rank.columns.items()}

    def ms(self, account: str) -> float:
        return float(self.rank.totals.account_ns.get(account, 0) / 1e6)

    def column_ms(self, account: str) -> list[Any]:
        """Give the account's time in each step; None where it was not measured."""
        return [ns if ns is None else ns / 1e6 for ns in self.steps[f"{account}_ns"]]

    def flagged(self, flag: int) -> list[bool]:
        return [bool(flags & flag) for flags in self.steps["flags"]]

    def check_books(self) -> None:
        """Every nanosecond is in one account, and rows tile the time line."""
        totals, steps = self.rank.totals, self.steps
        assert sum(totals.account_ns.values()) == totals.wall_ns
        assert totals.unbalanced == 0
        end = totals.start_ns
        for row, step in enumerate(steps["step"]):
            assert steps["start_ns"][row] == end
            end += steps["duration_ns"][row]
            inside = sum(steps[f"{name}_ns"][row] or 0 for name in accounts.STEP_ACCOUNT_NAMES)
            beside = [span for span in self.rank.spans if span.step == step]
            assert inside + sum(span.ns for span in beside) == steps["duration_ns"][row]


class Run(Books):
    """One traced fit of this process, read back; `waited_ns` is what others kept its thread from the cores."""

    def __init__(
        self, callback: Any, trainer: Any, taken: "collections.Counter[str]", waited_ns: int = 0
    ) -> None:
        self.callback = callback
        self.trainer = trainer
        self.taken = taken
        self.waited_ns = waited_ns
        self.facts: facts.RunFacts = callback._session.as_run().facts(COLUMNS)
        super().__init__(self.facts.ranks[0])

    def check_truth(self, *names: str) -> None:
        """Every account holds at least what its bodies took; those called `names`, not much more.

        The first is what finds time that is booked in a wrong place, however busy the machine is:
        accounts are disjoint, so it is missing in the right one.
        """
        bodies = {name: ns / 1e6 for name, ns in self.taken.items() if name in accounts.NAMES}
        assert {name: ms for name, ms in bodies.items() if self.ms(name) < ms - 0.01} == {}
        # A collection of garbage, of up to 0.3 s in a process of tests, may fall into any of them, and
        # so may other processes that want the cores.
        room = 40 + ((self.rank.totals.gc_ns or 0) + self.waited_ns) / 1e6
        excess = {name: self.ms(name) - bodies[name] for name in names}
        assert {name: ms for name, ms in excess.items() if ms > 0.02 * bodies[name] + room} == {}


class Lab:
    """Makes models, data and Trainers of one of Lightning's names."""

    def __init__(self, name: str, folder: Path) -> None:
        self.pl = import_module(name)
        self.folder = folder
        self.taken: collections.Counter[str] = collections.Counter()
        lab = self

        class Backward(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.clone()

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                lab.work("backward", 4)
                return gradients[0]

        apply: Any = Backward.apply

        class Net(torch.nn.Linear):
            def forward(self, x: Any) -> Any:
                lab.work("forward", 3)
                return apply(super().forward(x))

        class Update(torch.optim.SGD):
            def step(self, closure: Any = None) -> Any:
                loss = super().step(closure)
                lab.work("optimizer", 2)
                return loss

        class Model(self.pl.LightningModule):  # type: ignore[misc, name-defined]  # made at run time
            def __init__(self) -> None:
                super().__init__()
                self.net = Net(4, 1)

            def training_step(self, batch: Any, batch_idx: int) -> Any:
                return self.net(batch).mean()

            def configure_optimizers(self) -> Any:
                return Update(self.parameters(), lr=1e-3)

        class Items(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __init__(self, count: int, delay_ms: float = 5) -> None:
                self.count, self.delay_ms = count, delay_ms

            def __len__(self) -> int:
                return self.count

            def __getitem__(self, index: int) -> Any:
                lab.work("input_wait", self.delay_ms)
                return torch.full((4,), float(index))

        self.Model, self.Net, self.Update, self.Items = Model, Net, Update, Items

    def work(self, name: str, milliseconds: float) -> None:
        """Sleep, and note for how long that really was."""
        start = time.perf_counter_ns()
        time.sleep(milliseconds / 1e3)
        self.taken[name] += time.perf_counter_ns() - start
        self.taken[f"{name} calls"] += 1

    def loader(self, count: int, delay_ms: float = 5, **options: Any) -> Any:
        return torch.utils.data.DataLoader(self.Items(count, delay_ms), **options)

    def evaluation_loader(self) -> Any:
        return torch.utils.data.DataLoader([torch.zeros(4)] * 2)  # type: ignore[arg-type]

    def callback(self, **options: Any) -> Any:
        return TraceCallback(**{"run_dir": self.folder / "runs", "print_report": False, **options})

    def trainer(self, *callbacks: Any, **options: Any) -> Any:
        quiet = {
            "accelerator": "cpu",
            "max_epochs": 1,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "default_root_dir": self.folder,
        }
        return self.pl.Trainer(callbacks=list(callbacks), **{**quiet, **options})

    def fit(self, model: Any, loader: Any, *more: Any, callbacks: Any = (), **options: Any) -> Run:
        """Fit with a callback of ours first, and read the run back."""
        self.taken.clear()
        callback = self.callback()
        trainer = self.trainer(callback, *callbacks, **options)
        waited_ns = waited_for_a_core_ns()
        trainer.fit(model, loader, *more)
        return Run(callback, trainer, self.taken, waited_for_a_core_ns() - waited_ns)
