"""In stack traces, this stage keeps the frames of the program and counts runs of library frames.

A frame has one line, or two if the language prints the source line below (Python). The first and the last
frame of a trace stay. All lines that are no frames also stay (messages, `Caused by:`, `... 12 more`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penumbra.compress import time_budget
from penumbra.compress.size import counted
from penumbra.compress.text import Text

_FRAME = re.compile(
    r'[ \t]+File "(?P<python>[^"]+)", line [0-9]+'
    r"|[ \t]+at (?P<at>[^\n]{1,400})\Z"  # JavaScript, Java, Kotlin, C#
    r"|[ \t]+from (?P<ruby>[^\n]{1,300}:[0-9]+:in .+)\Z"
    r"|#[0-9]+ (?P<php>(?:/|\[internal|phar:)[^\n]{1,300})\Z"
    r"|[ \t]+[0-9]+: +(?:0x[0-9a-f]+ - )?(?P<rust>[A-Za-z_<][\w:<>{}#&, ]{2,300})\r?\Z"
)
_GO = re.compile(r"\t(?P<file>[^\s:]{1,300}\.(?:go|s)):[0-9]+(?: \+0x[0-9a-f]+)?\r?\Z")
"""The second line of a frame in Go. The first line names the function."""
_BEGINNING = re.compile(r'\n(?:[ \t]+(?:File "|at |from |[0-9]+: )|#[0-9]+ |\t[^\s:]{1,300}\.go:)')
"""The beginnings of frames. If a text has too few, it is not examined further."""
_LIBRARY = re.compile(
    r"[/\\](?:site-packages|dist-packages|node_modules|gems|\.cargo[/\\]registry|rustc|vendor|\.pnpm)[/\\]"
    r"|[/\\]lib(?:64)?[/\\](?:python|ruby|node)[0-9.]*[/\\]"
    r"|<frozen |\bnode:|\binternal/|\[internal function\]"
    r"|^(?:java|javax|jdk|sun|com\.sun|kotlin|kotlinx|scala|groovy|clojure|akka|io\.netty"
    r"|org\.(?:springframework|apache|junit|hibernate|eclipse|gradle|codehaus|jboss|mockito|testng)"
    r"|java\.base|System|Microsoft|Xunit|NUnit)[./]"
    r"|^(?:<?(?:core|std|alloc|tokio|backtrace|rayon)::|__rust|rust_begin|_start\b|main\Z|__libc)"
    r"|[/\\]usr[/\\](?:local[/\\]go|lib)[/\\]|[/\\]pkg[/\\]mod[/\\]|[/\\]go[0-9.]*[/\\]src[/\\]"
)
_LEAST = 3
"""The smallest number of consecutive library frames that a count replaces."""


def fold(text: str) -> str | None:
    """Return the text with a count in place of each run of library frames; None if there is no such run."""
    if (
        "at " not in text
        and "File " not in text
        and "from " not in text
        and "\n#" not in text
        and "::" not in text
        and ".go:" not in text
    ):
        return None
    if len(_BEGINNING.findall("\n" + text)) <= _LEAST:
        return None
    lines = Text.of(text).lines
    frames = _frames(lines, "backtrace" in text.lower())
    written: list[str] = []
    position = 0
    changed = False
    while position < len(lines):
        trace = _trace(frames, position)
        if len(trace) <= _LEAST:
            written.append(lines[position])
            position += 1
            continue
        end = trace[-1][1]
        shown = _shown(lines, trace)
        changed |= len(shown) < end - position
        written += shown
        position = end
    return "\n".join(written) if changed else None


Frame = tuple[int, int, bool]
"""The first line of a frame, the line after its last line, and True for a library frame."""


def _frames(lines: Sequence[str], is_announced: bool) -> dict[int, Frame]:
    """Return the frames by their first line. `is_announced` is true if the text mentions a backtrace."""
    frames: dict[int, Frame] = {}
    for position, line in enumerate(lines):
        if not (position + 1) % time_budget.PIECE:
            time_budget.check()
        if len(line) > 500 or line[:1] not in (" ", "\t", "#"):
            continue
        match = _FRAME.match(line)
        if match is None:
            second = _GO.match(line)
            if second is not None and position and lines[position - 1].strip() and position - 1 not in frames:
                frames[position - 1] = (position - 1, position + 1, bool(_LIBRARY.search(second["file"])))
            continue
        is_placed = "".join(lines[position + 1 : position + 2]).lstrip().startswith("at ")
        if match["rust"] and not (is_placed or (is_announced and _is_symbol(match["rust"]))):
            continue
        name = next(group for group in match.groups() if group is not None)
        end = position + 1
        if match["python"] or match["rust"]:
            while end < len(lines) and end < position + 4 and _is_below(line, lines[end]):
                end += 1
            name += "\n" + "\n".join(lines[position + 1 : end]) if match["rust"] else ""
        frames[position] = (position, end, bool(_LIBRARY.search(name)))
    return frames


def _is_symbol(name: str) -> bool:
    """Return whether a name is a function's name. Blanks are allowed only in angle brackets."""
    depth = 0
    for character in name:
        depth += (character == "<") - (character == ">")
        if character == " " and depth <= 0:
            return False
    return "::" in name or bool(_LIBRARY.search(name))


def _is_below(frame: str, line: str) -> bool:
    """Return whether a line belongs to the frame above. Such a line is indented further and is no frame."""
    indent = len(frame) - len(frame.lstrip())
    return len(line) - len(line.lstrip()) > indent and bool(line.strip()) and not _FRAME.match(line)


def _trace(frames: dict[int, Frame], position: int) -> list[Frame]:
    """Return the consecutive frames that begin at a line."""
    trace: list[Frame] = []
    while position in frames:
        trace.append(frames[position])
        position = trace[-1][1]
    return trace


def _shown(lines: Sequence[str], trace: Sequence[Frame]) -> list[str]:
    written: list[str] = []
    run: list[Frame] = []
    for number, frame in enumerate(trace):
        if frame[2] and 0 < number < len(trace) - 1:
            run.append(frame)
            continue
        written += _run(lines, run)
        run = []
        written += lines[frame[0] : frame[1]]
    return written


def _run(lines: Sequence[str], run: Sequence[Frame]) -> list[str]:
    if len(run) < _LEAST:
        return [line for frame in run for line in lines[frame[0] : frame[1]]]
    indent = lines[run[0][0]][: len(lines[run[0][0]]) - len(lines[run[0][0]].lstrip())]
    # The count is of lines, because a reader may see fewer frames than this module does.
    count = sum(end - start for start, end, _ in run)
    return [f"{indent}[{counted(count, 'line')} of library frames left out]"]
