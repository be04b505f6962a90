"""Lightning lives under two names, `lightning.pytorch` and `pytorch_lightning`, with a Callback class each.

A Trainer takes only callbacks that derive from the class of its own name. `CallbackBase` therefore
derives from the Callback of every name that is loaded, and neither name is loaded for its sake.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

NAMES: Final = ("lightning.pytorch", "pytorch_lightning")
_ROOTS: Final = frozenset(name.partition(".")[0] for name in NAMES)
# The classes in which Lightning defines hooks that do nothing.
_HOOK_OWNERS: Final = (
    "Callback",
    "LightningModule",
    "LightningDataModule",
    "ModelHooks",
    "DataHooks",
    "CheckpointHooks",
)


class _NoCallback:
    """Stands for the Callback class as long as no name is loaded."""


class CallbackBase(_NoCallback):
    """Derives from the Callback class of each loaded name; see `adopt`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make the object; here and not in `__init__`, which a pickled callback never sees."""
        adopt(load=True)
        return super().__new__(cls)


def loaded() -> list[str]:
    """Give the names that are loaded, each with a Callback class."""
    return [name for name in NAMES if hasattr(sys.modules.get(name), "Callback")]


def adopt(*, load: bool = False) -> None:
    """Let `CallbackBase` derive from the Callback class of every name that is loaded.

    Args:
        load: If none is loaded, load the one that is installed.

    Raises:
        ImportError: Neither name is installed; the message says how to install one.
    """
    if not loaded() and load:
        import_module(_installed()[0])
    classes: list[type] = [sys.modules[name].Callback for name in loaded()]
    if classes and CallbackBase.__bases__ != tuple(classes):
        CallbackBase.__bases__ = tuple(classes)


def require() -> None:
    """Check that Lightning is installed under one of its names, without loading it.

    Raises:
        ImportError: It is not; the message says how to install it.
    """
    if not loaded():
        _installed()


def _installed() -> list[str]:
    found = [name for name in NAMES if _has_spec(name.partition(".")[0])]
    if not found:
        raise ImportError(
            "traintrace_lightning needs Lightning, under either of its names: "
            "`pip install lightning` (or `pip install pytorch-lightning`)"
        )
    return found


def _has_spec(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # an import hook forbids it; a stand-in without a spec
        return name in sys.modules


def framework_of(trainer: object) -> tuple[str, str]:
    """Give the top-level name and the version of the Lightning that `trainer` belongs to."""
    for cls in type(trainer).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in _ROOTS:
            return root, str(getattr(sys.modules.get(root), "__version__", "unknown"))
    return "lightning", "unknown"


def is_overridden(owner: object, hook: str) -> bool:
    """Say whether `owner` (a callback, a module, a data module) brings its own `hook`."""
    function = getattr(owner, hook, None)
    if not callable(function):
        return False
    root = str(getattr(function, "__module__", "")).partition(".")[0]
    defaults = {f"{cls}.{hook}" for cls in _HOOK_OWNERS}
    return root not in _ROOTS or getattr(function, "__qualname__", "") not in defaults


def is_lightnings_own(cls: type) -> bool:
    """Say whether `cls` is defined by Lightning itself."""
    return cls.__module__.partition(".")[0] in _ROOTS
