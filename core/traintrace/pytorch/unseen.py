"""Notice that a model trains without its calls being seen, say why, and follow its children instead.

`model.forward(x)`, or a method of the model's own, runs no `__call__`: such a step has a backward and
no forward, and its forward is not measured. Only the first backward passes are looked at: once calls
of the model were seen in three steps, or in three of them none, nothing of this is left.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from typing import Any, Final

import torch
from torch import nn

from traintrace.patching import replace_attribute
from traintrace.pytorch.graphs import graphs_exist, outside_graphs
from traintrace.session import Session

NOT_CALLED: Final = "model was not called through __call__"
INSIDE_GRAPH: Final = "model runs inside a compiled function (or was not called through __call__)"
# Steps without a forward before the children are followed; steps with one before nobody looks any more
# (the model may be called in an evaluation before training, and by another name in training).
PATIENCE_STEPS: Final = 3

Undo = Callable[[], None]


def watch_for_unseen_calls(
    session: Session,
    called_lately: Callable[[], bool],
    follow_children: Callable[[], Iterable[Undo]],
) -> Iterator[Undo]:
    """Install the watch; give what undoes it.

    Args:
        session: Where the reason is kept, and the user is told.
        called_lately: Says whether a call of the model was seen in this step or the one before.
        follow_children: Charges the calls of the model's children from now on; gives what undoes that.
    """
    watch = _Watch(session, called_lately, follow_children)
    for name in ("backward", "grad"):
        original = getattr(torch.autograd, name)
        watch.patches.append(replace_attribute(torch.autograd, name, _looking(watch, original)))
    yield watch.end


def callable_modules(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Give the modules that can be called: a list or dictionary of modules stands for its members."""
    found: list[nn.Module] = []
    for module in modules:
        is_container = isinstance(module, (nn.ModuleList, nn.ModuleDict))
        found += callable_modules(module.children()) if is_container else [module]
    return found


class _Watch:
    """What is known of the steps so far.

    Attributes:
        session: Whose steps are watched.
        patches: What takes the watch off.
    """

    def __init__(
        self,
        session: Session,
        called_lately: Callable[[], bool],
        follow_children: Callable[[], Iterable[Undo]],
    ) -> None:
        self.patches: list[Undo] = []
        self.session = session
        self._called_lately = called_lately
        self._follow_children = follow_children
        self._children: list[Undo] = []
        self._seen_steps: set[int] = set()
        self._unseen_steps: set[int] = set()

    def look(self) -> None:
        """A backward begins: note whether its step has had a call of the model."""
        session = self.session
        if self._called_lately():
            self._seen_steps.add(session.steps)
            # A step may run its first backward before the model's first call.
            if self._unseen_steps:
                session.unmeasured.pop("forward", None)
            if len(self._seen_steps) >= PATIENCE_STEPS:
                self._stop_looking()
            return
        has_graphs = graphs_exist()
        session.unmeasured["forward"] = INSIDE_GRAPH if has_graphs else NOT_CALLED
        self._unseen_steps.add(session.steps)
        if len(self._unseen_steps) < PATIENCE_STEPS:
            return
        self._stop_looking()
        if not has_graphs:  # a change of a class now would compile them again
            self._children.extend(self._follow_children())
            session.faults.warn(
                f"{PATIENCE_STEPS} steps had a backward and the {NOT_CALLED}; from step "
                f"{session.steps + 2} on calls of its direct children are forward too "
                "(if another model trains, name it)"
            )

    def _stop_looking(self) -> None:
        while self.patches:
            self.patches.pop()()

    def end(self) -> None:
        """Take off the watch and what it installed."""
        self._stop_looking()
        while self._children:
            self._children.pop()()


def _looking(watch: _Watch, original: Callable[..., Any]) -> Callable[..., Any]:
    session, is_compiling = watch.session, torch.compiler.is_compiling

    @outside_graphs
    @functools.wraps(original)
    def differentiate(*args: Any, **kwargs: Any) -> Any:
        # What lies over a patch that was taken off keeps it alive: then it only passes through.
        if watch.patches and not is_compiling() and get_ident() == session.journal.owner:
            with session.faults.guard("why no call of the model was seen"):
                watch.look()
        return original(*args, **kwargs)

    return differentiate
