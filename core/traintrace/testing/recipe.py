"""One training recipe of known delays, and its parts in torch; every integration trains the same.

    parts = Parts(recipe, truth)
    with parts.watched():                       # clocks around fetches, iterators and backward
        ... train parts.model with parts.optimizer() on parts.training_loader() ...

The parts bring their own clocks (see `Truth`): `Batch.to` is transfer, the model's forward is forward,
the optimizer's step is optimizer. Around evaluations and checkpoints that a framework makes by itself an
integration puts `truth.clock("evaluation")` and `truth.clock("checkpoint")`.
"""

import io
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from traintrace.patching import replace_attribute
from traintrace.testing.settings import Delays, Recipe
from traintrace.testing.truth import Truth

__all__ = ["Batch", "Delays", "Parts", "Recipe", "SlowNet", "SlowSGD", "sleep_ms"]

Spend = Callable[[float], None]
EVALUATION_BATCHES: Final = 2
_FEATURES: Final = 4


def sleep_ms(milliseconds: float) -> None:
    """Keep the host busy with nothing."""
    time.sleep(milliseconds / 1e3)


class Batch(dict[str, torch.Tensor]):
    """A batch that every framework knows how to move: it has `to`, and is a mapping.

    Attributes:
        transfer: What surrounds the move: clock and delay. Set where a training batch is delivered, for
            a worker cannot know it.
    """

    transfer: Callable[[], AbstractContextManager[None]] = nullcontext

    def to(self, device: Any, non_blocking: bool = False) -> "Batch":
        """Move every tensor; pinned ones never keep the host, whatever the framework asks."""
        with self.transfer():
            for name, tensor in self.items():
                self[name] = tensor.to(device, non_blocking=non_blocking or tensor.is_pinned())
        return self


class Examples(Dataset[torch.Tensor]):
    """So many random-free samples.

    Attributes:
        trains: True for training data; fetches of other data have no clock of their own.
    """

    def __init__(self, count: int, *, trains: bool) -> None:
        self._count = count
        self.trains = trains

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((_FEATURES,), (index + 1) / self._count)


@dataclass(frozen=True, slots=True)
class Collate:
    """Makes a batch, slowly; a class because workers must be able to pickle it."""

    delay_ms: float

    def __call__(self, samples: list[torch.Tensor]) -> Batch:
        """Stack `samples`."""
        sleep_ms(self.delay_ms)
        return Batch(x=torch.stack(samples), labels=torch.ones(len(samples)))


class _SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, spend: Spend, delay_ms: float) -> torch.Tensor:
        ctx.spend, ctx.delay_ms = spend, delay_ms
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.spend(ctx.delay_ms)
        return gradients[0], None, None


class SlowNet(nn.Module):
    """A model with known delays in forward and backward; gives a mapping with its loss, as HF wants it."""

    def __init__(self, delays: Delays, truth: Truth, spend: Spend) -> None:
        super().__init__()
        self.layer = nn.Linear(_FEATURES, 1)
        self._delays, self._truth, self._spend = delays, truth, spend

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Give loss and logits."""
        with self._truth.clock("forward"):
            self._spend(self._delays.forward if self.training else self._delays.evaluation)
            slow: Any = _SlowBackward.apply
            logits = slow(self.layer(x), self._spend, self._delays.backward).squeeze(-1)
            return {"loss": nn.functional.mse_loss(logits, labels), "logits": logits}


class SlowSGD(torch.optim.SGD):
    """An optimizer with a known delay."""

    def __init__(self, parameters: Any, delay_ms: float, truth: Truth, spend: Spend) -> None:
        super().__init__(parameters, lr=0.01)
        self._delay_ms, self._truth, self._spend = delay_ms, truth, spend

    def step(self, closure: Any = None) -> Any:
        """Run the closure, which is no optimizer work, and update."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._truth.clock("optimizer"):
            self._spend(self._delay_ms)
            super().step()
        return loss


