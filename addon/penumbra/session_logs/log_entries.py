"""This module describes conversations in session logs, and reads the lines of JSON in log files.

Each agent's format has a reader that makes `Entry` objects. A projection makes requests from these entries.
Logs of other programs may be broken, cut off or of any size. A line that is no JSON object or is too long is
counted and skipped. A member of an unexpected type counts as absent.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A `LoggedCall` is a call of a tool. `arguments` is a dict, or a text if the tool takes free text."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class LoggedResult:
    """A `LoggedResult` has the texts of a tool's output."""

    call_id: str
    texts: tuple[str, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class LoggedUsage:
    """A `LoggedUsage` has the tokens of one request by the provider's count."""

    input: int
    """Tokens of the whole prompt."""
    cached: int = 0
    """Tokens read from the provider's cache."""
    written: int = 0
    """Tokens written to the cache at a separate price."""


@dataclass(frozen=True, slots=True)
class LoggedResponse:
    key: str
    """Id of the response, the same in every log that repeats the response. If the id is empty, the entries up
    to the response identify it."""
    text: str = ""
    calls: tuple[LoggedCall, ...] = ()
    model: str = ""
    at: float = 0.0
    """Seconds since the epoch; 0 if not logged."""
    usage: LoggedUsage | None = None


@dataclass(frozen=True, slots=True)
class LoggedPrompt:
    """A `LoggedPrompt` is a text of the user, or the client's replacement for older history."""

    text: str


Entry = LoggedPrompt | LoggedResponse | LoggedResult


@dataclass(frozen=True, slots=True)
class LoggedConversation:
    """A `LoggedConversation` has entries in the order in which the model got them. The request of a response
    contains all entries before it."""

    agent: str
    entries: tuple[Entry, ...]

    @property
    def models(self) -> Iterator[str]:
        """Yield the models that responses name."""
        return (entry.model for entry in self.entries if isinstance(entry, LoggedResponse) and entry.model)


@dataclass(slots=True)
class Builder:
    """A `Builder` collects the entries of a conversation that is being read."""

    agent: str
    entries: list[Entry] = field(default_factory=list)

    def end(self, *beginning: Entry) -> Iterator[LoggedConversation]:
        """Yield the conversation if it has entries. Then begin another conversation with the entries in
        `beginning`."""
        if self.entries:
            yield LoggedConversation(self.agent, tuple(self.entries))
        self.entries = list(beginning)


def response_keys(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the identity of each response: the log's own key or else a hash of all entries so far. A session
    that was resumed or forked into another log begins with the same entries and has the same keys."""
    chain = hashlib.blake2b(digest_size=16)
    for entry in entries:
        chain.update(repr(_lasting(entry)).encode("utf-8", "surrogatepass"))
        if isinstance(entry, LoggedResponse):
            yield entry.key or chain.hexdigest()


def _lasting(entry: Entry) -> tuple[object, ...]:
    """Return the parts of an entry that stay the same when another log repeats the entry."""
    if isinstance(entry, LoggedResponse):
        return entry.text, [(call.id, call.name, call.arguments) for call in entry.calls]
    if isinstance(entry, LoggedResult):
        return entry.call_id, entry.texts
    return (entry.text,)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object; an empty object for other types."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict))


def text(value: Any) -> str:
    """Return the value if it is a string; an empty string for other types."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """Return the value if it is a count; 0 for other types."""
    return value if type(value) is int and value > 0 else 0


def seconds(value: Any) -> float:
    """Return the seconds of a time in ISO 8601 or in milliseconds since the epoch; 0 for other types."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return value / 1000
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else 0.0
    except (ValueError, OverflowError, OSError):
        return 0.0


def texts_of(content: Any) -> tuple[str, ...]:
    """Return the texts of a content that is a string or a list of blocks with a `text`."""
    if isinstance(content, str):
        return (content,)
    return tuple(block["text"] for block in objects_in(content) if isinstance(block.get("text"), str))


LONGEST_LINE = 32_000_000
"""Length in bytes of the longest line that is read."""
_LONGEST_FILE = 4 * LONGEST_LINE
"""The size in bytes of the largest file that is read as a whole."""
MOST_BYTES = 1_000_000_000
"""The greatest number of decompressed bytes that are read from one log."""
_PIECE = 1 << 20


@dataclass(slots=True)
class LogCounts:
    """A `LogCounts` counts the files and lines that were read, and those that could not be read."""

    files: int = 0
    lines: int = 0
    broken: int = 0
    """Lines, or rows of a database, that are no JSON object."""
    too_long: int = 0
    unreadable: int = 0
    cut: int = 0
    """Files that were read in part."""


def objects(path: Path, counts: LogCounts) -> Iterator[dict[str, Any]]:
    """Yield the objects of a log, in order. A `.json` file is one object. Raises OSError."""
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
    """Skip the remaining bytes of a line, and return the number of skipped bytes."""
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
