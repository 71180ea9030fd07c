"""This module reads the sessions of OpenCode from its SQLite database.

The database is `opencode.db`, or `opencode-<channel>.db`, in `$XDG_DATA_HOME/opencode`
(`~/.local/share/opencode`). Its tables are those of packages/opencode/src/session/session.sql.ts: `message`
and `part`, each with `id`, `session_id` and a JSON `data`. Later rows have greater ids.

    message  {"role": "user" | "assistant", "modelID", "summary", "time": {"created", "completed"}, "tokens"}
    part     {"type": "text", "text"}
             {"type": "tool", "callID", "tool", "state": {"status", "input", "output"}}
             {"type": "step-start"}
             {"type": "step-finish", "tokens": {"input", "cache": {"read", "write"}}}

A step is a request. `tokens.input` counts the tokens that were not in the cache. If a message of the model
has `summary`, the message replaces the history before it. The database is opened read-only and without a
lock. If the journal (`-wal`) has rows, the database and the journal are copied first, since SQLite writes
files beside a journal that it reads.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import orjson

from penumbra.session_logs import log_entries as log
from penumbra.session_logs.log_entries import mapping, seconds, text, whole

NAME = "opencode"
PATTERNS = ("**/opencode.db", "**/opencode-*.db")
_COPIES = 3
"""The greatest number of attempts to copy the database while another process writes to it."""
_MAGIC = b"SQLite format 3\0"


def roots(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    yield Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share").expanduser() / "opencode"


def is_first(value: Mapping[str, Any]) -> bool:
    """Return False, since OpenCode's sessions are in a database."""
    return False


def is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read(path: Path, counts: log.LogCounts) -> Iterator[log.LoggedConversation]:
    try:
        # The database is not locked, so rows that another process writes during the reading may be missing.
        with _unchanging(path) as place, closing(sqlite3.connect(place, uri=True)) as database:
            sessions = database.execute(
                "SELECT DISTINCT session_id FROM message ORDER BY session_id"
            ).fetchall()
            for (session,) in sessions:
                yield from _session(database, session, counts)
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from None


@contextmanager
def _unchanging(path: Path) -> Iterator[str]:
    """Yield the URI of the database; if the journal has rows, the URI of a copy. Raises OSError."""
    journal = path.with_name(f"{path.name}-wal")
    if not journal.is_file() or not journal.stat().st_size:
        yield f"file:{quote(str(path))}?mode=ro&immutable=1"
        return
    with TemporaryDirectory(prefix="penumbra-") as folder:
        copy = Path(folder) / "opencode.db"
        for _ in range(_COPIES):
            before = [(file.stat().st_mtime_ns, file.stat().st_size) for file in (path, journal)]
            shutil.copyfile(path, copy)
            shutil.copyfile(journal, f"{copy}-wal")
            if before == [(file.stat().st_mtime_ns, file.stat().st_size) for file in (path, journal)]:
                break
        yield f"file:{quote(str(copy))}"


def _session(
    database: sqlite3.Connection, session: Any, counts: log.LogCounts
) -> Iterator[log.LoggedConversation]:
    messages = dict(_rows(database, "SELECT id, length(data), data FROM message", session, counts))
    made = _Session(NAME)
    parts: dict[Any, list[Mapping[str, Any]]] = {}
    for id_, data in _rows(database, "SELECT message_id, length(data), data FROM part", session, counts):
        parts.setdefault(id_, []).append(data)
    for id_, message in messages.items():
        yield from made.add(message, parts.pop(id_, []))
    yield from made.end()


def _rows(
    database: sqlite3.Connection, select: str, session: Any, counts: log.LogCounts
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    bounded = select.replace(", data ", f", CASE WHEN length(data) <= {log.LONGEST_LINE} THEN data END ")
    for id_, length, data in database.execute(f"{bounded} WHERE session_id = ? ORDER BY id", (session,)):
        if data is None:
            counts.too_long += bool(length)
            continue
        counts.lines += 1
        try:
            value = orjson.loads(data)
        except (orjson.JSONDecodeError, TypeError):
            value = None
        if isinstance(value, dict):
            yield id_, value
        else:
            counts.broken += 1


@dataclass(slots=True)
class _Session(log.Builder):
    def add(
        self, message: Mapping[str, Any], parts: list[Mapping[str, Any]]
    ) -> Iterator[log.LoggedConversation]:
        if message.get("role") == "user":
            words = [text(part.get("text")) for part in parts if part.get("type") == "text"]
            self.entries.append(log.LoggedPrompt("\n".join(words)))
            return
        time = mapping(message.get("time"))
        at = seconds(time.get("completed")) or seconds(time.get("created"))
        empty = log.LoggedResponse("", model=text(message.get("modelID")), at=at)
        for response, results in _steps(parts, empty, _usage(mapping(message.get("tokens")))):
            self.entries += [response, *results]
        if message.get("summary") is True:
            summary = [entry.text for entry in self.entries[-1:] if isinstance(entry, log.LoggedResponse)]
            yield from self.end(*map(log.LoggedPrompt, summary))


def _steps(
    parts: list[Mapping[str, Any]], empty: log.LoggedResponse, usage: log.LoggedUsage | None
) -> Iterator[tuple[log.LoggedResponse, list[log.LoggedResult]]]:
    """Yield the requests of a message, each with the results of its calls. `usage` is the usage of the whole
    message."""
    steps: list[tuple[log.LoggedResponse, list[log.LoggedResult]]] = []
    for part in parts:
        kind = part.get("type")
        if kind == "step-start" or not steps:
            steps.append((empty, []))
        response, results = steps[-1]
        if kind == "text":
            words = "\n".join(filter(None, (response.text, text(part.get("text")))))
            response = replace(response, text=words)
        elif kind == "tool":
            call, result = _tool(part)
            response = replace(response, calls=(*response.calls, call))
            results += [result] if result is not None else []
        elif kind == "step-finish":
            response = replace(response, usage=_usage(mapping(part.get("tokens"))))
        steps[-1] = response, results
    if len(steps) == 1 and steps[0][0].usage is None:
        steps[0] = replace(steps[0][0], usage=usage), steps[0][1]
    yield from steps


def _tool(part: Mapping[str, Any]) -> tuple[log.LoggedCall, log.LoggedResult | None]:
    id_, state = text(part.get("callID")), mapping(part.get("state"))
    call = log.LoggedCall(id_, text(part.get("tool")), dict(mapping(state.get("input"))))
    if state.get("status") == "completed":
        return call, log.LoggedResult(id_, (text(state.get("output")),))
    if state.get("status") == "error":
        return call, log.LoggedResult(id_, (text(state.get("error")),), is_error=True)
    return call, None


def _usage(tokens: Mapping[str, Any]) -> log.LoggedUsage | None:
    cache = mapping(tokens.get("cache"))
    cached, written = whole(cache.get("read")), whole(cache.get("write"))
    total = whole(tokens.get("input")) + cached + written
    return log.LoggedUsage(total, cached, written) if total else None
