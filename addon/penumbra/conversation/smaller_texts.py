"""This module makes smaller forms of a text.

`shorten` cuts a text to a limit. The beginning, the end, and windows around critical lines stay. JSON
stays JSON: an object gets `truncated` and `originalLength`, and an array keeps its first items. Markers
have the number of missing characters.

`superseded` and `trimmed` are for texts that a later call has made useless. The keys of JSON stay. A
placeholder replaces each large value, and a new member, `_tool_compaction`, lists the sizes and hashes of
these values. Of other outputs of commands, only some critical lines and the last line stay."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from penumbra.compress import selection
from penumbra.compress.critical_lines import critical_lines
from penumbra.compress.size import head, size
from penumbra.linear import utf8
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode
from penumbra.wire.json_values import encode as encode_json

_SHORT = 80
"""No marker replaces a value of at most this number of bytes."""
_TRIES = 4


def omitted(count: int) -> str:
    """Return the marker that replaces `count` characters."""
    return f"[omitted {count} chars due to provider limits]"


def shorten(text: str, limit: int) -> str | None:
    """Return the text in at most `limit` UTF-8 bytes; None if the text already fits or can't be made to
    fit."""
    if size(text) <= limit or limit <= 0:
        return None
    document = _document(text)
    if document is None:
        form = _plain(text, limit)
    elif document.members(document.root):
        form = _object(document, text, limit)
    else:
        form = _array(document, text, limit)
    return form if form and size(form) <= limit else None


def _document(text: str) -> Document | None:
    """Return the document of a text that is a JSON object or array with content; None for other texts."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        document = Document(text.encode("utf-8"))
        return document if document.members(document.root) or document.items(document.root) else None
    except (NotJson, UnicodeEncodeError):
        return None


def _plain(text: str, limit: int) -> str | None:
    data = utf8(text)
    if limit >= selection.LEAST:
        return selection.ends_in_part(
            data, limit, lambda start, end: omitted(len(data[start:end].decode("utf-8", "surrogatepass")))
        )
    marker = omitted(len(text))
    space = limit - len(marker) - 1
    if space < 0:
        return None
    kept = head(text, space)
    return f"{kept}\n{omitted(len(text) - len(kept))}" if kept else marker


def _object(document: Document, text: str, limit: int) -> str | None:
    """Return the object with markers in place of its largest values, only as many as needed. If all markers
    are not enough, return an object with the first members. Return None if both fail."""
    members = document.members(document.root)
    notes: dict[str, object] = {"truncated": True, "originalLength": len(text)}
    if notes.keys() & members.keys():
        # An object that already has members with these names gets no second member of either name.
        notes = {}
    sources = {key: document.source(value) for key, value in members.items()}
    by_size = sorted(sources, key=lambda key: (-len(sources[key]), key))
    cut: dict[str, bytes] = {}
    for key in by_size:
        if len(sources[key]) <= _SHORT:
            break
        cut[key] = encode_json(omitted(_length(document, members[key])))
        form = _written({**sources, **cut}, notes)
        if len(form) <= limit:
            space = limit - len(form) + len(cut[key])
            kept = document.string(members[key])
            if kept is not None and space >= selection.LEAST:
                cut[key] = _fitting(kept, space) or cut[key]
            return _written({**sources, **cut}, notes).decode("utf-8")
    return _first_members(sources, notes, limit)


def _first_members(sources: Mapping[str, bytes], notes: Mapping[str, object], limit: int) -> str | None:
    """Return an object with the first members that fit, and a marker for the others; None if that fails."""
    if "omitted" in sources or not notes:
        return None
    costs = {key: len(encode_json(key)) + len(source) + 2 for key, source in sources.items()}
    space = limit - len(_written({}, notes)) - len(omitted(sum(costs.values()))) - len('"omitted":"",')
    kept: dict[str, bytes] = {}
    for key, source in sources.items():
        if costs[key] > space:
            break
        kept[key] = source
        space -= costs[key]
    if space < 0:
        return None
    missing = sum(len(source.decode("utf-8")) for key, source in sources.items() if key not in kept)
    return _written({**kept, "omitted": encode_json(omitted(missing))}, notes).decode("utf-8")


def _length(document: Document, value: Raw) -> int:
    """Return the number of characters of a string, or of another value's JSON."""
    string = document.string(value)
    return len(document.source(value).decode("utf-8")) if string is None else len(string)


def _fitting(text: str, space: int) -> bytes | None:
    """Cut a text, and return its JSON in at most `space` bytes; None if that fails."""
    limit = space - 2
    for _ in range(_TRIES):
        form = _plain(text, limit) if limit >= selection.LEAST else None
        if form is None or form == text:
            return None
        written = encode_json(form)
        if len(written) <= space:
            return written
        limit = limit * space // len(written) - 8
    return None


def _written(members: Mapping[str, bytes], notes: Mapping[str, object]) -> bytes:
    every = {**members, **{key: encode_json(value) for key, value in notes.items()}}
    return b"{" + b",".join(encode_json(key) + b":" + value for key, value in every.items()) + b"}"


