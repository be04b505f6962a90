"""JSON values one after the other out of a file that is too large to hold, and as far as it is sound.

The standard library's decoder does the work; this only feeds it. Numbers with a fraction stay text, since a binary
float cannot hold a nanosecond of an epoch.
"""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Final

# One value; an event is some hundred bytes, the longest header of a trace some hundred kilobytes.
LARGEST_VALUE: Final = 16 * 2**20
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_BETWEEN: Final = re.compile(r"[ \t\r\n,]*")
_decode: Final = json.JSONDecoder(
    parse_float=str, parse_constant=lambda _: None, strict=False
).raw_decode


class DamagedError(Exception):
    """The text ends, or is no JSON, at a place; the message says which."""


class JsonStream:
    """Walks through one JSON text.

    Args:
        chunks: The text's bytes; broken UTF-8 becomes replacement characters.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._text, self._at, self._before = "", 0, 0
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")

    def peek(self) -> str:
        """Give the next character that is no blank, and stay there; "" at the end."""
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches always
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, expected: str) -> None:
        """Go past one character.

        Raises:
            DamagedError: Another one stands there.
        """
        found = self.peek()
        if found != expected:
            raise DamagedError(f"{self._told(found)} where {expected!r} belongs")
        self._at += 1

    def value(self) -> object:
        """Read the value that begins here.

        Raises:
            DamagedError: There is none, or it does not end.
        """
        self.peek()
        wanted = 1
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except RecursionError:
                raise DamagedError(f"{self._told('')} nested too deeply") from None
            except ValueError as error:  # a number too long for Python is one, too
                if not self._grow(wanted):
                    raise DamagedError(self._told_of(error)) from None
                wanted *= 2
                continue
            # A number that touches the end of what was read may go on.
            if end == len(self._text) and not isinstance(value, (dict, list, str)) and self._more():
                continue
            self._at = end
            return value

    def items(self) -> Iterator[object]:
        """Read the values of the array that begins here; its end may be missing, as the format allows.

        Raises:
            DamagedError: A value is cut or is no JSON; all before it were given.
        """
        self.take("[")
        while True:
            text, at = self._text, self._at
            while True:  # the fast path: values that are whole in what was read
                at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # matches always
                if at >= len(text) or text[at] != "{":
                    break
                try:
                    value, at = _decode(text, at)
                except (ValueError, RecursionError):
                    break
                yield value
            self._at = at
            found = self.peek()
            if found == "]":
                self._at += 1
                return
            if not found:
                raise DamagedError(self._told(""))
            if found == ",":
                self._at += 1
                continue
            yield self.value()

    def _grow(self, chunks: int) -> bool:
        """Read on while a value stays within bounds; False if there is nothing more."""
        if len(self._text) - self._at > LARGEST_VALUE:
            return False
        return any([self._more() for _ in range(chunks)])

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._before += self._at
        self._text, self._at = self._text[self._at :] + self._utf8.decode(chunk), 0
        return True

    def _told_of(self, error: ValueError) -> str:
        """Say whether a value is cut, or is no JSON."""
        if isinstance(error, json.JSONDecodeError):
            is_cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text)
            return self._told("" if is_cut else "no JSON")
        return self._told("a number too long")

    def _told(self, found: str) -> str:
        """Say where it is and what stands there."""
        place = f"at character {self._before + self._at:,}"
        return f"it ends {place}" if not found else f"{found!r} {place}"
