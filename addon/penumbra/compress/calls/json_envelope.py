"""This module finds outputs that are members of an agent's JSON: `{"output":"...","exit_code":0}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from penumbra import rules
from penumbra.compress.calls.tools import tool_rules

MAX_OUTPUTS = 16
"""The greatest number of outputs in one text. A text with more outputs is data."""
MAX_REST = 4_000
"""The greatest number of characters outside of the outputs. A text with more is data."""
_RAW = msgspec.json.Decoder(msgspec.Raw)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)


class Output(Struct, frozen=True):
    """An `Output` is one output within a JSON text."""

    start: int
    end: int
    """The offsets in the text, in characters, of the output's string with its quotes."""
    text: str
    asked: str
    """The command line or path that produced the output; empty if the JSON does not name it."""


def outputs(text: str) -> list[Output]:
    """Return the outputs in a JSON text, in order; empty if there are none, or if the text is data."""
    if text[:1] not in ("{", "[", " ", "\t", "\r", "\n"):
        return []
    body = text.strip(" \t\r\n")
    if body[:1] not in ("{", "[") or body[-1:] not in ("}", "]") or "\\" not in body:
        return []
    try:
        data = body.encode("utf-8", "surrogatepass")
        _RAW.decode(data)
        literals = list(_of_object(data, "") if data[:1] == b"{" else _of_list(data))
        placed = _placed(text, literals)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    rest = len(text) - sum(output.end - output.start for output in placed)
    return placed if 0 < len(placed) <= MAX_OUTPUTS and rest <= MAX_REST else []


def alone(text: str) -> str | None:
    """Return the output if a JSON text has one output, and only needless members beside it; otherwise
    None."""
    found = outputs(text)
    if len(found) != 1 or not found[0].text.strip():
        return None
    rest = text[: found[0].start] + text[found[0].end :]
    return found[0].text if _needless().fullmatch(rest.strip()) else None


@rules.cached
def _needless() -> re.Pattern[str]:
    return re.compile(tool_rules().envelopes.json.needless or r"(?!)")


def _of_list(data: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the outputs in a list of content blocks, or in a list of objects with a command or path."""
    items = [bytes(item) for item in _ITEMS.decode(data)[: MAX_OUTPUTS + 1]]
    for item in items:
        asked = _asked(item)
        if asked:
            yield from _of_object(item, asked)
    if all(map(_is_block, items)):
        yield from _of_blocks(items, "")


def _of_object(data: bytes, asked: str, inner: bool = True) -> Iterator[tuple[bytes, str]]:
    """Yield the outputs of an object and, if `inner`, of objects in it: `{"data":{"output":"..."}}`."""
    names = tool_rules().envelopes.json
    for key, raw in _MEMBERS.decode(data).items():
        value = bytes(raw)
        if key in names.outputs and value[:1] == b'"':
            yield value, asked
        elif key == names.blocks and value[:1] == b"[":
            yield from _of_blocks(map(bytes, _ITEMS.decode(value)[: MAX_OUTPUTS + 1]), asked)
        elif inner and value[:1] == b"{":
            yield from _of_object(value, asked, inner=False)


def _of_blocks(blocks: Iterable[bytes], asked: str) -> Iterator[tuple[bytes, str]]:
    name = tool_rules().envelopes.json.text
    for block in blocks:
        members = _MEMBERS.decode(block) if block[:1] == b"{" else {}
        text: Any = members.get(name)
        if text is not None and bytes(text)[:1] == b'"':
            yield bytes(text), asked


def _is_block(data: bytes) -> bool:
    """True if an object has the type of a content block: `{"type":"text","text":"..."}`."""
    members = _MEMBERS.decode(data) if data[:1] == b"{" else {}
    return "text" in members and bytes(members.get("type", b"")) == b'"text"'


def _asked(data: bytes) -> str:
    members = _MEMBERS.decode(data) if data[:1] == b"{" else {}
    for key in tool_rules().envelopes.json.asks:
        if key in members and bytes(members[key])[:1] == b'"':
            return _STRING.decode(bytes(members[key]))
    return ""


def _placed(text: str, literals: list[tuple[bytes, str]]) -> list[Output]:
    """Return the outputs with their offsets. Strings of one line and repeated strings are left out."""
    placed: list[Output] = []
    for literal, asked in literals:
        source = literal.decode("utf-8", "surrogatepass")
        start = text.find(source)
        inner = _STRING.decode(literal)
        if "\n" in inner and text.find(source, start + 1) < 0:
            placed.append(Output(start, start + len(source), inner, asked))
    return placed
