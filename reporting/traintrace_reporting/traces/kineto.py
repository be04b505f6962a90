"""A trace file of torch.profiler (Kineto's JSON, plain or gzip): read once, in bounded memory.

A profiler that was killed leaves a file that ends anywhere; what is before that is read, and the trace says so.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from traintrace.errors import RunReadError
from traintrace_analysis.traces import Trace
from traintrace_reporting.traces.columns import EventColumns
from traintrace_reporting.traces.json_stream import DamagedError, JsonStream

LARGEST_BYTES: Final = 500 * 2**20
_CHUNK: Final = 2**20
_GZIP: Final = b"\x1f\x8b"


def read_trace(path: Path, *, largest_bytes: int = LARGEST_BYTES) -> Trace:
    """Read one trace file.

    Args:
        path: The file; whether it is compressed shows in its first bytes.
        largest_bytes: At most so many bytes are read, after decompression; more is an error.

    Raises:
        RunReadError: The file is missing, too large, no trace, or holds nothing that can be used; the message
            names it.
    """
    reading = _Reading(path, largest_bytes)
    columns = EventColumns()
    head: dict[str, Any] = {}
    damage = None
    try:
        _walk(JsonStream(reading.chunks()), columns, head)
    except DamagedError as error:
        damage = str(error)
    except OSError as error:
        raise RunReadError(f"{path}: cannot be read ({error})") from error
    damage = reading.damage or damage
    if not columns.seen:
        why = (
            "is empty"
            if not reading.read and not reading.damage
            else f"is no trace of torch.profiler ({damage or 'no events'})"
        )
        raise RunReadError(f"{path}: {why}")
    if not len(columns):
        also = f"; {damage}" if damage else ""
        raise RunReadError(
            f"{path}: holds no operator, kernel or named range of a profiler among its {columns.seen:,} "
            f"events{also}"
        )
    return columns.finish(path.name, head, damage)


def _walk(stream: JsonStream, columns: EventColumns, head: dict[str, Any]) -> None:
    """Go through the file: an array of events, or an object with one under "traceEvents"."""
    first = stream.peek()
    if first == "[":
        _take_events(stream, columns)
        return
    stream.take("{")
    while stream.peek() != "}":
        key = stream.value()
        stream.take(":")
        if key == "traceEvents" and stream.peek() == "[":
            _take_events(stream, columns)
        else:
            head[str(key)] = stream.value()
        if stream.peek() == ",":
            stream.take(",")


def _take_events(stream: JsonStream, columns: EventColumns) -> None:
    add = columns.add
    for event in stream.items():
        add(event)


class _Reading:
    """The bytes of a file, decompressed, up to a limit.

    Attributes:
        read: Bytes given so far. damage: where compressed data ended too early or are broken.
    """

    def __init__(self, path: Path, largest: int) -> None:
        self._path, self._largest = path, largest
        self.read = 0
        self.damage: str | None = None

    def chunks(self) -> Iterator[bytes]:
        """Give the bytes in pieces.

        Raises:
            RunReadError: There are more than allowed.
        """
        try:
            size = self._path.stat().st_size
            if self._path.is_dir():
                raise RunReadError(f"{self._path}: is a folder, not a trace file")
        except OSError as error:
            raise RunReadError(f"{self._path}: {error.strerror or error}") from error
        self._check(size)
        with open(self._path, "rb") as file:
            first = file.read(2)
            file.seek(0)
            pieces = iter(lambda: file.read(_CHUNK), b"")
            for piece in self._unzipped(pieces) if first == _GZIP else pieces:
                self.read += len(piece)
                self._check(self.read)
                yield piece

    def _unzipped(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Decompress piece by piece, so that a small file that unpacks to a huge one is stopped in time."""
        unpacker, inside = zlib.decompressobj(wbits=31), False
        for piece in pieces:
            rest, unpacked = piece, b""
            while rest or len(unpacked) == _CHUNK:
                if unpacker.eof:  # another member follows
                    unpacker = zlib.decompressobj(wbits=31)
                try:
                    unpacked = unpacker.decompress(rest, _CHUNK)
                except zlib.error as error:
                    self.damage = f"its compressed data are broken ({error})"
                    return
                inside = not unpacker.eof
                rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                if unpacked:
                    yield unpacked
        if inside:
            self.damage = "its compressed data end too early"

    def _check(self, size: int) -> None:
        if size > self._largest:
            raise RunReadError(
                f"{self._path}: larger than {self._largest / 2**20:.0f} MB, which is the most that is read of a "
                "trace; profile fewer steps, without stacks and shapes"
            )
