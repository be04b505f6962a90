"""The models whose calls are `forward` in a loop that named none, each as long as its optimizer lives.

A model that outlived its optimizer for our sake would keep a device's memory: in a script that trains one
model after the other, the next one may not fit.
"""

import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final

from torch import nn

from traintrace.pytorch.loopstate import LoopState
from traintrace.pytorch.optimizer import parameters_of
from traintrace.session import Session
from traintrace_plain_torch.found import find_models
from traintrace_plain_torch.seams import forward_hooks

# Looks through all objects in one run: each takes tens of milliseconds, and a loop may make an
# optimizer at every step.
MOST_LOOKS: Final = 16
NOT_FOUND: Final = "no module was found that holds what the optimizer updates"


class _Followed:
    """One model, what takes its hooks off, and the optimizers (by `id`) that train it."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.undo = ExitStack()
        self.optimizers: set[int] = set()


class Following:
    """Follows the models of optimizers, and forgets each when the last of its optimizers is gone."""

    def __init__(self, session: Session, loop: LoopState) -> None:
        self._session = session
        self._loop = loop
        self._followed: list[_Followed] = []
        self._looks = 0

    def add(self, optimizers: Iterable[Any]) -> None:
        """Follow the models that `optimizers` train, as far as they are not followed."""
        new = [one for one in optimizers if not self._is_known(one)]
        if not new or self._looks == MOST_LOOKS:
            return
        self._looks += 1
        for model, optimizer in find_models(new):
            self._follow(model, optimizer)
        for optimizer in new:
            weakref.finalize(optimizer, self._forget, id(optimizer)).atexit = False
        if self._followed:
            self._loop.model = self._followed[0].model
        elif self._session.level != "step":
            self._session.unmeasured["forward"] = NOT_FOUND

    def _is_known(self, optimizer: Any) -> bool:
        first = next(parameters_of(optimizer), None)
        for followed in self._followed:
            if any(one is first for one in followed.model.parameters()):
                followed.optimizers.add(id(optimizer))
                weakref.finalize(optimizer, self._forget, id(optimizer)).atexit = False
                return True
        return False

    def _follow(self, model: nn.Module, optimizer: Any) -> None:
        followed = next((one for one in self._followed if one.model is model), None)
        if followed is None:
            followed = _Followed(model)
            self._followed.append(followed)
            if self._session.level != "step":
                self._session.unmeasured.pop("forward", None)
                for installed in forward_hooks(self._session, model, optimizer):
                    for undo in installed:
                        followed.undo.callback(undo)
        followed.optimizers.add(id(optimizer))

    def _forget(self, optimizer: int) -> None:
        """The optimizer with this `id` is gone; called wherever that happens."""
        with self._session.faults.guard("the models that train"):
            for followed in list(self._followed):
                followed.optimizers.discard(optimizer)
                if not followed.optimizers:
                    followed.undo.close()
                    self._followed.remove(followed)
            self._loop.model = self._followed[0].model if self._followed else None

    def close(self) -> None:
        """Forget all models."""
        for followed in self._followed:
            followed.undo.close()
        self._followed.clear()
        self._loop.model = None
