"""This module estimates the number of tokens in a text without a vocabulary.

A model's tokenizer cuts a text into words, digit groups, punctuation and blanks before it looks at its
vocabulary. The estimate counts these pieces. Each byte of the UTF-8 text is replaced by a hexadecimal digit
that has one bit for each of the byte's classes. All these digits form one big integer, `mask`.
`mask & ~(mask << 4)` gives the ends of runs for all classes at once, and `bit_count` counts them fast. The
weights were fitted to the tokenizer o200k by non-negative least squares. The samples were tool results and
texts in other scripts than Latin.
"""

from __future__ import annotations

import string
from binascii import unhexlify

from penumbra.short_texts import forgettable

BYTES_PER_TOKEN = 3.6
"""The average number of bytes of a token in whole requests."""
_CHUNK = 32_768
"""The number of characters in a piece of text, whose masks then fit into the processor's cache."""
_SHORT = 200_000
"""The length in characters of the longest text whose estimate is cached."""
_CLASSES = (
    string.ascii_letters.encode(),
    (string.ascii_uppercase + " \t").encode(),  # Blanks have only this bit, and uppercase letters have two.
    string.digits.encode(),
    string.punctuation.encode(),
)
_TABLE = b"".join(
    b"%x" % sum((byte in members) << bit for bit, members in enumerate(_CLASSES)) for byte in range(256)
)
"""A translation table from each byte to the bits of its classes, as a hexadecimal digit."""
_LETTER, _UPPER, _DIGIT, _SYMBOL = (int(f"{1 << bit:x}" * (4 * _CHUNK), 16) for bit in range(len(_CLASSES)))
"""Masks that have the bit of one class set in every digit of a piece."""

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
_LEADS = ((311, bytes(range(0xC0, 0xE0))), (654, bytes(range(0xE0, 0xF0))), (1976, bytes(range(0xF0, 0xF8))))
"""The weights of characters of two, three and four bytes, with the first bytes of such characters."""


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
    digits = data.translate(_TABLE)
    classes = int.from_bytes(unhexlify(digits + b"0" if len(digits) & 1 else digits))
    inside = classes & (classes << 4)
    ends = classes ^ inside
    letters, fours = classes & _LETTER, inside & _LETTER
    fours &= fours << 8
    blanks = classes & _UPPER
    upper = blanks & (letters << 1)
    blanks ^= upper
    indents = blanks & (blanks << 4)
    weight = (
        _WORD * (ends & _LETTER).bit_count()
        + _LONG_WORD * (fours & (fours << 16)).bit_count()
        + _HUMP * (upper & ((letters ^ (upper >> 1)) >> 3)).bit_count()
        + _NUMBER * (ends & _DIGIT).bit_count()
        + _DIGITS * (classes & _DIGIT).bit_count()
        + _SYMBOL_RUN * (ends & _SYMBOL).bit_count()
        + _SYMBOLS * (classes & _SYMBOL).bit_count()
        + _NEWLINE * data.count(b"\n")
        + _INDENT * (indents ^ (indents & (indents << 4))).bit_count()
    )
    if len(data) == len(text):
        return weight
    return weight + sum([each * (len(data) - len(data.translate(None, leads))) for each, leads in _LEADS])
