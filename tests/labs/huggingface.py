"""A Trainer whose parts sleep for known times, and what was recorded of it."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import accelerate  # type: ignore[import-untyped]  # accelerate has no types
import torch
import transformers
from packaging.version import Version
from torch import nn
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainingArguments

from traintrace import open_run
from traintrace.facts import RankFacts
from traintrace_huggingface import TraceCallback

COLUMNS = (
    "step framework_step epoch micro_batches samples tokens padded_tokens start_ns open_ns duration_ns "
    "input_wait_ns h2d_ns batch_prep_ns forward_ns backward_ns optimizer_ns communication_ns clip_ns "
    "callbacks_ns other_ns forward_calls backward_calls optimizer_calls flags"
).split()

TRANSFORMERS = Version(transformers.__version__)
ACCELERATE = Version(accelerate.__version__)
# transformers 4.46 makes no update at the end of data that is no multiple of the accumulation.
UPDATES_SHORT_GROUPS = TRANSFORMERS >= Version("4.47")


class Truth:
    """Sleeps, and keeps how long each account really slept [ns]: summed, and call by call."""

    def __init__(self) -> None:
        self.ns: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.each: defaultdict[str, list[int]] = defaultdict(list)

    @contextmanager
    def clock(self, account: str) -> Iterator[None]:
        """Time a whole body."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            taken = time.perf_counter_ns() - began
            self.ns[account] += taken
            self.calls[account] += 1
            self.each[account].append(taken)

    def sleep(self, account: str, ms: float, result: Any = None) -> Any:
        with self.clock(account):
            time.sleep(ms / 1e3)
        return result


class Sleeps(NamedTuple):
    """How long each part sleeps [ms]."""

    item: float = 0
    evaluation_item: float = 0
    collate: float = 0
    forward: float = 0
    backward: float = 0
    optimizer: float = 0
    evaluation: float = 0


NO_SLEEPS = Sleeps()


class Items(Sequence[Any]):
    """Samples whose fetching sleeps, charged to `account`."""

    def __init__(self, truth: Truth, count: int, account: str, ms: float) -> None:
        self.truth, self.length, self.account, self.ms = truth, count, account, ms

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self.length:
            raise IndexError
        if self.ms:
            self.truth.sleep(self.account, self.ms)
        return {"x": torch.full((4,), float(index)) / self.length, "labels": torch.ones(())}


class Stream(IterableDataset[Any]):
    """The same without a length."""

    def __init__(self, items: Items) -> None:
        super().__init__()
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class SlowEdges(Stream):
    """Takes its time to begin, and to find out that it has ended: neither is a wait for a batch."""

    def __init__(self, items: Items, ms: float) -> None:
        super().__init__(items)
        self.ms = ms

    def __iter__(self) -> Iterator[Any]:
        self.items.truth.sleep("begin", self.ms)
        return self._run()

    def _run(self) -> Iterator[Any]:
        yield from self.items
        self.items.truth.sleep("end", self.ms)


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
            hook(lambda gradient: self.truth.sleep("backward", self.sleeps.backward))
        return {"loss": loss, "logits": output}

    def __deepcopy__(self, memo: Any) -> "Net":
        twin = Net(self.truth, self.sleeps)
        twin.load_state_dict(self.state_dict())
        return twin


class Language(nn.Module):
    """Reads texts, and sleeps at each."""

    def __init__(self, truth: Truth | None = None, ms: float = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 1)
        self.truth, self.ms = truth or Truth(), ms

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        self.truth.sleep("forward", self.ms)
        return {"loss": (self.embedding(input_ids).squeeze(-1) * attention_mask).mean()}


def texts(*lengths: int) -> list[dict[str, torch.Tensor]]:
    """Make texts of these lengths, all padded to the longest."""
    longest = max(lengths)
    ids = torch.ones(longest, dtype=torch.long)
    return [
        {"input_ids": ids, "attention_mask": (torch.arange(longest) < n).long()} for n in lengths
    ]


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
        items = Items(truth, batches * batch_size, "input_wait", sleeps.item)
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
            if sleeps.collate:
                time.sleep(sleeps.collate / 1e3)
            return {name: torch.stack([s[name] for s in samples]) for name in samples[0]}

        optimizer = SleepingSGD(model.parameters(), truth, sleeps) if own_optimizer else None
        training = Stream(items) if stream else items
        return kind(
            model,
            TrainingArguments(str(self.folder / "out"), **{**defaults, **arguments}),
            data_collator=collate or stack,
            train_dataset=training if dataset is None else dataset,
            eval_dataset=Items(truth, 4, "evaluation", sleeps.evaluation_item),
            callbacks=list(callbacks),
            optimizers=(optimizer, None),
        )


def read(callback: TraceCallback) -> RankFacts:
    """Read the run that `callback` recorded last, and check what holds of every run."""
    assert callback.run_folder is not None
    return read_run(callback.run_folder)


def read_run(folder: Path) -> RankFacts:
    """Read the run of one process in `folder`, and check its books."""
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


def spans_ns(rank: RankFacts) -> list[int]:
    """Give how long each step was open, from the request of its first batch to its end."""
    columns = rank.columns
    rows = zip(columns["start_ns"], columns["duration_ns"], columns["open_ns"], strict=True)
    return [(start or 0) + (duration or 0) - (opened or 0) for start, duration, opened in rows]
