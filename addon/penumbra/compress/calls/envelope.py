"""An envelope is the lines that an agent writes around an output, such as exit code, wall time and shell
id."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from penumbra import rules
from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.failure_lines import failing
from penumbra.compress.size import size
from penumbra.linear import Linear, utf8

MAX_LINES = 16
"""At most this number of lines is split off at each end."""
TAIL_WINDOW = 1_000
"""A tail pattern is searched for in this number of characters before the end."""
_NOTICES = 4
"""Below a text, at most this number of notices is repeated with which the agent says that it has cut the
text."""
_LONGEST_NAMING = 800
"""A longer line, in characters, does not count as the line that names the edited file."""
_AROUND_PATH = ("", " ", '"', "'", "`", "(", ")", ":", ",", "\n")
"""A whole path is between two of these; empty at the ends of the text."""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The patterns for envelopes in rules/tools.yaml."""

    heads: re.Pattern[str]
    tails: Linear
    """An RE2 pattern for a tail at the end of a text."""
    openings: frozenset[str]
    """Lines after which the output begins."""
    first_notice: re.Pattern[str]
    last_notice: re.Pattern[str]
    """Patterns for the agent's notices, at both ends of an output, that it has cut the output."""
    cut: re.Pattern[str]
    sign_of_cut: Linear | None
    """The pattern `cut` in RE2, which is faster; None if RE2 might understand the pattern differently."""
    needless: list[tuple[re.Pattern[str], re.Pattern[str] | None]]
    """For each kind of needless line, its pattern, and a pattern for envelopes in which the line stays."""
    success: re.Pattern[str]
    """The pattern of a line that reports the success of a command."""
    failed: re.Pattern[str]


@rules.cached
def _patterns() -> _Patterns:
    envelopes = tool_rules().envelopes
    cut = _any(envelopes.cut)
    heads = [
        *envelopes.heads,
        *(rf"(?:{notice})\n+" for notice in envelopes.cut),
        *(rf"(?:{head})(?=[^\n])" for head in envelopes.inline_heads),
    ]
    return _Patterns(
        heads=re.compile(_any(heads)),
        tails=Linear(rf"(?:{_any(envelopes.tails)})\z".encode()),
        openings=frozenset(label.opening for label in envelopes.labels),
        first_notice=re.compile(rf"(?:{cut})\n"),
        last_notice=re.compile(rf"\n+(?:{cut})(?:\n+(?:{cut}))*\n*\Z"),
        cut=re.compile(cut),
        sign_of_cut=None if _OTHERWISE.search(cut) else Linear(cut.encode()),
        needless=[
            (re.compile(rule.line), re.compile(rule.unless) if rule.unless else None)
            for rule in envelopes.needless
        ],
        success=re.compile(envelopes.success or r"(?!)"),
        failed=re.compile(envelopes.failed),
    )


def _any(patterns: Sequence[str]) -> str:
    """Return one pattern for all alternatives. Without alternatives, the pattern never matches."""
    return "|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)"


def json_line(part: str) -> str:
    """Return a part of a JSON text, which does not end within a string, as one line."""
    return _LINE_BREAK.sub("", part)


