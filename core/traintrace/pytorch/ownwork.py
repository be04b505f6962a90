"""Mark where a rank's own part of the backward ends, so that waiting for other ranks is told apart.

Autograd's engine runs queued callbacks in order when a backward is done, and DDP queues the one that waits
for the other ranks when the last of its gradients is there. A callback queued by a parameter's hook
before that marks the end of this rank's own work.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import get_ident
from typing import Any, Final

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from traintrace.pytorch.optimizer import parameters_of
from traintrace.pytorch.strategy import has_other_processes, strategy_of, without_compiler
from traintrace.recording.journal import OWN_WORK_DONE, Journal
from traintrace.session import Session

_WAITS_ALL_ALONG: Final = ("fsdp", "fsdp2", "deepspeed")
NO_GROUP: Final = (
    "there was no process group when tracing began; the backward account may include waiting"
)
COMPILED: Final = "backward itself is compiled; the backward account may include waiting"

QueueCallback = Callable[[Callable[[], None]], None]


def mark_own_work(
    session: Session, model: nn.Module, optimizer: Any = None
) -> Iterator[Callable[[], None]]:
    """Mark the end of this rank's own backward work, where other ranks take part; give what undoes it.

    Nothing is installed in a process on its own, nor where the model is sharded: there ranks wait for
    each other all through the backward. Nor where backward is compiled: the hooks would be as well.

    Args:
        session: Gets the marks, and the reason where there cannot be any.
        model: What is called in training, with its wrapper: that knows when nobody waits.
        optimizer: A torch optimizer may hold a second model's parameters, whose gradients meet in the
            same backward; anything else adds nothing.
    """
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        if has_other_processes():
            session.unmeasured["gradient_sync"] = NO_GROUP
        return
    if distributed.get_world_size() < 2 or strategy_of(model) in _WAITS_ALL_ALONG:
        return
    if _compiles_backward():
        session.unmeasured["gradient_sync"] = COMPILED
        return
    engine: Any = getattr(torch.autograd.Variable, "_execution_engine", None)
    parameters = [*_trained(model, optimizer)]
    if not parameters or not hasattr(engine, "queue_callback"):
        return
    # Its own attributes: a user's module may answer for any name, or raise what it likes.
    ddp = vars(without_compiler(model))
    marks = _OwnWorkMarks(session, engine.queue_callback, ddp)
    yield marks.remove  # first, so that hooks come off although one more could not be put on
    with session.faults.guard("where this rank's own backward work ends"):
        marks.watch(parameters)


def _trained(model: nn.Module, optimizer: Any) -> Iterator[torch.Tensor]:
    known = set()
    for parameter in (*model.parameters(), *parameters_of(optimizer)):
        if _can_be_watched(parameter) and id(parameter) not in known:
            known.add(id(parameter))
            yield parameter


def _can_be_watched(parameter: torch.Tensor) -> bool:
    # Of a parameter that awaits its first batch nothing may be asked; other ones will do.
    return not is_lazy(parameter) and parameter.requires_grad and parameter.is_leaf


def _compiles_backward() -> bool:
    """Say whether autograd's graph is given to the compiler too, with the hooks in it."""
    config = sys.modules.get("torch._dynamo.config")
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(
        getattr(config, "compiled_autograd", False)
        or getattr(compiled, "compiled_autograd_enabled", False)
    )


class _OwnWorkMarks:
    """Hooks on the parameters whose gradients came first and last in the first backward.

    The first comes before any DDP module has all of its gradients, also where two of them meet in one
    backward. The last is there where the first is not used (a model with two heads), and under
    reentrant checkpointing it is the one inside that inner backward in which DDP waits. Whichever
    mark comes second changes nothing. A backward that uses neither is not split.
    """

    def __init__(
        self, session: Session, queue_callback: QueueCallback, ddp: Mapping[str, Any]
    ) -> None:
        self._faults = session.faults
        self._is_apart = functools.partial(_is_apart, session.journal, torch.compiler.is_compiling)
        self._queue_mark = _mark_queue(session.journal, queue_callback, ddp, self._is_apart)
        # A static graph is learnt in the first backward of all, where DDP queues its wait at once: a mark
        # after it would say that nobody waited.
        self._is_too_late = ddp.get("static_graph", False) and not ddp.get(
            "_static_graph_delay_allreduce_enqueued", True
        )
        self._handles: list[Any] = []
        self._seen: dict[int, torch.Tensor] = {}

    def watch(self, parameters: Iterable[torch.Tensor]) -> None:
        """Learn from the next backward in which order the gradients come."""
        self._put(self._learn, parameters)

    def remove(self) -> None:
        """Take all hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._seen = [], {}

    def _put(self, hook: Callable[[torch.Tensor], None], parameters: Iterable[Any]) -> None:
        for one in parameters:
            self._handles.append(one.register_post_accumulate_grad_hook(hook))

    def _learn(self, parameter: torch.Tensor) -> None:
        if self._is_apart(parameter):
            return
        if id(parameter) in self._seen:  # the second backward has begun
            with self._faults.guard("where this rank's own backward work ends"):
                self._settle(parameter)
        else:
            self._seen[id(parameter)] = parameter
            if self._is_too_late:
                return
        self._queue_mark(parameter)

    def _settle(self, parameter: torch.Tensor) -> None:
        # Some may be frozen by now, and then none of their gradients comes any more.
        seen = [one for one in self._seen.values() if one.requires_grad]
        # The one at hand is the first again, or one that both backwards have in common.
        ends = {id(one): one for one in (seen[0], seen[-1], parameter)}
        self.remove()
        self._put(self._queue_mark, ends.values())


def _mark_queue(
    journal: Journal,
    queue_callback: QueueCallback,
    ddp: Mapping[str, Any],
    is_apart: Callable[[torch.Tensor], bool],
) -> Callable[[torch.Tensor], None]:
    own_work_done = journal.marker(OWN_WORK_DONE)

    def queue_mark(parameter: torch.Tensor) -> None:
        # Under DDP's `no_sync` nobody waits; without the wrapper at hand the wait is marked as nothing.
        if ddp.get("require_backward_grad_sync", True) and not is_apart(parameter):
            queue_callback(own_work_done)

    return queue_mark


def _is_apart(journal: Journal, is_compiling: Callable[[], bool], parameter: torch.Tensor) -> bool:
    """Say whether the backward at hand is none of the training thread's, or is being compiled.

    On the CPU gradients come on the thread that called backward; a device has a thread of its own.
    """
    if is_compiling() or journal.owner == -1:
        return True
    return get_ident() != journal.owner and parameter.device.type == "cpu"
