"""Results that a later one has made useless: the same call again, or a file that was written since.

Calls are grouped by tool and by the values of identifying arguments; the latest result of a group stays
whole, older ones are superseded. By default all arguments identify a call, so that calls that differ in
anything stay apart; `tool_only` puts all calls of a tool into one group unless fields are named for it.
The unread tail, failed later results, and tools that are excluded supersede nothing and are not touched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penumbra.compress.calls.classify import classify
from penumbra.compress.calls.tools import one_spelling, tool_rules
from penumbra.compress.critical_lines import critical_lines
from penumbra.compress.size import encode, size
from penumbra.config.parsers import ToolCompaction
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode
from penumbra.wire.json_values import encode as encode_json

OMITTED = "[omitted]"
META = "_tool_compaction"
TOOL_ONLY = "__tool_only__"
_OUTCOME_LINES = 6
_OUTCOME_CHARACTERS = 300
_RUNS = ("bash", "other")
_LONG = 200
"""Characters of a group's name above which a hash stands for it."""


@dataclass(frozen=True, slots=True)
class CallIdentity:
    """A call, as far as superseding goes."""

    group: str
    """The key that calls share which supersede each other."""
    category: str
    path: str
    """The file that is read or written, in the spelling that is compared; empty if none is known."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result text with the call that it answers."""

    index: int
    call_id: str
    tool: str
    arguments: Any
    is_error: bool
    unread: bool


def identify(tool: str, arguments: Any, parameters: ToolCompaction) -> CallIdentity:
    """The identity of a call; `arguments` decoded."""
    call = classify(tool, arguments)
    named = group(tool, arguments, parameters)
    if len(named) > _LONG:
        named = f"{tool}|{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return CallIdentity(named, call.category, one_spelling(call.path))


def find(results: Sequence[Result], parameters: ToolCompaction) -> dict[int, str]:
    """Index of each superseded text, with the id of the call that superseded it.

    Several texts of one call count as one result. Pure; order and number of results do not change.
    """
    usable = [result for result in results if result.tool and result.call_id]
    latest: dict[str, str] = {}
    written: dict[str, str] = {}
    reasons: dict[int, str] = {}
    for result in reversed(usable):
        if result.tool in parameters.excluded_tools:
            continue
        call = identify(result.tool, result.arguments, parameters)
        newer = latest.get(call.group)
        if newer is None and parameters.stale_reads and call.category == "read" and call.path:
            newer = written.get(call.path)
        if (
            newer is not None
            and newer != result.call_id
            and not result.unread
            and call.category not in _WRITES
        ):
            reasons[result.index] = newer
        if result.is_error:
            continue
        latest.setdefault(call.group, result.call_id)
        if call.path and call.category in _WRITES:
            written.setdefault(call.path, result.call_id)
    return reasons


_WRITES = ("edit", "write")


def group(tool: str, arguments: Any, parameters: ToolCompaction) -> str:
    """The key that calls share which supersede each other."""
    fields = parameters.tool_identifier_fields.get(tool)
    if fields is None:
        identity = TOOL_ONLY if parameters.tool_only else _canonical(_spelled_alike(arguments))
        return f"{tool}|{identity}"
    given = _spelled_alike(arguments) if isinstance(arguments, Mapping) else {}
    return f"{tool}|" + "&".join(f"{name}=>{_canonical(given.get(name))}" for name in fields)


def _spelled_alike(arguments: Any) -> Any:
    """The arguments with their paths in the spelling that is compared."""
    if not isinstance(arguments, Mapping):
        return arguments
    paths = {key: arguments[key] for key in tool_rules().arguments.path if key in arguments}
    return {**arguments, **{key: one_spelling(path) for key, path in paths.items() if isinstance(path, str)}}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def writers(results: Sequence[Result]) -> frozenset[str]:
    """Return the ids of the calls that wrote a file."""
    calls = ((result.call_id, classify(result.tool, result.arguments)) for result in results)
    return frozenset(call_id for call_id, call in calls if call.category in _WRITES)


def form(
    text: str,
    tool: str,
    call_id: str,
    newer: str,
    category: str,
    parameters: ToolCompaction,
    *,
    written: bool = False,
) -> str | None:
    """The form of a superseded result; None if that would not be smaller.

    A JSON object keeps its keys; of all else, what says how a command ended stays. `written`: the newer
    call wrote the file that was read, and its result does not show it.
    """
    members = _members(text)
    if members is not None:
        trimmed = trim(members, parameters.output_trim_bytes)
        made = None if trimmed is None else encode_json(trimmed).decode("utf-8")
    else:
        names = f"tool={tool}, callId={call_id}"
        lines = [
            f"[tool_compaction] Tool result compacted for {names}. Large fields omitted.",
            f"[{'The file was written later' if written else 'A later result takes its place'}: {newer}]",
        ]
        made = "\n".join(lines + (_outcome(text) if category in _RUNS else []))
    return made if made is not None and size(made) < size(text) else None


