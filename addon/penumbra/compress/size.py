"""Sizes in UTF-8 bytes, also of text with lone surrogates, and in lines; and how a number of them is said."""

from __future__ import annotations


def size(text: str) -> int:
    """UTF-8 bytes of a text; a lone surrogate counts three."""
    return len(text) if text.isascii() else len(encode(text))


def line_count(text: str) -> int:
    """Lines of a text; a line end at its end begins no further one."""
    return text.count("\n") + (text[-1:] not in ("", "\n"))


def counted(count: int, noun: str) -> str:
    """A number of things, as it is said: 1 line, 2 lines."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def exceeds(text: str, limit: int) -> bool:
    """Whether a text has more than `limit` UTF-8 bytes, told from its characters where that is enough."""
    return len(text) > limit or (4 * len(text) > limit and size(text) > limit)


def encode(text: str) -> bytes:
    """UTF-8 bytes of a text; lone surrogates are written as if they were characters."""
    return text.encode("utf-8", "surrogatepass")


def head(text: str, limit: int) -> str:
    """The longest beginning of a text that fits into `limit` bytes and splits no character."""
    if limit <= 0:
        return ""
    cut = text[:limit]
    if cut.isascii():
        return cut
    data = encode(cut)
    end = min(limit, len(data))
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def tail(text: str, limit: int) -> str:
    """The longest end of a text that fits into `limit` bytes and splits no character."""
    if limit <= 0:
        return ""
    cut = text[-limit:]
    if cut.isascii():
        return cut
    data = encode(cut)
    start = max(0, len(data) - limit)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode("utf-8", "surrogatepass")
