"""A Trainer whose parts sleep for known times, and what was recorded of it."""

import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from packaging.version import Version
from torch import nn
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from traintrace import open_run
from traintrace.facts import RankFacts
from traintrace_huggingface import TraceCallback, opening

COLUMNS = (
    "step framework_step epoch micro_batches samples tokens padded_tokens start_ns open_ns duration_ns "
    "input_wait_ns h2d_ns batch_prep_ns forward_ns backward_ns optimizer_ns communication_ns clip_ns "
    "callbacks_ns other_ns forward_calls backward_calls optimizer_calls flags"
).split()


class Truth:
    """Sleeps, and adds up how long each account really slept [ns]."""

    def __init__(self) -> None:
        self.ns: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.is_training = True

    @contextmanager
    def clock(self, account: str) -> Iterator[None]:
        """Time a whole body."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self.ns[account] += time.perf_counter_ns() - began
            self.calls[account] += 1

    def sleep(self, account: str, ms: float, result: Any = None) -> Any:
        with self.clock(account):
            time.sleep(ms / 1e3)
        return result


class Sleeps(NamedTuple):
    """How long each part sleeps [ms]."""

    item: float = 0
    collate: float = 0
    forward: float = 0
    backward: float = 0
    optimizer: float = 0
    evaluation: float = 0


NO_SLEEPS = Sleeps()


class Items(Sequence[Any]):
    def __init__(self, truth: Truth, sleeps: Sleeps, count: int) -> None:
        self.truth, self.sleeps, self.length = truth, sleeps, count

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self.length:
            raise IndexError
        if self.sleeps.item:
            account = "input_wait" if self.truth.is_training else "evaluation"
            self.truth.sleep(account, self.sleeps.item)
        return {"x": torch.full((4,), float(index)) / self.length, "labels": torch.ones(())}


class Stream(IterableDataset[Any]):
    """The same without a length."""

    def __init__(self, items: Items) -> None:
        super().__init__()
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class Net(nn.Module):
    def __init__(self, truth: Truth, sleeps: Sleeps) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1))
        self.truth, self.sleeps = truth, sleeps
        self.on_forward: Callable[[], None] | None = None

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        with self.truth.clock("forward" if self.training else "evaluation"):
            return self.think(x, labels)

    def think(self, x: torch.Tensor, labels: torch.Tensor | None) -> Any:
        if self.training and self.on_forward is not None:
            self.on_forward()
        time.sleep((self.sleeps.forward if self.training else self.sleeps.evaluation) / 1e3)
        output = self.inner(x).squeeze(-1)
        loss = nn.functional.mse_loss(output, torch.ones_like(output) if labels is None else labels)
        if self.training and self.sleeps.backward:
            hook: Any = loss.register_hook
            hook(lambda gradient: time.sleep(self.sleeps.backward / 1e3))
        return {"loss": loss, "logits": output}

    def __deepcopy__(self, memo: Any) -> "Net":
        twin = Net(self.truth, self.sleeps)
        twin.load_state_dict(self.state_dict())
        return twin


class SleepingSGD(torch.optim.SGD):
    def __init__(self, parameters: Any, truth: Truth, sleeps: Sleeps) -> None:
        super().__init__(parameters, lr=0.1)
        self.truth, self.sleeps = truth, sleeps

    def step(self, closure: Any = None) -> Any:
        with self.truth.clock("optimizer"):
            time.sleep(self.sleeps.optimizer / 1e3)
            return super().step(closure)


class Recipe:
    """Makes Trainers in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.truth = Truth()

    def callback(self, **options: Any) -> TraceCallback:
        return TraceCallback(run_dir=self.folder / "runs", **{"print_report": False, **options})

    def trainer(
        self,
        *callbacks: Any,
        kind: type[Any] = Trainer,
        sleeps: Sleeps = NO_SLEEPS,
        batches: int = 5,
        accumulate: int = 1,
        stream: bool = False,
        batch_size: int = 2,
        own_optimizer: bool = True,
        dataset: Any = None,
        collate: Callable[[Any], Any] | None = None,
        model: nn.Module | None = None,
        **arguments: Any,
    ) -> Any:
        truth = self.truth
        model = Net(truth, sleeps) if model is None else model
        items = Items(truth, sleeps, batches * batch_size)
        defaults: dict[str, Any] = {
            "per_device_train_batch_size": batch_size,
            "per_device_eval_batch_size": batch_size,
            "gradient_accumulation_steps": accumulate,
            "num_train_epochs": 1,
            "use_cpu": True,
            "report_to": [],
            "disable_tqdm": True,
            "save_strategy": "no",
            "logging_strategy": "no",
            "remove_unused_columns": False,
            "dataloader_pin_memory": False,
        }

        def stack(samples: list[Any]) -> dict[str, torch.Tensor]:
            if sleeps.collate and truth.is_training:
                truth.sleep("input_wait", sleeps.collate)
            return {name: torch.stack([s[name] for s in samples]) for name in samples[0]}

        optimizer = SleepingSGD(model.parameters(), truth, sleeps) if own_optimizer else None
        training = Stream(items) if stream else items
        trainer = kind(
            model,
            TrainingArguments(str(self.folder / "out"), **{**defaults, **arguments}),
            data_collator=collate or stack,
            train_dataset=training if dataset is None else dataset,
            eval_dataset=Items(truth, sleeps, 4),
            callbacks=list(callbacks),
            optimizers=(optimizer, None),
        )
        backward = trainer.accelerator.backward

        def timed_backward(*args: Any, **kwargs: Any) -> None:
            with truth.clock("backward"):
                backward(*args, **kwargs)

        trainer.accelerator.backward = timed_backward
        return trainer