def _outcome(text: str) -> list[str]:
    """The lines that tell how a command or a test run ended: the first ones and the last ones."""
    lines = text.split("\n")
    chosen = [position for position in critical_lines(lines) if len(lines[position]) <= _OUTCOME_CHARACTERS]
    half = _OUTCOME_LINES // 2
    if len(chosen) > _OUTCOME_LINES:
        chosen = chosen[:half] + chosen[-half:]
    final = next((n for n in range(len(lines) - 1, -1, -1) if lines[n].strip()), None)
    if final is not None and final not in chosen and len(lines[final]) <= _OUTCOME_CHARACTERS:
        chosen.append(final)
    return [lines[position] for position in chosen]


def _members(text: str) -> dict[str, Any] | None:
    if text.lstrip()[:1] != "{":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _survives(text, value) else None


def _survives(text: str, value: dict[str, Any]) -> bool:
    """True if writing the members again loses nothing: numbers keep their value, keys are unique."""
    try:
        return bool(decode(encode_json(value)) == value) and META not in value
    except ValueError:
        return False


def trim(members: Mapping[str, Any], limit: int, keep: Sequence[str] = ()) -> dict[str, Any] | None:
    """The members with those above `limit` bytes omitted; None if none is, or if nothing gets smaller.

    `keep`: keys that stay whatever their size.
    """
    if META in members:
        return None
    omitted: dict[str, Any] = {}
    result = dict(members)
    for key, value in members.items():
        if key in keep or (measured := _size(value)) <= limit:
            continue
        digest = hashlib.sha256(encode_json(value)).hexdigest()
        omitted[key] = {"bytes": measured, "sha256": digest}
        result[key] = OMITTED
    if not omitted:
        return None
    result[META] = {"thresholdBytes": limit, "omittedFields": omitted}
    return result if len(encode_json(result)) < len(encode_json(dict(members))) else None


def _size(value: Any) -> int:
    """Bytes of a text itself, of a number or truth value its text, of all else its JSON."""
    if isinstance(value, str):
        return len(encode(value))
    return len(encode_json(value)) if value is not None else 0


def older(results: Sequence[Result], parameters: ToolCompaction) -> list[int]:
    """Index of the first text of each call whose arguments a later call of its group has made useless.

    Only where the parameters ask for it. A failed call makes nothing useless, and calls whose results
    are unread stay as they are.
    """
    if not parameters.arguments:
        return []
    latest: dict[str, str] = {}
    newest: dict[str, int] = {}
    for result in reversed(results):
        if not result.tool or not result.call_id or result.tool in parameters.excluded_tools:
            continue
        named = identify(result.tool, result.arguments, parameters).group
        if latest.get(named, result.call_id) != result.call_id and not result.unread:
            newest[result.call_id] = result.index
        if not result.is_error:
            latest.setdefault(named, result.call_id)
    return sorted(newest.values())


_PLACEHOLDERS = {b'"': encode_json(OMITTED), b"[": b"[]", b"{": b"{}"}
"""Replacements of values by type, so that the arguments still fit their schema."""


def trimmed(arguments: bytes, limit: int, keep: Sequence[str] = (), ref: str = "") -> bytes | None:
    """The arguments of a call, JSON, without the values above `limit` bytes; None if nothing gets smaller.

    The remaining parts keep their bytes. `keep`: keys that stay whatever their size; `ref`: how the model can
    ask for all of it.
    """
    try:
        document = Document(arguments)
    except NotJson:
        return None
    omitted: dict[str, Any] = {}
    members = document.members(document.root)
    for key, value in members.items():
        placeholder = _PLACEHOLDERS.get(document.source(value)[:1])
        plain = document.plain(value)
        if key in keep or placeholder is None or (measured := _size(plain)) <= limit:
            continue
        omitted[key] = {"bytes": measured, "sha256": hashlib.sha256(encode_json(plain)).hexdigest()}
        document.rewrite(value, placeholder)
    if not omitted or META in members:
        return None
    account = {"thresholdBytes": limit, "omittedFields": omitted, **({"shadow": ref} if ref else {})}
    document.add_member(document.root, META, encode_json(account))
    made = document.render()
    return made if len(made) < len(arguments) else None
