"""Paths and addresses that stand only in what an excerpt leaves out, named at its end."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from penumbra.compress.size import encode, size

MOST = 12
"""Names."""
_ROOM = 400
"""Bytes that the line may have."""
_SHARE = 12
"""The part of an excerpt's size that names may take."""
_ADDRESS = re.compile(r"https?://[\w.~:/?#@!$&*+=%-]+")
_PATH = re.compile(r"[\w.@+~/-]+")
"""All that may be a path: a name is whole where it is one such run."""
_FILE = re.compile(r"[\w.@+-]*\.[A-Za-z]\w{0,7}")
"""The last part of the path."""
_BEFORE = frozenset("\\])}$%#*?:&^!…")
"""Characters before a name that may be part of it."""
_BEHIND_PATH, _BEHIND_ADDRESS = frozenset("[{$%*&^"), frozenset("[{(|^,;'")
"""Characters after it that may be part of it, where no blank follows."""
_ESCAPE = re.compile(r'\\(?:\\|[nrtbf"])')
_LONGEST = 160
"""Characters of a name."""
_SEARCHED = 200_000
"""Characters that are looked at."""
_FORM = "\n[what is left out names, among others: %s]"


def room(of: int) -> int:
    """Bytes for the line within the room of an excerpt."""
    return min(_ROOM, of // _SHARE)


def line(text: str, shown: str, most: int, told: Container[bytes] = ()) -> str:
    """`[what is left out names, among others: src/a.py, https://…]`, with the line end in front of it.

    `shown`: what is shown of the text; `most`: bytes; `told`: what earlier results show. Empty if all such
    names are shown.
    """
    names: list[str] = []
    left = most - len(_FORM)
    for name in dict.fromkeys(_names(text[:_SEARCHED])):
        if len(names) == MOST or left < 0:
            break
        is_short = len(name) <= _LONGEST and size(name) + 2 <= left
        if is_short and name not in shown and encode(name) not in told:
            names.append(name)
            left -= size(name) + 2
    # A single name says too little for its line.
    return _FORM % ", ".join(names) if len(names) > 1 else ""


def _names(text: str) -> Iterator[str]:
    """Names that are whole, in order; those that a program has shortened are none."""
    if text.count("\\n") > text.count("\n"):
        text = _ESCAPE.sub(_unescaped, text)
    behind = 0
    for match in _runs(text):
        start, end = match.span()
        if start < behind:
            continue
        if address := _address(text, start, end):
            behind = address.end()
            name = address[0].rstrip(".:!?")
            if _is_whole(text, start, behind, _BEHIND_ADDRESS) and len(name) > len("https://a.b"):
                yield name
        elif _is_path(name := match[0].rstrip(".-")) and _is_whole(text, start, end, _BEHIND_PATH):
            yield name


def _runs(text: str) -> Iterator[re.Match[str]]:
    """All that may be a path or begin an address, of the lines that have a slash: both need one."""
    slash = text.find("/")
    while slash >= 0:
        end = text.find("\n", slash)
        end = len(text) if end < 0 else end
        yield from _PATH.finditer(text, text.rfind("\n", 0, slash) + 1, end)
        slash = text.find("/", end)


def _unescaped(match: re.Match[str]) -> str:
    return match[0] if match[0] == "\\\\" else "  "


def _address(text: str, start: int, end: int) -> re.Match[str] | None:
    """The address that begins with a run of characters."""
    return _ADDRESS.match(text, start) if text[start:end] in ("http", "https") else None


def _is_path(run: str) -> bool:
    _, slash, file = run.rpartition("/")
    is_whole = bool(slash) and run[0] not in "-+" and "//" not in run and "..." not in run
    return is_whole and bool(_FILE.fullmatch(file))


def _is_whole(text: str, start: int, end: int, goes_on: frozenset[str]) -> bool:
    """True if nothing in front of a name or behind it can be part of it."""
    before, behind, then = text[max(0, start - 1) : start], text[end : end + 1], text[end + 1 : end + 2]
    if before in _BEFORE or behind == "…":
        return False
    if behind == "\\":
        return then in ("n", "r", "t", '"')
    return behind not in goes_on or not then or then.isspace()
