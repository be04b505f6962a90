"""Find the models that optimizers train, among all that live: nobody hands them to us."""

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from traintrace.pytorch.optimizer import parameters_of


def find_models(optimizers: Iterable[Any]) -> list[tuple[nn.Module, Any]]:
    """Give each outermost module that holds a parameter of an optimizer, with that optimizer.

    The outermost one is a wrapper, where there is one: that is what a loop calls. Looks once through
    all objects (tens of milliseconds), and keeps none; what `gc.freeze` has hidden is not found.
    """
    kinds = set(_kinds(nn.Module))
    alive = [one for one in gc.get_objects() if type(one) in kinds]
    parents: dict[int, list[nn.Module]] = {}
    holders: dict[int, list[nn.Module]] = {}
    for module in alive:
        # Its own attributes: a user's module may answer for any name, or raise what it likes.
        held = vars(module)
        for child in (held.get("_modules") or {}).values():
            parents.setdefault(id(child), []).append(module)
        for parameter in (held.get("_parameters") or {}).values():
            holders.setdefault(id(parameter), []).append(module)
    found: list[tuple[nn.Module, Any]] = []
    for optimizer in optimizers:
        owners = [owner for one in parameters_of(optimizer) for owner in holders.get(id(one), ())]
        found += [(model, optimizer) for model in _outermost(owners, parents)]
    return found


def _kinds(kind: type[nn.Module]) -> Iterator[type[nn.Module]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _outermost(modules: list[nn.Module], parents: dict[int, list[nn.Module]]) -> list[nn.Module]:
    """Climb from `modules` to those that nothing holds; the one with the most below it comes first."""
    outermost: dict[int, nn.Module] = {}
    seen: set[int] = set()
    waiting = modules
    while waiting:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        above = parents.get(id(module), [])
        waiting += above
        if not above:
            outermost[id(module)] = module
    return sorted(outermost.values(), key=_size, reverse=True)


def _size(model: nn.Module) -> int:
    return sum(1 for _ in model.parameters())
