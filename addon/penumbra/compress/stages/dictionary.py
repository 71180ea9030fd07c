"""Phrases that occur often, written once in a dictionary in front of the text.

    [Forge LZW Dictionary]
    <<FORGE_LZW_1_1>> = "the phrase as a JSON string"

    ... <<FORGE_LZW_1_1>> ... <<FORGE_LZW_1_1>> ...

Two ways to find phrases, both linear in the text. `lzw` reads it as LZW does, each phrase growing
by a token when it is met again. `repair` joins neighbouring tokens that stand together often, all
pairs of a round at once, so that phrases double in length. Entries are plain text, never made of
other entries. Reversible: `expand` puts the phrases back. The first failure line of each kind stays as
it is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise

from penumbra.compress import failure_lines
from penumbra.compress.size import size

LIMIT = 50_000
"""Bytes of the longest text that gets a dictionary."""
_ENTRIES = 20
_USES = 3
_SHORTEST = 24
_LONGEST = 160
"""Characters of a phrase."""
_ENTRY_SAVING = 16
_NET_SAVING = 32
"""Bytes that an entry, and the whole, must save."""
_NET_SHARE = 3
"""Per cent that the whole must save."""
_CANDIDATES = 256
"""Phrases that are counted in the text: bounds the work."""
_PASSES = 3
_ROUNDS = 6
_NAMES = {"lzw": "LZW", "repair": "REPAIR"}
_HEADERS = {"lzw": "[Forge LZW Dictionary]", "repair": "[Forge RePair Dictionary]"}
_TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|[ \t]+|\n|[^A-Za-z0-9 \t\n]{1,8}")
_ENTRY = re.compile(r"(<<FORGE_(?:LZW|REPAIR)_[0-9]+_[0-9]+>>) = (\".*\")")
_PRIVATE = 0xE000
"""First of the private-use characters that stand for entries while the text is searched."""
_CRITICAL = chr(_PRIVATE + _ENTRIES)
"""Stands for a line that is left as it is."""


def shorten(text: str, method: str) -> str | None:
    """The text with a dictionary by `method` (lzw, repair or auto: the smaller one); None if no gain."""
    if method != "auto":
        return _shorten(text, method)
    results = [result for result in (_shorten(text, "lzw"), _shorten(text, "repair")) if result is not None]
    return min(results, key=size) if results else None


def expand(text: str) -> str:
    """What `shorten` was given; any other text as it is."""
    header, _, rest = text.partition("\n")
    if header not in _HEADERS.values():
        return text
    entries, _, body = rest.partition("\n\n")
    for line in entries.split("\n"):
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            return text
        body = body.replace(entry[1], json.loads(entry[2]))
    return body


def _shorten(text: str, method: str) -> str | None:
    if size(text) > LIMIT or is_in(text):
        return None
    stem = _stem(text, method)
    if not stem or any(_PRIVATE <= ord(character) <= _PRIVATE + _ENTRIES for character in set(text)):
        return None
    lines = text.split("\n")
    critical = [(position, lines[position]) for position in failure_lines.firsts(lines)]
    for position, _ in critical:
        lines[position] = _CRITICAL
    others = "\n".join(lines)
    tokens = _TOKEN.findall(others)
    phrases = _lzw(tokens) if method == "lzw" else _repair(tokens)
    body, entries = _replace(others, phrases, len(stem) + 4)
    if not entries:
        return None
    kept = (*(line for _, line in critical), "")
    body = "".join(part + line for part, line in zip(body.split(_CRITICAL), kept, strict=True))
    lines = [_HEADERS[method]]
    for number, phrase in enumerate(entries, 1):
        marker = f"{stem}{number}>>"
        lines.append(f"{marker} = {json.dumps(phrase, ensure_ascii=False)}")
        body = body.replace(chr(_PRIVATE + number - 1), marker)
    result = "\n".join(lines) + "\n\n" + body
    saved = size(text) - size(result)
    return result if saved >= _NET_SAVING and saved * 100 >= size(text) * _NET_SHARE else None


def is_in(text: str) -> bool:
    """True if a text holds a dictionary: lines that were around JSON may stand in front of it."""
    return any(header in text for header in _HEADERS.values())


def _stem(text: str, method: str) -> str:
    """The beginning of all markers: the first numbered one that the text does not hold."""
    return next((stem for n in range(1, 1000) if (stem := f"<<FORGE_{_NAMES[method]}_{n}_") not in text), "")


def _lzw(tokens: list[str]) -> Counter[str]:
    """Phrases that LZW comes to know and uses, over a few readings of the tokens."""
    phrases = set(tokens)
    uses: Counter[str] = Counter()
    for _ in range(_PASSES):
        phrase = ""
        for token in tokens:
            longer = phrase + token
            if longer in phrases:
                phrase = longer
                continue
            uses[phrase] += 1
            if len(longer) <= _LONGEST and "\n" not in longer:
                phrases.add(longer)
            phrase = token
    return uses


def _repair(tokens: list[str]) -> Counter[str]:
    """Phrases that come from joining neighbours which stand together often, round by round."""
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        pairs = Counter(pairwise(tokens))
        joined: list[str] = []
        position = 0
        while position < len(tokens):
            pair = (tokens[position], tokens[position + 1]) if position + 1 < len(tokens) else ("", "")
            if pairs[pair] >= _USES and "\n" not in pair and len(pair[0]) + len(pair[1]) <= _LONGEST:
                joined.append(pair[0] + pair[1])
                position += 2
            else:
                joined.append(tokens[position])
                position += 1
        if len(joined) == len(tokens):
            break
        tokens = joined
        counts.update(tokens)
    return counts


def _replace(text: str, phrases: Counter[str], marker: int) -> tuple[str, list[str]]:
    """(text with a private character for each use of an entry, the entries)."""
    met: Counter[str] = Counter()
    for phrase, count in phrases.items():
        bare = phrase.strip(" \t")
        if len(bare) >= _SHORTEST:
            met[bare] += count
    likely = sorted(met, key=lambda phrase: (-met[phrase] * (len(phrase) - marker), phrase))[:_CANDIDATES]
    ranked = sorted((-_saving(phrase, text.count(phrase), marker), phrase) for phrase in likely)
    entries: list[str] = []
    for saving, phrase in ranked:
        if len(entries) == _ENTRIES or -saving < _ENTRY_SAVING:
            break
        uses = text.count(phrase)
        if uses >= _USES and _saving(phrase, uses, marker) >= _ENTRY_SAVING:
            text = text.replace(phrase, chr(_PRIVATE + len(entries)))
            entries.append(phrase)
    return text, entries


def _saving(phrase: str, uses: int, marker: int) -> int:
    """Bytes that an entry saves: what its uses give, less what its line costs."""
    return uses * (size(phrase) - marker) - size(json.dumps(phrase, ensure_ascii=False)) - marker - 4