def _array(document: Document, text: str, limit: int) -> str | None:
    """Return an array with the first items that fit, a marker, and the last item if there is space. If no
    item fits, the first item is cut; None if that fails."""
    sources = [document.source(item).decode("utf-8") for item in document.items(document.root)]
    last = sources[-1]
    space = limit - len(omitted(len(text))) - 8
    tail = [last] if size(last) <= space // 3 else []
    space -= sum(size(item) + 1 for item in tail)
    first: list[str] = []
    for item in sources[: len(sources) - len(tail)]:
        if size(item) + 1 > space:
            break
        first.append(item)
        space -= size(item) + 1
    if not first and not tail:
        cut = _item(document, space)
        return None if cut is None else _array_of([cut], sources[1:], [])
    return _array_of(first, sources[len(first) : len(sources) - len(tail)], tail)


def _item(document: Document, space: int) -> str | None:
    """Return the first item of an array in at most `space` bytes; None if that fails."""
    item = document.items(document.root)[0]
    text = document.string(item)
    if text is None:
        return shorten(document.source(item).decode("utf-8"), space)
    written = _fitting(text, space)
    return written.decode("utf-8") if written else None


def _array_of(first: list[str], missing: list[str], tail: list[str]) -> str:
    if not missing:
        return "[" + ",".join([*first, *tail]) + "]"
    marker = encode_json(omitted(sum(map(len, missing)))).decode("utf-8")
    return "[" + ",".join([*first, marker, *tail]) + "]"


_OMITTED = "[omitted]"
_ACCOUNT = "_tool_compaction"
_OUTCOME_LINES = 6
_OUTCOME_CHARACTERS = 300
_PLACEHOLDERS = {b'"': encode_json(_OMITTED), b"[": b"[]", b"{": b"{}"}
"""Replacements of values by type. With them, the arguments still match their schema."""


def superseded(
    text: str, names: str, newer: str, limit: int, *, written: bool = False, runs: bool = False
) -> str | None:
    """Return the form of a superseded result; None if the form would not be smaller.

    `names` identify the call, and `newer` is the id of the later call. `written` is true if the later call
    wrote the file that the result shows. A JSON object loses its values of more than `limit` bytes. With
    `runs`, critical lines and the last line of a text stay.
    """
    if (members := _members(text)) is not None:
        trimmed_members = trimmed(encode_json(members), limit, typed=False)
        made = None if trimmed_members is None else trimmed_members.decode("utf-8")
    else:
        lines = [
            f"[tool_compaction] Tool result compacted for {names}. Large fields omitted.",
            f"[{'The file was written later' if written else 'A later result takes its place'}: {newer}]",
        ]
        made = "\n".join(lines + (_outcome(text) if runs else []))
    return made if made is not None and size(made) < size(text) else None


def _outcome(text: str) -> list[str]:
    """Return the first and the last critical lines of a text, and the text's last line."""
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
    """Return the members of a JSON object; None for other texts, or if encoding and decoding the members
    would change them."""
    if text.lstrip()[:1] != "{":
        return None
    try:
        value = json.loads(text)
        survives = isinstance(value, dict) and bool(decode(encode_json(value)) == value)
    except (ValueError, RecursionError):
        return None
    return value if survives and _ACCOUNT not in value else None


def trimmed(
    source: bytes, limit: int, keep: Sequence[str] = (), ref: str = "", *, typed: bool = True
) -> bytes | None:
    """Return a JSON object in which placeholders replace the values of more than `limit` bytes, and one more
    member lists the sizes and hashes of these values. Return None if the object would not be smaller. The
    values of the keys `keep` stay. `ref` is the reference by which the model can ask for the original. With
    `typed`, replacements keep the type."""
    try:
        document = Document(source)
    except NotJson:
        return None
    omitted_fields: dict[str, Any] = {}
    members = document.members(document.root)
    for key, value in members.items():
        placeholder = _PLACEHOLDERS.get(document.source(value)[:1]) if typed else _PLACEHOLDERS[b'"']
        plain = document.plain(value)
        if key in keep or placeholder is None or (measured := _measured(plain)) <= limit:
            continue
        omitted_fields[key] = {"bytes": measured, "sha256": hashlib.sha256(encode_json(plain)).hexdigest()}
        document.rewrite(value, placeholder)
    if not omitted_fields or _ACCOUNT in members:
        return None
    account = {"thresholdBytes": limit, "omittedFields": omitted_fields, **({"shadow": ref} if ref else {})}
    document.add_member(document.root, _ACCOUNT, encode_json(account))
    made = document.render()
    return made if len(made) < len(source) else None


def _measured(value: Any) -> int:
    """Return the number of bytes of a string, or of another value's JSON; 0 for null."""
    if isinstance(value, str):
        return len(utf8(value))
    return len(encode_json(value)) if value is not None else 0
