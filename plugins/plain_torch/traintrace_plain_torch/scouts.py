"""Notice that a script is about to train: what is in place until a span begins, and no longer.

Before the first optimizer is made only `Optimizer.__init__` is replaced; so a script that never trains
calls nothing of ours.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import torch
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader

from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import outside_graphs
from traintrace.pytorch.wrapping import READS_AHEAD_IN

Undo = Callable[[], None]
# They fetch a batch before they deliver the one before it, so that torch's requests inside do not come
# when the loop asks.
_READ_AHEAD: Final = {
    READS_AHEAD_IN: ("DataLoaderShard", "DataLoaderDispatcher"),
    "ray.train.torch.train_loop_utils": ("_WrappedDataLoader",),
}


class Watcher(Protocol):
    """What the scouts report to."""

    def optimizer_made(self, optimizer: Any) -> None:
        """An optimizer was made on the calling thread."""

    def begin(self, by_request: bool) -> bool:
        """Training is about to begin; say whether a span has begun at this instant."""

    def batches(self, make: Callable[[Any], Any], loader: Any) -> Any:
        """Give what a loop over a loader that reads ahead is to iterate; `make` gives its own iterator."""


def watch_optimizers(watcher: Watcher) -> Iterator[Undo]:
    """Install what sees each optimizer that is made; give what undoes it."""
    original = Optimizer.__init__

    @outside_graphs
    @functools.wraps(original)
    def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        if not torch.compiler.is_compiling():
            watcher.optimizer_made(optimizer)

    yield replace_attribute(Optimizer, "__init__", __init__)


def watch_for_training(watcher: Watcher) -> Iterator[Undo]:
    """Install what sees the first request for training data and the first backward; give what undoes it."""
    iterate, differentiate = DataLoader.__iter__, torch.autograd.backward

    @functools.wraps(iterate)
    def __iter__(loader: Any) -> Any:
        is_inside = sys._getframe(1).f_globals.get("__name__") == READS_AHEAD_IN
        if not is_inside and torch.is_grad_enabled() and watcher.begin(by_request=True):
            return DataLoader.__iter__(loader)  # which is charged by now
        return iterate(loader)

    @outside_graphs
    @functools.wraps(differentiate)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling() and watcher.begin(by_request=False):
            return torch.autograd.backward(*args, **kwargs)
        return differentiate(*args, **kwargs)

    yield replace_attribute(DataLoader, "__iter__", __iter__)
    yield replace_attribute(torch.autograd, "backward", backward)


def watch_read_ahead(watcher: Watcher, known: set[str]) -> Iterator[Undo]:
    """Install what sees the loops over loaders that read ahead; give what undoes it.

    Args:
        watcher: What is asked for the iterators.
        known: Modules that have been seen to; those that are loaded by now are added.
    """
    for name, kinds in _READ_AHEAD.items():
        module = sys.modules.get(name)
        if module is None or name in known:
            continue
        known.add(name)
        for kind in (getattr(module, each, None) for each in kinds):
            if kind is not None and "__iter__" in vars(kind):
                yield replace_attribute(kind, "__iter__", _iterating(watcher, kind.__iter__))


def _iterating(watcher: Watcher, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def __iter__(loader: Any) -> Any:
        if torch.is_grad_enabled():
            watcher.begin(by_request=True)
        return watcher.batches(original, loader)

    return __iter__
