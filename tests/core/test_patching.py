"""Replacements are undone exactly, in whatever order."""

import itertools
import pickle
from collections.abc import Callable
from types import CellType
from typing import Any

import pytest

from traintrace.patching import replace_attribute, replace_content


class Base:
    def call(self) -> str:
        return "base"


def wrap(owner: Any) -> Callable[[], None]:
    below = owner.call

    def call(self: Any) -> str:
        return "+" + str(below(self))

    return replace_attribute(owner, "call", call)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("inherited", [False, True])
def test_three_replacements_leave_nothing_behind(order: tuple[int, ...], inherited: bool) -> None:
    class Owner(Base):
        if not inherited:

            def call(self) -> str:
                return "own"

    before = vars(Owner).get("call")
    undos = [wrap(Owner) for _ in range(3)]
    assert Owner().call().startswith("+++")
    for index in order:
        undos[index]()
    assert vars(Owner).get("call") is before
    assert ("call" in vars(Owner)) is not inherited


def told(func: Callable[[], str]) -> Callable[[], str]:
    def closure() -> str:
        return func()

    closure.__qualname__ = "greet"
    return closure


@told
def greet() -> str:
    return "hello"


def wrap_content(cell: CellType) -> Callable[[], None]:
    below = cell.cell_contents
    return replace_content(cell, lambda: "+" + below())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_closure_is_the_same_function_while_its_content_is_replaced(
    order: tuple[int, ...],
) -> None:
    (cell,) = greet.__closure__ or ()
    before, imported = cell.cell_contents, greet
    undos = [wrap_content(cell) for _ in range(3)]
    assert imported() == "+++hello"
    assert pickle.loads(pickle.dumps(greet)) is imported
    for index in order:
        undos[index]()
    assert cell.cell_contents is before
    assert imported() == "hello"


def test_undoing_twice_is_harmless() -> None:
    class Owner(Base):
        pass

    undo = wrap(Owner)
    undo()
    undo()
    assert "call" not in vars(Owner)


def test_what_somebody_else_put_over_ours_is_left_alone() -> None:
    class Owner(Base):
        pass

    undo = wrap(Owner)
    theirs = lambda self: "theirs"  # noqa: E731
    Owner.call = theirs  # type: ignore[method-assign]
    undo()
    assert vars(Owner)["call"] is theirs
