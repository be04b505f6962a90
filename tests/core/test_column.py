"""A column of a rank's file: compact, and equal to the list it stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traintrace.store.column import MISSING, Column

VALUES = st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 1))


def column(values: list[int | None]) -> Column:
    return Column(MISSING if value is None else value for value in values)


@given(VALUES)
def test_a_column_reads_as_its_list(values: list[int | None]) -> None:
    made = column(values)
    assert made == values
    assert list(made) == values
    assert len(made) == len(values)
    assert made[1:] == values[1:]
    assert list(reversed(made)) == values[::-1]
    assert made == column(values)


@given(VALUES, VALUES)
def test_columns_are_equal_only_if_their_lists_are(
    one: list[int | None], other: list[int | None]
) -> None:
    assert (column(one) == column(other)) == (one == other)
    assert (column(one) == other) == (one == other)


def test_a_number_takes_eight_bytes() -> None:
    assert Column(range(1000)).values.itemsize == 8


def test_what_is_no_64_bit_integer_is_refused() -> None:
    with pytest.raises(TypeError):
        Column([1.5])  # type: ignore[list-item]
    with pytest.raises(OverflowError):
        Column([2**63])
