"""This module estimates the number of tokens in a text without a vocabulary.

A model's tokenizer cuts a text into words, digit groups, punctuation and blanks before it looks at its
vocabulary. The estimate counts these pieces. Each byte of the UTF-8 text is replaced by a byte that has one
bit for each of the byte's classes. All these bytes form one big integer, `mask`. `mask & ~(mask << 8)` gives
the starts of runs for all classes at once, and `bit_count` counts them fast. The weights were fitted to the
tokenizer o200k by non-negative least squares. The samples were tool results and texts in other scripts than
Latin.
"""

from __future__ import annotations

import string

from penumbra.short_texts import forgettable

BYTES_PER_TOKEN = 3.6
"""The average number of bytes of a token in whole requests."""
_CHUNK = 32_768
"""The number of characters in a piece of text, whose masks then fit into the processor's cache."""
_SHORT = 200_000
"""The length in characters of the longest text whose estimate is cached."""
_CLASSES = (
    string.ascii_letters.encode(),
    string.ascii_uppercase.encode(),
    string.digits.encode(),
    string.punctuation.encode(),
    b" \t",
    bytes(range(0xC0, 0xE0)),  # First bytes of characters of two, three and four bytes.
    bytes(range(0xE0, 0xF0)),
    bytes(range(0xF0, 0xF8)),
)
_TABLE = bytes(sum((byte in members) << bit for bit, members in enumerate(_CLASSES)) for byte in range(256))
"""A translation table from each byte to the bits of its classes."""
_LETTER, _UPPER, _DIGIT, _SYMBOL, _BLANK, _LEAD_2, _LEAD_3, _LEAD_4 = (
    int.from_bytes(bytes([1 << bit]) * (4 * _CHUNK), "little") for bit in range(len(_CLASSES))
)
"""Masks that have the bit of one class set in every byte of a piece."""

# The weights, in thousandths of a token.
_WORD = 1157
_LONG_WORD = 87
_HUMP = 446
_NUMBER = 1114
_DIGITS = 203
_SYMBOL_RUN = 410
_SYMBOLS = 175
_NEWLINE = 207
_INDENT = 1668
_TWO_BYTES = 311
_THREE_BYTES = 654
_FOUR_BYTES = 1976


def estimate(text: str) -> int:
    """Return the estimated number of tokens in a text, at least 1 unless the text is empty."""
    if not text:
        return 0
    return _remembered(text) if len(text) <= _SHORT else _estimate(text)


def _estimate(text: str) -> int:
    total = sum([_weigh(text[start : start + _CHUNK]) for start in range(0, len(text), _CHUNK)])
    return max(1, (total + 500) // 1000)


_remembered = forgettable(16)(_estimate)
"""This function is `_estimate` with a cache."""


def _weigh(text: str) -> int:
    """Return the weight of a piece of text, in thousandths of a token."""
    data = text.encode("utf-8", "surrogatepass")
    classes = int.from_bytes(data.translate(_TABLE), "little")
    inside = classes & (classes << 8)
    starts = classes ^ inside
    fours = inside & _LETTER
    fours &= fours << 16
    upper = classes & _UPPER
    lower = (classes & _LETTER) ^ (upper >> 1)
    indents = inside & _BLANK
    weight = (
        _WORD * (starts & _LETTER).bit_count()
        + _LONG_WORD * (fours & (fours << 32)).bit_count()
        + _HUMP * (upper & (lower << 9)).bit_count()
        + _NUMBER * (starts & _DIGIT).bit_count()
        + _DIGITS * (classes & _DIGIT).bit_count()
        + _SYMBOL_RUN * (starts & _SYMBOL).bit_count()
        + _SYMBOLS * (classes & _SYMBOL).bit_count()
        + _NEWLINE * data.count(b"\n")
        + _INDENT * (indents ^ (indents & (indents << 8))).bit_count()
    )
    if len(data) == len(text):
        return weight
    return (
        weight
        + _TWO_BYTES * (classes & _LEAD_2).bit_count()
        + _THREE_BYTES * (classes & _LEAD_3).bit_count()
        + _FOUR_BYTES * (classes & _LEAD_4).bit_count()
    )