class Envelope(NamedTuple):
    """An `Envelope` is a result in three parts: the output (`body`), and the text before and after it."""

    head: str
    body: str
    tail: str

    @classmethod
    def of(cls, text: str) -> Envelope:
        """Return the parts of a result. The head and the tail also have the agent's notices that it has cut
        the output."""
        return cls.of_lines(text).within_json()

    @classmethod
    def of_lines(cls, text: str) -> Envelope:
        """Return the parts of a result, with only whole lines of the agent around the output."""
        patterns = _patterns()
        start = 0
        for _ in range(MAX_LINES):
            match = patterns.heads.match(text, start)
            if not match or match.end() == start:
                break
            start = match.end()
            # The output begins after its opening line, unless a notice of a cut comes first.
            if match[0] in patterns.openings and not patterns.first_notice.match(text, start):
                break
        end = len(text)
        for _ in range(MAX_LINES):
            window = utf8(text[max(start, end - TAIL_WINDOW) : end])
            ending = patterns.tails.search(window)
            if not ending or ending.start() == len(window):
                break
            end -= len(window[ending.start() :].decode("utf-8", "surrogatepass"))
        else:
            window = utf8(text[max(start, end - TAIL_WINDOW) : end])
        if _may_say_cut(window):
            notice = patterns.last_notice.search(text, max(start, end - TAIL_WINDOW), end)
            end = notice.start() if notice else end
        return cls(text[:start], text[start:end], text[end:])

    def within_json(self) -> Envelope:
        """Return the envelope of the string in a body that is JSON in lines: one line before the content of
        the string, and one line after it. Return the same envelope for another body."""
        head, body, tail = self
        if body[:1] not in ("{", "["):
            return self
        stop = len(body) - body.endswith("\n")
        first, last = body.find("\n", 0, TAIL_WINDOW), body.rfind("\n", max(0, stop - TAIL_WINDOW), stop)
        is_string = body[: max(0, first)].rstrip(" ").endswith(":") and first < last
        if not is_string or not body.startswith((",", "}", "]"), last + 1):
            return self
        try:
            msgspec.json.decode(f'{body[:first]}""{body[last:]}')
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self
        return Envelope(head + body[: first + 1], body[first + 1 : last], body[last:] + tail)

    def without_needless(self, is_quoted: bool = False, *, asks_success: bool = False) -> Envelope:
        """Return the envelope without its needless lines and without tags around the output. Without an
        output, a line that reports success stays. With `asks_success`, such a line also stays below an
        output. A file may look like an envelope, so with `is_quoted`, lines are removed only if the head ends
        with an opening line."""
        head, body, tail = self
        if is_quoted and not head.endswith(tuple(_patterns().openings)):
            return self
        is_empty = not body.strip()
        first = _needed(_HEAD_LINE.findall(head), head + tail, is_empty)
        last = _needed(_TAIL_LINE.findall(tail), head + tail, is_empty or asks_success)
        for label in tool_rules().envelopes.labels:
            above = first.removesuffix(label.opening)
            is_around = first.endswith(label.opening) and (label.closing or not above) and label.needs in tail
            if is_around and is_empty and above and last == label.closing.lstrip("\n"):
                return Envelope(above.rstrip("\n"), "", "")
            # Without the tag, the lines above the output must still show where the output begins.
            is_certain = not is_empty and (not above or self.of(above + body).body == body)
            if is_around and is_certain and last == label.closing:
                return Envelope(above, body, "")
        return Envelope(first, body, last) if first or last or not is_empty else self


_MOST_TAGS = 9
"""More tags are the file's, and would take long to read."""
_TAG = re.compile(r"<(/?)([\w-]{1,40})[^<>]*>")
_NUMBER = re.compile(r"[ \t]{0,8}([0-9]{1,7})(?:→|\t|: |\| ?|:)")


def _opening_tags(text: str, path: str) -> str:
    """Return the tags before a file's first line that say nothing but its path; empty without such tags."""
    named = re.escape(path)
    tag = rf"<[\w-]{{1,40}}(?: [\w-]{{1,40}}=\"{named}\")?>(?:(?:{named}|file)</[\w-]{{1,40}}>)?\n?"
    match = re.match(rf"(?:{tag}){{1,{_MOST_TAGS}}}", text) if text.startswith("<") else None
    return match[0] if match is not None else ""


def _unclosed(text: str, opening: str) -> str | None:
    """Return the text without the end tags of the tags that `opening` leaves open. Return None if `opening`
    leaves none open, or if the text ends otherwise. The file's last line may end with tags of its own."""
    names: list[str] = []
    for slash, name in _TAG.findall(opening):
        if slash:
            del names[-1:]
        else:
            names.append(name)
    inner = text.removesuffix("\n")
    for name in names:
        if not inner.endswith(f"</{name}>"):
            return None
        inner = inner.removesuffix(f"</{name}>").removesuffix("\n")
    return inner if names else None


def _names(tags: str, path: str) -> bool:
    """Return whether a value or a text between the tags is the path."""
    return bool(path) and (f'"{path}"' in tags or f">{path}<" in tags)