class Parts:
    """What an integration trains with; made anew for every run.

    Attributes:
        truth: The clocks of this run.
        spend: Makes a part last: sleeps, or launches work on a device.
        device: Where the model is and batches are moved to.
        model: Give it to the framework as it is.
        finish: Call it when training is over and still traced: a script then waits for its device.
    """

    def __init__(
        self,
        recipe: Recipe,
        truth: Truth,
        *,
        spend: Spend = sleep_ms,
        device: torch.device | str = "cpu",
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        self.recipe = recipe
        self.truth = truth
        self.spend = spend
        self.finish = finish
        self.device = torch.device(device)
        torch.manual_seed(0)
        self.model = SlowNet(recipe.delays, truth, spend).to(self.device)
        samples = recipe.batches * recipe.batch_size - 1
        self.training_data = Examples(samples, trains=True)
        self.evaluation_data = Examples(EVALUATION_BATCHES * recipe.batch_size, trains=False)
        self.collate = Collate(recipe.delays.data)

    def optimizer(self) -> SlowSGD:
        """Make the optimizer of the model."""
        delay_ms = self.recipe.delays.optimizer
        return SlowSGD(self.model.parameters(), delay_ms, self.truth, self.spend)

    def training_loader(self) -> DataLoader[Any]:
        """Make the loader of the training data."""
        recipe = self.recipe
        return DataLoader(
            self.training_data,
            batch_size=recipe.batch_size,
            collate_fn=self.collate,
            num_workers=recipe.workers,
            persistent_workers=recipe.persistent,
            pin_memory=self.device.type == "cuda",
        )

    def evaluation_loader(self) -> DataLoader[Any]:
        """Make the loader of the evaluation data."""
        size = self.recipe.batch_size
        return DataLoader(self.evaluation_data, batch_size=size, collate_fn=self.collate)

    def evaluate(self) -> None:
        """Evaluate the model, for loops that a user writes."""
        with self.truth.clock("evaluation"), torch.no_grad():
            self.model.eval()
            for batch in self.evaluation_loader():
                self.model(**batch.to(self.device))
            self.model.train()

    def save(self) -> None:
        """Write a checkpoint to nowhere, for loops that a user writes."""
        with self.truth.clock("checkpoint"):
            self.spend(self.recipe.delays.checkpoint)
            torch.save(self.model.state_dict(), io.BytesIO())

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Clock torch's own calls inside the block: fetches, iterators, backward.

        A tracer that starts inside the block lies outside these clocks.
        """
        loading: Any = torch.utils.data.dataloader
        workers: Any = loading._MultiProcessingDataLoaderIter
        with ExitStack() as undo:
            for owner, name, wrap in (
                (loading._BaseDataLoaderIter, "__next__", self._clocked_fetch),
                (workers, "_shutdown_workers", self._clocked_stop),
                (DataLoader, "__iter__", self._clocked_iterator),
                (torch.autograd, "backward", self._clocked_backward),
            ):
                undo.callback(replace_attribute(owner, name, wrap(getattr(owner, name))))
            yield

    @contextmanager
    def _transfer(self) -> Iterator[None]:
        with self.truth.clock("transfer"):
            self.spend(self.recipe.delays.transfer)
            yield

    def _clocked_fetch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:
            if not getattr(iterator._dataset, "trains", False):
                return original(iterator)
            with self.truth.clock("fetch") as call:
                try:
                    batch = original(iterator)
                except StopIteration:
                    call.part = "exhausted_fetch"
                    raise
            batch.transfer = self._transfer
            return batch

        return __next__

    def _clocked_iterator(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(loader: Any) -> Any:
            if not getattr(loader.dataset, "trains", False):
                return original(loader)
            with self.truth.clock("iterator"):
                return original(loader)

        return __iter__

    def _clocked_stop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _shutdown_workers(iterator: Any) -> None:
            is_over = iterator._shutdown or self.truth.updates == self.recipe.steps
            if is_over or not getattr(iterator._dataset, "trains", False):
                original(iterator)
                return
            with self.truth.clock("workers_stop"):
                original(iterator)

        return _shutdown_workers

    def _clocked_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            with self.truth.clock("backward"):
                return original(*args, **kwargs)

        return backward
