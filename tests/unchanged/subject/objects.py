"""The attributes of the user's objects and of all that they hold."""

from collections import deque
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import torch

from tests.unchanged.subject.patches import OURS, is_ours

_DEPTH: Final = 6
_LEAVES: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_PARAMETER_HOOKS: Final = ("_backward_hooks", "_post_accumulate_grad_hooks")


def shapes(roots: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Give, by path, the attributes of each object that the roots reach, and what each of them is.

    The callback that the user added to be traced is left out of the lists that hold it.
    """
    found: dict[str, dict[str, str]] = {}
    seen: set[int] = set()
    queue = deque((name, value, 0) for name, value in roots.items())
    while queue:
        path, value, depth = queue.popleft()
        if id(value) in seen or isinstance(value, _LEAVES):
            continue
        seen.add(id(value))
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            found[path] = {str(name): _kind(each) for name, each in sorted(own.items())}
        if isinstance(value, torch.Tensor):
            found[path] = {name: str(getattr(value, name)) for name in _PARAMETER_HOOKS}
        elif depth < _DEPTH:
            parts = own.items() if isinstance(own, dict) else ()
            queue.extend((f"{path}.{name}", each, depth + 1) for name, each in parts)
            queue.extend((f"{path}[{key}]", each, depth + 1) for key, each in _elements(value))
    return found


def ours(roots: Mapping[str, Any]) -> list[str]:
    """Name the attributes of the user's objects that hold something of ours."""
    return [
        f"{path}.{name}: {kind}"
        for path, attributes in shapes(roots).items()
        for name, kind in attributes.items()
        if "OURS" in kind
    ]


def _elements(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from [(k if isinstance(k, (str, int)) else type(k), v) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        yield from enumerate(_not_the_tracer(value))


def _not_the_tracer(values: Any) -> list[Any]:
    return [each for each in values if not type(each).__module__.startswith(OURS)]


def _kind(value: Any) -> str:
    mark = " OURS" if is_ours(value) else ""
    kind = f"{type(value).__module__}.{type(value).__qualname__}{mark}"
    if isinstance(value, (list, tuple)):
        return f"{kind} of {len(_not_the_tracer(value))}"
    if isinstance(value, (dict, set, deque)):
        return f"{kind} of {len(value)}"
    return f"{kind} {value.__qualname__}" if isinstance(value, _LEAVES[2:]) else kind
