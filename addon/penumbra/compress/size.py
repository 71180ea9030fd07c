"""This module measures texts in lines and UTF-8 bytes, and cuts texts. Texts may have lone surrogates."""

from __future__ import annotations

from penumbra.linear import utf8

LEAST_CUT = 40
"""At least this number of characters or bytes is cut out of a line."""
_NEAR = 24
"""To be between two words, a cut moves by fewer than this number of characters."""


def size(text: str) -> int:
    """Return the number of UTF-8 bytes of a text. A lone surrogate counts as three."""
    return len(text) if text.isascii() else len(utf8(text))


def line_count(text: str) -> int:
    """Return the number of lines of a text. A line break at the end begins no further line."""
    return text.count("\n") + (text[-1:] not in ("", "\n"))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 line`, `2 lines`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def exceeds(text: str, limit: int) -> bool:
    """True if a text has more than `limit` UTF-8 bytes."""
    return len(text) > limit or (4 * len(text) > limit and size(text) > limit)


def word_end(text: str, at: int) -> int:
    """Return a position between two words, at `at` or shortly before; `at` if there is none."""
    places = range(at, max(0, at - _NEAR), -1) if at < len(text) else ()
    blank = next((place for place in places if text[place].isspace()), None)
    if blank is not None:
        return blank
    return next((place for place in places if not (_is_word(text[place - 1]) and _is_word(text[place]))), at)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def cut(text: str, first: int, last: int = 0) -> str:
    """Return a text with the number of omitted characters in place of its middle: `Born in [812 characters
    left out] of May`. Cuts are mostly between words. If fewer than `LEAST_CUT` characters would be omitted,
    the text stays unchanged."""
    start = word_end(text, first)
    end = len(text) - word_end(text[::-1], last) if last else len(text)
    if end - start < LEAST_CUT:
        return text
    ending = f" {text[end:]}" if last else ""
    return f"{text[:start]} [{counted(end - start, 'character')} left out]{ending}"


def head(text: str, limit: int) -> str:
    """Return the longest beginning of a text that fits into `limit` bytes. No character is split."""
    if limit <= 0:
        return ""
    cut = text[:limit]
    if cut.isascii():
        return cut
    data = utf8(cut)
    end = min(limit, len(data))
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")
