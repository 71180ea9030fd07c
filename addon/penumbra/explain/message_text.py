"""Messages as lines: words, calls, reasoning, and where results stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from penumbra.apis.prompt import Kind, Message, Part
from penumbra.explain.text_lines import LONGEST_SEARCHED, Line, Search, Show, bounded, note, said
from penumbra.wire.document import Document

_BEGINNING = 240
"""Characters of a part in an outline."""
_MOST_ARGUMENTS = 100
"""Lines of a call's arguments, where they are shown in full."""
_MOST_PARTS = 1_000
"""Of one message."""
_DEEPEST = 20
"""Levels of arguments that are indented."""
_MOST_TEXT = 2_000
"""Lines of a text that is shown in full."""
HIDDEN = "hidden from the client"
Result = Callable[[Part], list[str]]
"""What is said of a result: a line for each of its texts."""


def outline(
    document: Document, message: Message, search: Search, show: Show, hidden: str, result: Result
) -> list[Line]:
    """A message in short. `hidden`: the injected tool's name, empty if there is none."""
    lines = [said(f"#{message.turn + 1} {show(message.role) or ('model' if message.by_model else 'item')}")]
    for part in message.parts[:_MOST_PARTS]:
        if part.kind is Kind.CALL:
            mark = f" ({HIDDEN})" if hidden and part.name == hidden else ""
            call = search.beginning(_written(document, part.arguments), _BEGINNING)
            lines.append(said(f"    call {show(part.name)} {show(part.id)}{mark}: {call}"))
        elif part.kind is Kind.RESULT:
            lines += [said(f"    result {line}") for line in result(part)]
        elif part.kind is Kind.REASONING:
            lines.append(note(f"    reasoning, {len(document.source(part.block)):,} bytes"))
        else:
            for text in part.texts:
                words = document.string(text) or ""
                size = f" ({len(words):,} characters)" if len(words) > _BEGINNING else ""
                lines.append(said(f"    {one_paragraph(search.beginning(words, _BEGINNING))}{size}"))
    return lines + _left_out(message)


def in_full(document: Document, message: Message, search: Search, show: Show, hidden: str) -> list[Line]:
    """A message that the model wrote, whole."""
    lines: list[Line] = []
    for part in message.parts[:_MOST_PARTS]:
        if part.kind is Kind.CALL:
            mark = f" ({HIDDEN})" if hidden and part.name == hidden else ""
            lines.append(note(f"call {show(part.name)} {show(part.id)}{mark}"))
            arguments = search.text(_pretty(document, part.arguments)).split("\n")
            lines += bounded([said(f"    {line}") for line in arguments], _MOST_ARGUMENTS)
        elif part.kind is Kind.REASONING:
            lines.append(note(f"reasoning, {len(document.source(part.block)):,} bytes"))
            words = document.string(document.members(part.block).get("thinking")) or ""
            lines += [said(f"    {line}") for line in search.text(words).split("\n")] if words else []
        else:
            for text in part.texts:
                words = search.text(document.string(text) or "")
                lines += bounded([said(line) for line in words.split("\n")], _MOST_TEXT)
    return lines + _left_out(message)


def _left_out(message: Message) -> list[Line]:
    """What is said of parts that are not shown."""
    more = len(message.parts) - _MOST_PARTS
    return [note(f"    … {more:,} more parts")] if more > 0 else []


def beginning_of_call(document: Document, arguments: Raw | None, search: Search) -> str:
    """A call's arguments in one line."""
    return search.beginning(_written(document, arguments), _BEGINNING)


def one_paragraph(text: str) -> str:
    """A text whose lines stand in one."""
    return " ".join(text.split())


def _written(document: Document, arguments: Raw | None) -> str:
    if arguments is None:
        return ""
    if (text := document.string(arguments)) is not None:
        return text
    return document.source(arguments).decode("utf-8", "replace")


def _pretty(document: Document, arguments: Raw | None) -> str:
    written = _written(document, arguments)
    if len(written) > LONGEST_SEARCHED:
        return written
    try:
        value: Any = json.loads(written)
    except (ValueError, RecursionError):
        return written
    if not isinstance(value, dict | list) or not _is_small(value):
        return written
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_small(value: Any) -> bool:
    """Whether it may be indented: what is deep takes many times its own size."""
    level = [value]
    for _ in range(_DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return True
    return False
