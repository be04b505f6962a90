"""Mark where a rank's own part of the backward ends, so that waiting for other ranks is told apart.

Autograd's engine runs queued callbacks in order when a backward is done, and DDP queues the one that waits
for the other ranks when the last of its gradients is there. A callback queued by a parameter's hook
before that marks the end of this rank's own work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch import nn

from traintrace.journal import OWN_WORK_DONE, Journal
from traintrace.pytorch.strategy import strategy_of

_WAITS_ALL_ALONG: Final = ("fsdp", "fsdp2", "deepspeed")


def mark_own_work(
    journal: Journal, model: nn.Module, optimizer: Any = None
) -> Iterator[Callable[[], None]]:
    """Mark the end of this rank's own backward work, where other ranks take part; give what undoes it.

    Nothing is installed in a process on its own, nor where the model is sharded: there ranks wait for
    each other all through the backward.

    Args:
        journal: Where the mark is written.
        model: What is called in training, with its wrapper: that knows when nobody waits.
        optimizer: A torch optimizer may hold a second model's parameters, whose gradients meet in the
            same backward; anything else adds nothing.
    """
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    if distributed.get_world_size() < 2 or strategy_of(model) in _WAITS_ALL_ALONG:
        return
    engine: Any = getattr(torch.autograd.Variable, "_execution_engine", None)
    parameters = [*_trained(model, optimizer)]
    if not parameters or not hasattr(engine, "queue_callback"):
        return
    marks = _OwnWorkMarks(journal, engine.queue_callback, getattr(model, "_orig_mod", model))
    marks.watch(parameters)
    yield marks.remove


def _trained(model: nn.Module, optimizer: Any) -> Iterator[Any]:
    known = set()
    groups = getattr(optimizer, "param_groups", None) or ()
    held = (one for group in groups if isinstance(group, Mapping) for one in group["params"])
    for parameter in (*model.parameters(), *held):
        if parameter.requires_grad and parameter.is_leaf and id(parameter) not in known:
            known.add(id(parameter))
            yield parameter


class _OwnWorkMarks:
    """Hooks on the parameters whose gradients came first and last in the first backward.

    The first comes before any DDP module has all of its gradients, also where two of them meet in one
    backward. The last is there where the first is not used (a model with two heads), and under
    reentrant checkpointing it is the one inside that inner backward in which DDP waits. Whichever
    mark comes second changes nothing. A backward that uses neither is not split.
    """

    def __init__(
        self, journal: Journal, queue_callback: Callable[[Callable[[], None]], None], ddp: Any
    ) -> None:
        self._queue_mark = _mark_queue(journal, queue_callback, ddp)
        # A static graph is learnt in the first backward of all, where DDP queues its wait at once: a mark
        # after it would say that nobody waited.
        self._is_too_late = getattr(ddp, "static_graph", False) and not getattr(
            ddp, "_static_graph_delay_allreduce_enqueued", True
        )
        self._handles: list[Any] = []
        self._seen: dict[int, torch.Tensor] = {}

    def watch(self, parameters: Iterable[Any]) -> None:
        """Learn from the next backward in which order the gradients come."""
        self._handles = [one.register_post_accumulate_grad_hook(self._learn) for one in parameters]

    def remove(self) -> None:
        """Take all hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _learn(self, parameter: torch.Tensor) -> None:
        if id(parameter) in self._seen:  # the second backward has begun
            self._settle(parameter)
        else:
            self._seen[id(parameter)] = parameter
            if self._is_too_late:
                return
        self._queue_mark(parameter)

    def _settle(self, parameter: torch.Tensor) -> None:
        seen = [*self._seen.values()]
        # The one at hand is the first again, or one that both backwards have in common.
        ends: dict[int, Any] = {id(one): one for one in (seen[0], seen[-1], parameter)}
        self.remove()
        self._seen = {}
        self._handles = [
            one.register_post_accumulate_grad_hook(self._queue_mark) for one in ends.values()
        ]


def _mark_queue(
    journal: Journal, queue_callback: Callable[[Callable[[], None]], None], ddp: Any
) -> Callable[[torch.Tensor], None]:
    own_work_done = journal.marker(OWN_WORK_DONE)

    def queue_mark(parameter: torch.Tensor) -> None:
        # Under DDP's `no_sync` nobody waits; without the wrapper at hand the wait is marked as nothing.
        if journal.owner != -1 and getattr(ddp, "require_backward_grad_sync", True):
            queue_callback(own_work_done)

    return queue_mark
