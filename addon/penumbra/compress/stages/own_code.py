"""This stage shortens code in the acknowledgement of an edit if the call contains this code.

    Successfully overwrote file: src/a.py. Here is the updated code:
    import re
    ...
    [112 lines: as the call has written them]
    ...

The first and last lines of each run stay, so that a later edit can quote the place where old and new code
meet. If the call has written the whole file, there is no old code. One line at each end is then enough.

The call also contains the path of the file. The acknowledgement then needs only the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.failure_lines import failing
from penumbra.compress.size import counted
from penumbra.compress.stages import line_numbers

_MARGIN, _MARGIN_OF_WHOLE = 6, 1
"""The number of lines that stay at each end of a run: after an edit, and after the write of a whole file."""
_MORE = 8
"""The smallest number of omitted lines between the two ends of a run."""
_SHORTEST = 200
"""The length in characters of the shortest argument that is compared."""
_LONGEST = 800
"""The length in characters of the longest line that may name the edited file."""
_AROUND = ("", " ", '"', "'", "`", "(", ")", ":", ",", "\n")
"""The characters that may precede and follow a whole path."""
_PLACES = 4
"""The greatest number of positions in an argument at which a line is compared."""
_MOST = 20_000
"""The greatest number of lines of an argument that is compared."""


def without(text: str, arguments: Any, is_whole: bool = False) -> str | None:
    """Return the text without the lines that the call's arguments contain in the same order; None if there
    are too few such lines. `is_whole` is true if the call has written the whole file."""
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
    """Return the acknowledgement of an edit with the name of the file in place of its path. Return None if
    the first line reports a failure, or does not contain the path exactly once."""
    end = text.find("\n") + 1 or len(text)
    start = text.find(path, 0, end) if path else -1
    if start < 0 or end > _LONGEST or text.find(path, start + 1, end) >= 0 or failing([text[:end]]):
        return None
    end_of_path = start + len(path)
    if text[start - 1 : start] not in _AROUND or text[end_of_path : end_of_path + 1] not in _AROUND:
        return None
    return text[:start] + path.replace("\\", "/").rstrip("/").rpartition("/")[2] + text[end_of_path:]


def _written(arguments: Any) -> Iterator[str]:
    """Yield the texts that a call writes into a file, from its arguments. Old text is left out."""
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
    """Return the first few positions of each line."""
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
    """Return the number of lines from `start` on that the code repeats in order; 0 if it is below `least`."""
    longest = 0
    for place in places.get(contents[start], ()):
        # Most places fail the comparison of the last needed line.
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
