"""A column of integers in which any may be missing, eight bytes each."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

MISSING: Final = -(2**63)
"""Stands for None in `Column.values`; no duration, moment or size comes near it."""


class Column(Sequence["int | None"]):
    """A read-only sequence of `int | None`, as compact as the numbers themselves.

    A thousand ranks have tens of millions of values, for which Python's own integers take gigabytes.

    Attributes:
        values: The numbers, `MISSING` for None; NumPy reads them without copying.
    """

    __slots__ = ("values",)

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.values = array("q", values)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> int | None: ...
    @overload
    def __getitem__(self, index: slice) -> "Column": ...
    def __getitem__(self, index: int | slice) -> "int | Column | None":
        if isinstance(index, slice):
            return Column(self.values[index])
        value = self.values[index]
        return None if value == MISSING else value

    def __iter__(self) -> Iterator[int | None]:
        return (None if value == MISSING else value for value in self.values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Column):
            return self.values == other.values
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it is equal to a list, which has none

    def __repr__(self) -> str:
        return f"Column({list(self)!r})"
