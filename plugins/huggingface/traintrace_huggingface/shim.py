"""The one patch that stays between runs: `Trainer.train` asks whose callback wants to see the run.

A callback never receives its Trainer, so the class's public `train` is where the two meet. The shim is
there while a callback object lives, and all callbacks share one, however many are made.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

from transformers import Trainer

from traintrace.patching import replace_attribute

_SHIM: Final = "__traintrace_shim__"


class Owner(Protocol):
    """A callback that can trace a `train()` call."""

    def trace(self, trainer: Any, train: Callable[[], Any]) -> Any:
        """Call `train`, traced if possible; give what it gives and raise what it raises."""

    def leave_if_over(self) -> None:
        """End the trace of a training that is no longer running."""


class _Shim:
    """The replacement of `Trainer.train` and the callbacks that it serves.

    Attributes:
        callbacks: The callbacks that live.
        everywhere: The callback that also traces Trainers which do not list one; None normally.
        removed: True once the last callback died and `Trainer.train` was put back.
    """

    def __init__(self) -> None:
        self.callbacks: weakref.WeakSet[Owner] = weakref.WeakSet()
        self.everywhere: Owner | None = None
        self.removed = False
        self._held = 0
        self._undo = replace_attribute(Trainer, "train", self._replacement(Trainer.train))

    def _replacement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def train(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            owner = self._owner_of(trainer)
            call = functools.partial(original, trainer, *args, **kwargs)
            return call() if owner is None else owner.trace(trainer, call)

        setattr(train, _SHIM, self)
        return train

    def _owner_of(self, trainer: Any) -> Owner | None:
        handler = getattr(trainer, "callback_handler", None)
        callbacks: list[object] = getattr(handler, "callbacks", [])
        for callback in callbacks:
            # By identity: a user's object may compare or hash as it likes.
            for own in self.callbacks:
                if own is callback:
                    return own
        return self.everywhere

    def hold(self, callback: Owner) -> None:
        self._held += 1
        self.callbacks.add(callback)
        weakref.finalize(callback, self._release).atexit = False

    def _release(self) -> None:
        self._held -= 1
        if not self._held:
            self.removed = True
            self._undo()


def hold_shim(callback: Owner) -> _Shim:
    """Keep the shim on `Trainer.train` for as long as `callback` lives."""
    while True:
        shim = getattr(Trainer.train, _SHIM, None)
        if not isinstance(shim, _Shim) or shim.removed:
            shim = _Shim()
        shim.hold(callback)
        if not shim.removed:  # else the garbage collector took its last callback a moment ago
            return shim


def leave_what_is_over() -> None:
    """Let no callback's ended training keep this thread from being traced."""
    shim = getattr(Trainer.train, _SHIM, None)
    for callback in list(shim.callbacks) if isinstance(shim, _Shim) else ():
        callback.leave_if_over()
