"""This module finds superseded results. A result is superseded if a later call repeats its call, or writes
the file that the result shows.

Calls with the same tool and the same identifying arguments are a group. The latest result of a group
supersedes the older results. A later write of the file can supersede even the latest read (`stale_reads`, on
by default). By default all arguments identify a call; the settings may name some of them for a tool. With
`tool_only`, the calls of a tool without named fields are one group. Unread results are never superseded,
failed results supersede no other result, and excluded tools are ignored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from penumbra.compress.calls.classify import classify
from penumbra.compress.calls.tools import one_spelling, tool_rules
from penumbra.config.parsers import ToolCompaction

_TOOL_ONLY = "__tool_only__"
_WRITES = ("edit", "write")
"""The categories of calls whose results only acknowledge a change. Such results are never superseded."""
_LONG = 200
"""If the name of a group has more characters than this, a hash replaces the arguments in the name."""


class Result(Struct, frozen=True):
    """A `Result` is one result text with the call that it answers."""

    call_id: str
    tool: str
    arguments: Any
    is_error: bool
    unread: bool


class Newer(Struct, frozen=True):
    """A `Newer` is the call that has superseded a result."""

    call_id: str
    category: str
    """The category of the superseded call."""
    repeats: bool
    """True if the newer call repeats the call; False if it wrote the file that the result shows."""
    writes: bool
    """True if the newer call wrote a file."""

    @property
    def of_result(self) -> bool:
        """Return whether the result itself is superseded, and not only its call's arguments."""
        return self.category not in _WRITES


def newer_calls(results: Sequence[Result], parameters: ToolCompaction) -> dict[int, Newer]:
    """Return the superseding call of each superseded result, and of each edit or write whose arguments alone
    are superseded. A call's texts count as one result."""
    latest: dict[str, tuple[str, bool]] = {}
    written: dict[str, str] = {}
    found: dict[int, Newer] = {}
    for index in range(len(results) - 1, -1, -1):
        result = results[index]
        if not (result.tool and result.call_id) or result.tool in parameters.excluded_tools:
            continue
        call = classify(result.tool, result.arguments)
        path, writes, named = one_spelling(call.path), call.category in _WRITES, group(result, parameters)
        newer = latest.get(named)
        repeats = newer is not None
        if newer is None and parameters.stale_reads and call.category == "read" and path in written:
            newer = written[path], True
        if newer is not None and newer[0] != result.call_id and not result.unread:
            found[index] = Newer(newer[0], call.category, repeats, newer[1])
        if result.is_error:
            continue
        latest.setdefault(named, (result.call_id, writes))
        if path and writes:
            written.setdefault(path, result.call_id)
    return found


def group(result: Result, parameters: ToolCompaction) -> str:
    """Return the name of a result's group. Later results of a group supersede earlier ones."""
    arguments = _spelled_alike(result.arguments)
    fields = parameters.tool_identifier_fields.get(result.tool)
    if fields is not None:
        arguments = arguments if isinstance(arguments, Mapping) else {}
        identity = "&".join(f"{name}=>{_canonical(arguments.get(name))}" for name in fields)
    else:
        identity = _TOOL_ONLY if parameters.tool_only else _canonical(arguments)
    named = f"{result.tool}|{identity}"
    if len(named) <= _LONG:
        return named
    return f"{result.tool}|{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _spelled_alike(arguments: Any) -> Any:
    """Return the arguments with one spelling for each path."""
    if not isinstance(arguments, Mapping):
        return arguments
    paths = {key: arguments[key] for key in tool_rules().arguments.path if key in arguments}
    return {**arguments, **{key: one_spelling(path) for key, path in paths.items() if isinstance(path, str)}}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
