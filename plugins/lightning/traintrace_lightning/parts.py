"""Which modules' calls are `forward`: the parts of the user's module, or what is inside a part.

A part may be used without being called: `self.vae.encode(x)` calls the encoder inside it. Tracing every
module of a deep model would cost a third of a microsecond at each inner call, so only parts that no
step has called are looked into, one level after each of the first steps.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from torch import nn

from traintrace.journal import Journal
from traintrace.pytorch.forward import trace_forward, unwrap

# So many levels below the module's own parts; an unused teacher need not be traced to its leaves.
_LEVELS: Final = 4


class TracedParts:
    """The modules of one fit whose calls are charged to `forward`."""

    def __init__(self, journal: Journal, module: nn.Module, undo: ExitStack) -> None:
        self._journal = journal
        self._module = module
        self._undo = undo
        self._called: set[int] = set()
        self._parts: list[nn.Module] = []
        self._newest: list[nn.Module] = []
        self._levels = 0

    def install(self) -> None:
        """Trace the module and its parts."""
        self._trace([self._module, *callable_parts(self._module)])

    def look_inside(self) -> bool:
        """Trace what is inside the parts that were not called since they are traced.

        Returns:
            False if there is nothing new to trace.
        """
        uncalled = [part for part in self._newest if self._may_be_used_uncalled(part)]
        inside = [inner for part in uncalled for inner in callable_parts(unwrap(part))]
        self._levels += 1
        if not inside or self._levels > _LEVELS:
            return False
        self._trace(inside)
        return True

    def hold_parameters(self) -> bool:
        """Say whether a module that holds parameters was called; a loss alone is not the model."""
        return any(
            self._was_called(part) and next(part.parameters(), None) is not None
            for part in self._parts
        )

    def _trace(self, models: list[nn.Module]) -> None:
        self._newest = models
        self._parts += models
        for undo_one in trace_forward(self._journal, models, passes=self._passes):
            self._undo.callback(undo_one)

    def _passes(self, module: nn.Module) -> bool:
        """Note the call. DDP and FSDP send Lightning's `training_step` through the module's forward."""
        if module is self._module and _is_redirected(module):
            return True
        self._called.add(id(module))
        return False

    def _was_called(self, part: nn.Module) -> bool:
        return id(unwrap(part)) in self._called

    def _may_be_used_uncalled(self, part: nn.Module) -> bool:
        # A graph that is compiled later must not find our seams in it.
        return part is not self._module and not self._was_called(part) and not runs_compiled(part)


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


def runs_compiled(module: nn.Module) -> bool:
    """Say whether this module was compiled: wrapped by `torch.compile`, or in place."""
    in_place: Any = vars(module).get("_compiled_call_impl")
    # What a tracer puts there is no compiled call.
    is_ours = hasattr(in_place, "__traintrace_done__")
    return (in_place is not None and not is_ours) or type(module).__name__ == "OptimizedModule"


def _is_redirected(module: nn.Module) -> bool:
    """Say whether this call carries Lightning's `training_step`."""
    return getattr(vars(module).get("forward"), "__name__", "") == "wrapped_forward"
