"""This module finds outputs that are members of an agent's JSON: `{"output":"...","exit_code":0}`.

The only output of such a JSON can be written as lines (`opened`), as an output within an envelope:

    {"output":
    first line
    second line
    ,"exit_code":0}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from penumbra import rules
from penumbra.compress.calls.classify import Call
from penumbra.compress.calls.envelope import Envelope, json_line
from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.size import exceeds

MAX_OUTPUTS = 16
"""The greatest number of outputs in one text. A text with more outputs is data."""
MAX_REST = 4_000
"""The greatest number of characters outside of the outputs. A text with more is data."""
_LEAST = 512
"""A shorter output, in characters, stays a string of its JSON."""
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


def outputs(text: str, *, of_file: bool = False) -> list[Output]:
    """Return the outputs in a JSON text, in order; empty if there are none, or if the text is data. With
    `of_file`, a member of any name may be an output."""
    if text[:1] not in ("{", "[", " ", "\t", "\r", "\n"):
        return []
    body = text.strip(" \t\r\n")
    if body[:1] not in ("{", "[") or body[-1:] not in ("}", "]") or "\\" not in body:
        return []
    try:
        data = body.encode("utf-8", "surrogatepass")
        _RAW.decode(data)
        found = _of_object(data, "", of_file=of_file) if data[:1] == b"{" else _of_list(data)
        placed = _placed(text, list(found))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    rest = len(text) - sum(output.end - output.start for output in placed)
    return placed if 0 < len(placed) <= MAX_OUTPUTS and rest <= MAX_REST else []


def opened(envelope: Envelope, tool: str, call: Call, min_bytes: int = 0) -> str | None:
    """Return the text of an envelope with the only output of its JSON as lines; None without such an output,
    and if a file that the call shows may itself be this JSON. JSON of at most `min_bytes` bytes is removed if
    it is needless, but its output is not written as lines."""
    head, body, tail = envelope
    if body[:1] not in ("{", "[") or call.may_show_json:
        return None
    found = outputs(body, of_file=call.category == "read" or bool(call.path))
    if len(found) != 1 or found[0].asked:
        return None
    output = found[0]
    before, after = body[: output.start], body[output.end :]
    if tool in tool_rules().envelopes.json.tools and _needless().fullmatch((before + after).strip()):
        return head + output.text + tail if output.text.strip() else None
    lines = f"{json_line(before)}\n{output.text}\n{json_line(after)}"
    is_worth = exceeds(body, min_bytes) and len(output.text) >= _LEAST and len(lines) < len(body)
    return head + lines + tail if is_worth and Envelope.of(head + lines + tail).body == output.text else None


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


def _of_object(
    data: bytes, asked: str, *, inner: bool = True, of_file: bool = False
) -> Iterator[tuple[bytes, str]]:
    """Yield the outputs of an object and, if `inner`, of objects in it: `{"data":{"output":"..."}}`."""
    names = tool_rules().envelopes.json
    for key, raw in _MEMBERS.decode(data).items():
        value = bytes(raw)
        if (of_file or key in names.outputs) and value[:1] == b'"':
            yield value, asked
        elif key == names.blocks and value[:1] == b"[":
            yield from _of_blocks(map(bytes, _ITEMS.decode(value)[: MAX_OUTPUTS + 1]), asked)
        elif inner and value[:1] == b"{":
            yield from _of_object(value, asked, inner=False, of_file=of_file)


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
    sources = [literal.decode("utf-8", "surrogatepass") for literal, _ in literals]
    # Data with many strings is not searched for each of them.
    if sum(sorted(map(len, sources))[:-MAX_OUTPUTS]) > MAX_REST:
        return []
    placed: list[Output] = []
    for source, (literal, asked) in zip(sources, literals, strict=True):
        inner = _STRING.decode(literal)
        if "\n" not in inner:
            continue
        start = text.find(source)
        if text.find(source, start + 1) < 0:
            placed.append(Output(start, start + len(source), inner, asked))
    return placed
