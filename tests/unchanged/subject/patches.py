"""Every function and class that loaded modules offer, so that what was replaced can be found."""

import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any, Final

_CALLABLES: Final = (
    *(FunctionType, BuiltinFunctionType, MethodDescriptorType, type),
    *(property, staticmethod, classmethod),
)
OURS: Final = "traintrace"

Attributes = dict[str, dict[str, Any]]


def attributes() -> Attributes:
    """Give the callable attributes of all loaded modules and of their classes, by owner and name.

    Containers that hold global hooks and handlers are in it too, as a copy of what they hold.
    """
    found: Attributes = {}
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType) and not name.startswith(OURS):
            found[name] = own = dict(_callables(vars(module)))
            for cls in own.values():
                if issubclass(type(cls), type) and str(cls.__module__) == name:
                    found[f"{name}.{cls.__qualname__}"] = dict(_callables(vars(cls)))
    return found


def _callables(namespace: Any) -> Iterator[tuple[str, Any]]:
    for name, value in list(namespace.items()):
        if name.startswith("__compiled_fn"):
            continue  # the compiler's, with a new name in each process
        # By type: asking some objects for their class warns, or imports it.
        if issubclass(type(value), _CALLABLES):
            yield name, value
        elif "hook" in name and issubclass(type(value), (dict, list, set)):
            yield name, [str(each) for each in value]


def changes(before: Attributes, after: Attributes) -> list[str]:
    """Name what was replaced, added or taken away in owners that were there before."""
    found = []
    for owner, old in before.items():
        new = after.get(owner, {})
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) is not new.get(name) and old.get(name) != new.get(name):
                verb = "replaced" if name in old and name in new else "added or removed"
                found.append(f"{owner}.{name} {verb}")
    return sorted(found)


def ours(after: Attributes) -> list[str]:
    """Name every attribute of other people's modules and classes that is defined by us."""
    return sorted(
        f"{owner}.{name}"
        for owner, namespace in after.items()
        for name, value in namespace.items()
        if is_ours(value)
    )


def is_ours(value: Any) -> bool:
    """Say whether `value` is a function, a class or an object of ours, wherever it claims to be from."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, type):
        return str(value.__module__).startswith(OURS)  # some have a property there
    code = getattr(value, "__code__", None)
    file = getattr(code, "co_filename", "")
    return f"/{OURS}" in file or str(type(value).__module__).startswith(OURS)
