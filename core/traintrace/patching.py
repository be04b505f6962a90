"""Replace an attribute and put it back exactly, whatever order several replacements are undone in.

A replacement that is no longer the outermost when it is undone cannot be taken out of the middle. It
is marked as done, passes its calls through (its session records no more), and goes as soon as what
lies over it goes.
"""

from collections.abc import Callable
from typing import Any, Final

_DONE: Final = "__traintrace_done__"
_BELOW: Final = "__traintrace_below__"
_ABSENT: Final = object()


def replace_attribute(owner: Any, name: str, replacement: Callable[..., Any]) -> Callable[[], None]:
    """Set `owner.name` to `replacement`; give the function that undoes it.

    Args:
        owner: A module, a class or an instance with a `__dict__`; only its own attributes change.
        name: The attribute.
        replacement: A Python function made for this one call.
    """
    setattr(replacement, _DONE, False)
    setattr(replacement, _BELOW, vars(owner).get(name, _ABSENT))
    setattr(owner, name, replacement)

    def undo() -> None:
        setattr(replacement, _DONE, True)
        outermost = vars(owner).get(name, _ABSENT)
        while getattr(outermost, _DONE, False):
            outermost = getattr(outermost, _BELOW)
            if outermost is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, outermost)

    return undo
