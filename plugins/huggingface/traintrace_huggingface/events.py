"""The Trainer's events: what the time of foreign callbacks in them counts as, and what follows them."""

import functools
from collections.abc import Callable, Mapping
from threading import get_ident
from types import MappingProxyType
from typing import Any, Final

from traintrace.accounts import CALLBACKS, CHECKPOINT, EVALUATION, PREDICTION
from traintrace_huggingface.boundaries import Boundaries
from traintrace_huggingface.wrappers import Function, Wrapper

# What the time of foreign callbacks counts as; their time in other events lies in an account already.
EVENTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "on_train_begin": CALLBACKS,
        "on_epoch_begin": CALLBACKS,
        "on_step_begin": CALLBACKS,
        "on_pre_optimizer_step": CALLBACKS,
        "on_optimizer_step": CALLBACKS,
        "on_substep_end": CALLBACKS,
        "on_step_end": CALLBACKS,
        "on_epoch_end": CALLBACKS,
        "on_train_end": CALLBACKS,
        "on_save": CHECKPOINT,
    }
)
# Methods of the Trainer that are an account of their own, inside a step or between two.
APART: Final[Mapping[str, int]] = MappingProxyType(
    {
        "evaluate": EVALUATION,
        "predict": PREDICTION,
        "_save_checkpoint": CHECKPOINT,
        "save_model": CHECKPOINT,
    }
)
# Where the methods are defined whose time is the framework's own, or nothing: a callback that does not
# override an event, the default flow, progress bars, and ours.
_QUIET_MODULES: Final = (
    "transformers.trainer_callback",
    "transformers.utils.notebook",
    "traintrace_huggingface.callback",
)


def events(
    boundaries: Boundaries,
    handler: Any,
    after: Mapping[str, Callable[[], None]],
) -> Wrapper:
    """Charge what foreign callbacks do in an event, and draw the boundary that follows it.

    Args:
        boundaries: The state of this `train()`.
        handler: The Trainer's callback handler.
        after: What an event means once all callbacks have seen it, even if one of them raised: the
            update is made by then.
    """
    journal = boundaries.session.journal
    marks = {
        account: (journal.marker(account), journal.marker(~account))
        for account in set(EVENTS.values())
    }
    heard: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {}
    known: list[
        Any
    ] = []  # held, so that no other callback can get the identity of one that is gone
    identities: list[int] = []

    def listen() -> None:
        heard.clear()
        known[:] = handler.callbacks
        identities[:] = map(id, known)
        with boundaries.session.faults.guard("the time of other callbacks"):
            for event, account in EVENTS.items():
                if any(_listens(callback, event) for callback in handler.callbacks):
                    heard[event] = marks[account]

    def wrap(original: Function) -> Function:
        @functools.wraps(original)
        def call_event(event: str, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != journal.owner:
                return original(event, *args, **kwargs)
            if list(map(id, handler.callbacks)) != identities:
                listen()
            pair, then = heard.get(event), after.get(event)
            if pair is None and then is None:
                return original(event, *args, **kwargs)
            try:
                if pair is not None:
                    pair[0]()
                return original(event, *args, **kwargs)
            finally:
                if pair is not None:
                    pair[1]()
                if then is not None:
                    then()

        return call_event

    return wrap


def _listens(callback: Any, event: str) -> bool:
    return getattr(getattr(callback, event, None), "__module__", None) not in _QUIET_MODULES
