"""Read values out of untrusted JSON: whatever is wrong is said with the field's full name."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_LARGEST = 1e50  # its fourth power is still a number


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and its place in the file, "" for the whole.

    Every method raises ValueError, naming the field, if the value is missing or of another kind.
    """

    place: str
    values: Mapping[str, object]

    def where(self, name: str) -> str:
        """Give the full name of a field."""
        return f"{self.place}.{name}" if self.place else name

    def has(self, name: str) -> bool:
        """Tell whether the field is there and not null."""
        return self.values.get(name) is not None

    def fields(self, name: str) -> "Fields":
        """Give the object in a field."""
        value = self._needed(name)
        if not isinstance(value, Mapping):
            raise self.wrong(name, f"{value!r} is no object")
        return Fields(self.where(name), value)

    def each(self) -> "Iterator[tuple[str, Fields]]":
        """Give the objects of an object that is keyed by names, one by one."""
        for name in self.values:
            yield name, self.fields(name)

    def many(self, name: str) -> "tuple[Fields, ...]":
        """Give the objects of a list."""
        value = self._needed(name)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self.wrong(name, f"{value!r} is no list")
        return tuple(
            Fields(self.where(name), {str(index): item}).fields(str(index))
            for index, item in enumerate(value)
        )

    def text(self, name: str) -> str:
        """Give a string without control characters."""
        value = self._needed(name)
        if not isinstance(value, str):
            raise self.wrong(name, f"{value!r} is no text")
        if not value.isprintable():
            raise self.wrong(name, f"{value!r} holds control characters")
        return value

    def number(self, name: str, *, least: float | None = None) -> float:
        """Give a finite number that is at least `least`."""
        return self._finite(name, self._needed(name), least)

    def maybe_number(self, name: str, *, least: float | None = None) -> float | None:
        """Give a finite number, None for null or a field that is not there."""
        return self.number(name, least=least) if self.has(name) else None

    def positive(self, name: str) -> float:
        """Give a finite number above zero."""
        value = self.number(name)
        if value <= 0.0:
            raise self.wrong(name, f"{value!r} must be positive")
        return value

    def count(self, name: str, *, least: int = 0) -> int:
        """Give a whole number that is at least `least`."""
        value = self.number(name, least=least)
        if value != int(value):
            raise self.wrong(name, f"{value!r} is no whole number")
        return int(value)

    def numbers(self, name: str, *, least: float | None = None) -> tuple[float, ...]:
        """Give a list of finite numbers."""
        value = self._needed(name)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self.wrong(name, f"{value!r} is no list")
        return tuple(self._finite(f"{name}.{index}", one, least) for index, one in enumerate(value))

    def scalar(self, name: str) -> str | int | float | bool | None:
        """Give text, a number, a truth value, or None where there is none of them."""
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(name)
        number = self.number(name)
        return int(number) if isinstance(value, int) else number

    def wrong(self, name: str, what: str) -> ValueError:
        """Make the error that names the field."""
        return ValueError(f"{self.where(name)}: {what}")

    def _needed(self, name: str) -> object:
        value = self.values.get(name)
        if value is None:
            raise self.wrong(name, "null, but needed" if name in self.values else "missing")
        return value

    def _finite(self, name: str, value: object, least: float | None) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, f"{value!r} is no number")
        try:
            number = float(value)
        except OverflowError:
            raise self.wrong(name, "the number is too large") from None
        if not math.isfinite(number):
            raise self.wrong(name, f"{value!r} is not finite")
        if abs(number) > _LARGEST:
            raise self.wrong(name, f"{number:g} is too large")
        if least is not None and number < least:
            raise self.wrong(name, f"{value!r} is less than {least:g}")
        return number