def file_alone(text: str, path: str, numbers: Collection[int]) -> str | None:
    """Return the numbered lines of a file that a tool read, without the tags around them. Return None without
    such tags, and if tags and numbers may be the file's own: they do not name the path, and the numbers are
    not padded. The first number must be 0, 1, one of the call's `numbers`, or one more than one of these."""
    opening = _opening_tags(text, path)
    inner = _unclosed(text[len(opening) :], opening)
    if inner is None:
        return None
    first = _first_of_counted(inner)
    is_tools = _names(opening, path) or inner.startswith((" ", "\t", "0"))
    return inner if first is not None and is_tools and {first, first - 1} & {0, *numbers} else None


def with_name(text: str, path: str) -> str | None:
    """Return the acknowledgement of an edit with the name of the file in place of its path. Return None if
    the first line reports a failure, is too long, or does not contain the whole path exactly once."""
    end = text.find("\n") + 1 or len(text)
    start = text.find(path, 0, end) if path else -1
    if start < 0 or end > _LONGEST_NAMING or text.find(path, start + 1, end) >= 0 or failing([text[:end]]):
        return None
    end_of_path = start + len(path)
    if text[start - 1 : start] not in _AROUND_PATH or text[end_of_path : end_of_path + 1] not in _AROUND_PATH:
        return None
    return text[:start] + path.replace("\\", "/").rstrip("/").rpartition("/")[2] + text[end_of_path:]


def is_in_tags(text: str, path: str) -> bool:
    """Return whether a text begins with tags that name this file, followed by a line number."""
    opening = _opening_tags(text, path)
    return _names(opening, path) and _NUMBER.match(text, len(opening)) is not None


def _first_of_counted(text: str) -> int | None:
    """Return the number of the first line if numbers grow by one from line to line; otherwise None. Below the
    lines may be notes in brackets."""
    first = following = None
    lines = iter(text.split("\n"))
    for line in lines:
        match = _NUMBER.match(line)
        if match is None:
            is_note = not line and all(not rest or (rest[0], rest[-1]) == ("(", ")") for rest in lines)
            return first if is_note else None
        if following is not None and int(match[1]) != following:
            return None
        first = int(match[1]) if first is None else first
        following = int(match[1]) + 1
    return first


_LINE_BREAK = re.compile(r"[ \t\r]*\n[ \t\r]*")
_HEAD_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_TAIL_LINE = re.compile(r"\n?[^\n]+(?:\n\Z)?|\n")


def _needed(lines: list[str], envelope: str, keeps_success: bool) -> str:
    """Return those lines of an envelope's head or tail that stay."""
    patterns = _patterns()
    needless = [line for line, unless in patterns.needless if unless is None or not unless.search(envelope)]
    return "".join(
        line
        for line in lines
        if (keeps_success and patterns.success.search(line))
        or not any(pattern.fullmatch(line.strip("\n")) for pattern in needless)
    )


def tells_failure(head: str, tail: str) -> bool:
    """True if an envelope names an exit code other than 0."""
    return any(_patterns().failed.search(part) for part in (head, tail) if part)


def with_cut_noted(text: str, whole: str, space: int, around: str = "") -> str:
    """Return `text`, the shortened form of `whole`. If the agent had cut `whole` and `space` bytes are
    enough, a line below says so. The line repeats notices that neither `text` nor `around` has."""
    notices = dict.fromkeys(notice[0] for notice in _patterns().cut.finditer(whole)) if is_cut(whole) else {}
    if not notices:
        return text
    gone = [notice for notice in notices if notice not in text and notice not in around][:_NOTICES]
    end = "" if text.endswith("\n") else "\n"
    for named in (f" ({'; '.join(gone)})" if gone else "", ""):
        line = f"{end}[counts are of what the client sent, which it had cut before{named}]"
        if size(line) <= space:
            return text + line
    return text


def is_cut(text: str) -> bool:
    """True if a text contains an agent's notice that the text was cut."""
    return _may_say_cut(utf8(text)) and _patterns().cut.search(text) is not None


def _may_say_cut(data: bytes) -> bool:
    sign = _patterns().sign_of_cut
    return sign is None or sign.search(data) is not None


_OTHERWISE = re.compile(r"\\[A-Za-mo-qsu-z0-9]|\(\?(?!:)")
"""Syntax that Python and RE2 may understand differently: classes, flags and lookarounds."""
