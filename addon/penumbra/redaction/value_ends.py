"""Where a value without quotes ends, and what stands around it that is none of it.

Bytes are those of a text, places are offsets into it.
"""

from __future__ import annotations

import re

from penumbra.redaction.program_names import is_program_name
from penumbra.redaction.values import has_digit, has_letter, is_opaque, is_wordy, kinds

QUOTE_ENTITY = re.compile(rb"&(?:#x27|#39|#34|quot|apos);")
"""A quote as a page writes it."""
_FRAMED = re.compile(rb"<([^\s<>\"'`\\]{8,128})>")
_SIGNS = re.compile(r"[!@#$%^&*+?~]")
_LONGEST_PIECE = 128


def before_bar(data: bytes, start: int, end: int) -> int:
    """Where the value ends that a `|` stands in: there, in shells and tables, but where what follows is as
    random as a value is, so that it can be nothing else."""
    bar = data.find(b"|", start, end)
    if bar < 0:
        return end
    while bar >= 0:
        following = data.find(b"|", bar + 1, end)
        piece = data[bar + 1 : following if following >= 0 else end][:_LONGEST_PIECE].decode(
            "utf-8", "replace"
        )
        if not _goes_on(piece, is_numbered=data[start:bar].isdigit()):
            return bar
        bar = following
    return end


def _goes_on(piece: str, *, is_numbered: bool) -> bool:
    """`is_numbered`: a number stands in front, as in tokens with the id of their row: `17|Zk82hV…`."""
    if len(piece) < 4 or "=" in piece.rstrip("="):
        return False
    if is_numbered:
        return is_opaque(piece, 16)
    if is_wordy(piece) or is_program_name(piece):
        return False
    return kinds(piece) == 3 or (
        has_digit(piece) and has_letter(piece) and _SIGNS.search(piece.rstrip("&")) is not None
    )


def unframed(data: bytes, start: int, end: int) -> tuple[int, int]:
    """What stands between `<` and `>` if it is random: what is to be filled in are words."""
    framed = _FRAMED.fullmatch(data, start, end)
    return framed.span(1) if framed and _is_random(framed[1]) else (start, end)


def framed_value(data: bytes, at: int) -> tuple[int, int] | None:
    """The random value between the `<` at `at` and its `>`."""
    framed = _FRAMED.match(data, at)
    return framed.span(1) if framed and _is_random(framed[1]) else None


def _is_random(inside: bytes) -> bool:
    text = inside.decode("utf-8", "replace")
    return has_digit(text) and is_opaque(text) and kinds(text) == 3 and not is_program_name(text)


def between_entities(data: bytes, start: int, end: int) -> tuple[int, int]:
    """What stands between the quotes that a page writes as `&quot;`: they are none of the value."""
    opener = QUOTE_ENTITY.match(data, start, end)
    if opener is None:
        return start, end
    # The semicolon of the last one may be no part of what was found.
    stop = data.find(opener[0][:-1], opener.end(), end)
    return opener.end(), stop if stop >= 0 else end
