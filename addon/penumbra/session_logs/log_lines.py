"""The lines of a log, one JSON object each: plain, or compressed with zstd. Bounded in every direction.

Logs are other programs' files, which may be broken, cut off or of any size. A line that is no JSON object,
or longer than any that is of use, is counted and passed over.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard

LONGEST_LINE = 32_000_000
"""Bytes. Clients bound a result at a fraction of it; images and copies of files make longer lines."""
_LONGEST_FILE = 4 * LONGEST_LINE
"""Of one that is read as a whole."""
MOST_BYTES = 1_000_000_000
"""Plain bytes of one log; what stands behind them is left unread."""
_PIECE = 1 << 20


@dataclass(slots=True)
class LogCounts:
    """What was read of logs, and what was not."""

    files: int = 0
    lines: int = 0
    broken: int = 0
    """Lines, or records of a database, that are not what the format has."""
    too_long: int = 0
    unreadable: int = 0
    """Files."""
    cut: int = 0
    """Files of which only the beginning was read."""


def objects(path: Path, counts: LogCounts) -> Iterator[dict[str, Any]]:
    """The objects of a log, in order; a `.json` is one. Raises OSError."""
    with path.open("rb") as file:
        if path.suffix == ".json":
            yield from _whole(file, counts)
            return
        yield from _objects(_plain(path, file), counts)


def _plain(path: Path, file: IO[bytes]) -> IO[bytes]:
    if path.suffix != ".zst":
        return file
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)
    return io.BufferedReader(reader, _PIECE)


def _objects(file: IO[bytes], counts: LogCounts) -> Iterator[dict[str, Any]]:
    left = MOST_BYTES
    try:
        while line := file.readline(LONGEST_LINE):
            left -= len(line)
            if left < 0:
                counts.cut += 1
                return
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                counts.too_long += 1
                left -= _pass_over(file, left)
            elif line.strip():
                counts.lines += 1
                if (value := _object(line)) is None:
                    counts.broken += 1
                else:
                    yield value
    except zstandard.ZstdError:
        counts.cut += 1


def _pass_over(file: IO[bytes], most: int) -> int:
    """Read up to the end of a line; how many bytes that took."""
    passed = 0
    while passed <= most and (piece := file.readline(_PIECE)):
        passed += len(piece)
        if piece.endswith(b"\n"):
            break
    return passed


def _whole(file: IO[bytes], counts: LogCounts) -> Iterator[dict[str, Any]]:
    content = file.read(_LONGEST_FILE + 1)
    if len(content) > _LONGEST_FILE:
        counts.too_long += 1
        return
    counts.lines += 1
    if (value := _object(content)) is None:
        counts.broken += 1
    else:
        yield value


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
