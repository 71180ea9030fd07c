"""The part of an edit's acknowledgement that repeats the code of its own call.

    Successfully overwrote file: src/a.py. Here is the updated code:
    import re
    ...
    [112 lines: as the call has written them]
    ...

The first and the last lines of each run stay, so that what an edit quotes where old code meets new is whole.
A call that has written the whole file has no old code: one line at each end shows where a run stands.

Where the file lies, its call has said as well: its name alone says which one was edited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.failure_lines import failing
from penumbra.compress.size import counted
from penumbra.compress.stages import line_numbers

_MARGIN, _MARGIN_OF_WHOLE = 6, 1
"""Lines of a run that stay at each end: of an edit, and of a file that was written as a whole."""
_MORE = 8
"""Lines of a run besides them that are worth it."""
_SHORTEST = 200
"""Characters of an argument that may be code."""
_LONGEST = 800
"""Characters of the line that says which file was edited."""
_AROUND = ("", " ", '"', "'", "`", "(", ")", ":", ",", "\n")
"""Characters that may stand beside a whole path."""
_PLACES = 4
"""Places of an argument where a line is looked for: blank lines and brackets are everywhere."""
_MOST = 20_000
"""Lines of an argument above which it is not compared."""


def without(text: str, arguments: Any, is_whole: bool = False) -> str | None:
    """The text without what stands in the call's arguments in the same order; None if there is too little.

    `is_whole`: the call has written the whole file.
    """
    margin = _MARGIN_OF_WHOLE if is_whole else _MARGIN
    least = 2 * margin + _MORE
    written = [argument.split("\n") for argument in _written(arguments) if len(argument) >= _SHORTEST]
    written = [lines for lines in written if least <= len(lines) <= _MOST]
    lines = text.split("\n")
    if not written or len(lines) < least:
        return None
    _, contents = line_numbers.split(text)
    kept: list[str] = []
    position = 0
    places = [_places(code) for code in written]
    while position < len(lines):
        run = max(
            _run(contents, position, code, where, least) for code, where in zip(written, places, strict=True)
        )
        if run < least:
            kept.append(lines[position])
            position += 1
            continue
        kept += lines[position : position + margin]
        kept.append(f"[{counted(run - 2 * margin, 'line')}: as the call has written them]")
        kept += lines[position + run - margin : position + run]
        position += run
    return "\n".join(kept) if len(kept) < len(lines) else None


def with_name(text: str, path: str) -> str | None:
    """The acknowledgement of an edit with the file's name instead of the path that its call has given; None
    if it does not begin with a line that names that once, or tells of a failure."""
    end = text.find("\n") + 1 or len(text)
    start = text.find(path, 0, end) if path else -1
    if start < 0 or end > _LONGEST or text.find(path, start + 1, end) >= 0 or failing([text[:end]]):
        return None
    behind = start + len(path)
    if text[start - 1 : start] not in _AROUND or text[behind : behind + 1] not in _AROUND:
        return None
    return text[:start] + path.replace("\\", "/").rstrip("/").rpartition("/")[2] + text[behind:]


def _written(arguments: Any) -> Iterator[str]:
    """The text that decoded arguments put into a file, without old text that they name."""
    if isinstance(arguments, str):
        yield "\n".join(line[1:] for line in arguments.split("\n") if line.startswith("+"))
    elif isinstance(arguments, Mapping):
        keys = tool_rules().arguments.written
        yield from (value for key, value in arguments.items() if key in keys and isinstance(value, str))
        for value in arguments.values():
            if isinstance(value, Sequence) and not isinstance(value, str):
                for edit in value:
                    yield from _written(edit) if isinstance(edit, Mapping) else ()


def _places(code: Sequence[str]) -> dict[str, list[int]]:
    """Where each line stands, the first few places."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(code):
        positions = places.setdefault(line, [])
        if len(positions) < _PLACES:
            positions.append(number)
    return places


def _run(
    contents: Sequence[str],
    start: int,
    code: Sequence[str],
    places: Mapping[str, Sequence[int]],
    least: int,
) -> int:
    """The number of lines from `start` on that stand in the code one after the other; 0 if they are too
    few."""
    longest = 0
    for place in places.get(contents[start], ()):
        # Most places are told apart by the line that would be the last one needed.
        last = start + least - 1
        if last >= len(contents) or place + least > len(code) or contents[last] != code[place + least - 1]:
            continue
        length = 0
        while (
            start + length < len(contents)
            and place + length < len(code)
            and contents[start + length] == code[place + length]
        ):
            length += 1
        longest = max(longest, length)
    return longest
