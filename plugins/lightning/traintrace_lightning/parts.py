"""Which modules' calls are `forward`: the parts of the user's module, or what is inside a part.

A part may be used without being called: `self.vae.encode(x)` calls the encoder inside it. Tracing every
module of a deep model would cost a third of a microsecond at each inner call, so only parts that no
step has called are looked into, one level after each of the first steps.

Until that search is over, a step may call more than is traced. Its calls are charged only if its first
one settles that nothing is left to look for; else its forward is null, never a part of the truth.

At the start of an epoch a model may have grown, or a part been replaced: then the search goes on among
the new parts.
"""

import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from torch import nn

from traintrace.pytorch.forward import trace_forward, unwrap
from traintrace.pytorch.graphs import runs_compiled
from traintrace.recording.steps import StepCapture
from traintrace.session import Session

# So many levels below the module's own parts; an unused teacher need not be traced to its leaves.
_LEVELS: Final = 4


class TracedParts:
    """The modules of one fit whose calls are charged to `forward`.

    Attributes:
        searching: A step may still call more than is traced.
    """

    def __init__(self, session: Session, module: nn.Module) -> None:
        self._session = session
        self._module = module
        self._called: set[int] = set()
        # Held weakly: a part that the user replaces must leave memory when they expect it to.
        self._traced: list[weakref.ref[nn.Module]] = []
        self._at_first = 0  # so many of them are traced since `install`
        self._later = ExitStack()  # takes off what traces the others
        self._newest: list[nn.Module] = []
        self._levels = 0
        self.searching = True
        self._settled_by: StepCapture | None = None  # the last step of the search that made a call
        self._is_whole = False

    def install(self) -> None:
        """Trace the module and its parts."""
        self._newest = [self._module, *callable_parts(self._module)]
        self._trace(self._newest, self._session.undo)
        self._at_first = len(self._traced)
        self._session.undo.callback(self._later.close)

    def renew(self) -> None:
        """Trace what has become a part since this was called last, and go on searching in it."""
        known = set(map(id, self._parts(0)))
        new = [part for part in callable_parts(self._module) if id(part) not in known]
        if not new:
            return
        self._called.difference_update(map(id, new))  # of parts that are gone
        self._newest = [*self._newest, *new]
        self._levels, self.searching = 0, True
        # In one layer, however often parts come: each one costs every call of the same class.
        later = self._parts(self._at_first)
        del self._traced[self._at_first :]
        self._later.close()
        self._trace([*later, *new], self._later)

    def sees_all_of(self, capture: StepCapture) -> bool:
        """Say whether all the model's calls in the step of `capture` were charged."""
        return not self.searching or (self._settled_by is capture and self._is_whole)

    def look_inside(self) -> bool:
        """Trace what is inside the parts that were not called since they are traced.

        Returns:
            False if there is nothing new to trace: the search is over.
        """
        uncalled = [part for part in self._newest if self._may_be_used_uncalled(part)]
        inside = [inner for part in uncalled for inner in callable_parts(unwrap(part))]
        self._levels += 1
        self.searching = bool(inside) and self._levels <= _LEVELS
        self._newest = inside if self.searching else []
        self._trace(self._newest, self._later)
        return self.searching

    def hold_parameters(self) -> bool:
        """Say whether a module that holds parameters was called; a loss alone is not the model."""
        return any(self._was_called(part) and _has_parameters(part) for part in self._parts(0))

    def _parts(self, start: int) -> list[nn.Module]:
        """Give what is traced, from number `start` on, as far as it still exists."""
        parts = [reference() for reference in self._traced[start:]]
        return [part for part in parts if part is not None]

    def _trace(self, models: list[nn.Module], undo: ExitStack) -> None:
        if not models:
            return
        self._traced += map(weakref.ref, models)
        for undo_one in trace_forward(self._session.journal, models, passes=self._passes):
            undo.callback(undo_one)

    def _passes(self, module: nn.Module) -> bool:
        """Say whether a call is not to be charged, and note it during the search.

        DDP and FSDP send Lightning's `training_step` through the module's forward.
        """
        if module is self._module and _is_redirected(module):
            return True
        return self.searching and not self._charges(module)

    def _charges(self, module: nn.Module) -> bool:
        trainer: Any = self._module.trainer
        if not trainer.training:
            return False  # what an evaluation calls says nothing about the training step
        self._called.add(id(module))
        capture = self._session.capture
        if self._settled_by is not capture:
            self._settled_by, self._is_whole = capture, self._is_all(module)
        return self._is_whole

    def _is_all(self, first: nn.Module) -> bool:
        """Say whether a step whose first call is of `first` leaves nothing to look for."""
        if first is self._module:
            return True
        return _has_parameters(first) and not any(map(self._may_hide_calls, self._newest))

    def _may_hide_calls(self, part: nn.Module) -> bool:
        inside = callable_parts(unwrap(part))
        return self._may_be_used_uncalled(part) and next(inside, None) is not None

    def _was_called(self, part: nn.Module) -> bool:
        return id(unwrap(part)) in self._called

    def _may_be_used_uncalled(self, part: nn.Module) -> bool:
        # A call of the module itself holds the calls of its parts. A graph that is compiled later must
        # not find our seams in it.
        if part is self._module or id(self._module) in self._called:
            return False
        return not self._was_called(part) and not runs_compiled(part)


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def callable_parts(module: nn.Module) -> Iterator[nn.Module]:
    """Give the nearest descendants that can be called, metrics left out.

    Containers (ModuleList, ModuleDict) have no forward and are looked through.
    """
    for child in module.children():
        if any(base.__module__.partition(".")[0] == "torchmetrics" for base in type(child).__mro__):
            continue
        # A compiled module has its forward on the instance.
        if "forward" in vars(child) or type(child).forward is not nn.Module.forward:
            yield child
        else:
            yield from callable_parts(child)


def _is_redirected(module: nn.Module) -> bool:
    """Say whether this call carries Lightning's `training_step`."""
    return getattr(vars(module).get("forward"), "__name__", "") == "wrapped_forward"