def read(callback: TraceCallback) -> RankFacts:
    """Read the run that `callback` recorded last, and check what holds of every run."""
    folder = callback.run_folder
    assert folder is not None
    (rank,) = open_run(folder).facts(COLUMNS).ranks
    totals, columns = rank.totals, rank.columns
    assert sum(totals.account_ns.values()) == totals.wall_ns
    assert totals.dropped_rows == totals.unbalanced == 0
    moment = totals.start_ns
    for start, duration in zip(columns["start_ns"], columns["duration_ns"], strict=True):
        assert start == moment
        assert duration is not None
        moment += duration
    assert moment <= totals.start_ns + totals.wall_ns
    return rank


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Recipe]:
    before = dict(os.environ)
    yield Recipe(tmp_path)
    os.environ.clear()  # transformers 4.57 leaves variables behind that make later models compile
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _no_report(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # The report has tests of its own; here only those who ask for it wait for it.
    if "with_report" not in request.fixturenames:
        monkeypatch.setattr(opening, "_report", lambda run, print_report: None)


@pytest.fixture
def with_report() -> None:
    """Let runs end with their report."""


@pytest.fixture(scope="session", autouse=True)
def _warm() -> Iterator[None]:
    """Let torch make its first-call set-up before anything is timed, and keep collections short.

    `Trainer.train` collects garbage, and so may any moment that is timed: with all that is imported here
    a full collection takes 0.3 s.
    """
    model = Net(Truth(), NO_SLEEPS)
    model(torch.stack([torch.ones(4), torch.ones(4)]), torch.ones(2))["loss"].backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def tools() -> Any:
    """Give the parts of this file to the tests; test folders are no packages."""
    return _Tools


class _Tools:
    Sleeps, Truth, Net, Items, Stream = Sleeps, Truth, Net, Items, Stream
    read = staticmethod(read)
    # transformers 4.46 makes no update at the end of data that is no multiple of the accumulation.
    updates_short_groups = Version(transformers.__version__) >= Version("4.47")
    Callback = TrainerCallback
