"""Replace an attribute or what a closure holds, and put it back exactly, in whatever order that is undone.

A replacement that is no longer the outermost when it is undone cannot be taken out of the middle. It
is marked as done, passes its calls through (its session records no more), and goes as soon as what
lies over it goes.
"""

from collections.abc import Callable
from types import CellType
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

    def read() -> Any:
        return vars(owner).get(name, _ABSENT)

    def write(value: Any) -> None:
        if value is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, value)

    return _replace(read, write, replacement)


def replace_content(cell: CellType, replacement: Callable[..., Any]) -> Callable[[], None]:
    """Let the closure that owns `cell` call `replacement`; give the function that undoes it.

    The closure itself stays the object that it is: it pickles, compares and is found as before, also
    by those who hold it already.
    """

    def read() -> Any:
        return cell.cell_contents

    def write(value: Any) -> None:
        cell.cell_contents = value

    return _replace(read, write, replacement)


def _replace(
    read: Callable[[], Any], write: Callable[[Any], None], replacement: Callable[..., Any]
) -> Callable[[], None]:
    setattr(replacement, _DONE, False)
    setattr(replacement, _BELOW, read())
    write(replacement)

    def undo() -> None:
        setattr(replacement, _DONE, True)
        outermost = read()
        while getattr(outermost, _DONE, False):
            outermost = getattr(outermost, _BELOW)
            write(outermost)

    return undo
