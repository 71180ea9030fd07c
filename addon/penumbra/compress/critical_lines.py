"""The lines that no stage may drop: errors, failures, assertions, panics, frames, exit codes, summaries.

A line is looked at only when a stage wants to drop it, so the price of the guard grows with what
is dropped. One linear-time pattern over the dropped lines finds candidates. A line that bears the mark
of something that passed is none, whatever else it says: a test may be called "reports an error".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

import re2

from penumbra.compress.size import encode
from penumbra.linear import Linear

_WORDS = (
    r"(?:errors?|fatal|panic|panicked|fail|failed|failing|fails|failures?|assert|assertion|asserts"
    r"|exceptions?|traceback|abort|aborted|unhandled|uncaught|segfault|denied|refused|timed ?out"
    r"|undefined reference|cannot|can't|could not|not found|no such|unable to|rejected|conflicts?"
    r"|critical|corrupt\w*|killed|oomkilled|crashed|crashloopbackoff"
    r"|severe|emerg|emergency|err|not ok|segmentation fault|core dumped|out of memory)"
)
ABROAD = (
    r"(?:\b(?i:fehler|fehlgeschlagen|gescheitert|verweigert|abgebrochen|nicht gefunden"
    r"|erreurs?|introuvable|fallos?|fallid[oa]s?|denegad[oa]|errores|erro|falha|falhou|negad[oa]"
    r"|errore|errori|fallit[oaie]|negat[oa])\b|\bfalló"
    r"|(?:é|É|e|E)chec\b|(?:é|É)chou|ÉCHEC\b|ÉCHOUÉ"
    r"|ошибка|ошибки|Ошибка|ОШИБКА|не удалось|Не удалось|не найден|отказано"
    r"|błąd|Błąd|エラー|失敗|失败|错误|錯誤|拒绝|拒絕|无法|無法|오류|실패)"
)
"""Severe words in the languages that systems, compilers and tools are translated into."""
_PATTERN = Linear(
    (
        rf"(?im)(?:\b{_WORDS}\b|(?-i:{ABROAD})"
        r"|(?-i:\b[A-Z]\w*(?:Error|Exception|Warning)\b)"
        r"|\b(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode|status code)[ :=]+-?[0-9]+"
        r"|^ *File \"[^\"\n]+\", line [0-9]+"
        r"|^\s+at \S.*[(: ]\S+:[0-9]+"
        r"|\b[0-9]+ (?:passed|failed|errors?|warnings?|skipped|vulnerabilit|tests?|problems?)"
        r"|(?-i:^ *(?:Tests?|TESTS?|Test Suites|Test Files|Suites|Snapshots|Summary|SUMMARY|Total|TOTAL"
        r"|Result|RESULT|Ran)[ \t:=][^\n]{0,40}[0-9])"
        r"|^ *(?:tests?|suites|snapshots|summary|total|result)[:=][^\n]{0,40}[0-9]"
        r"|^test result:"
        r"|^E {2,}\S"
        r"|(?-i:\bFailed[A-Z]\w+|\b\w*BackOff\b|\b(?:Unhealthy|Evicted)\b)"
        r"|^\s*● [^\n]{1,200} › |^rspec \./\S"
        r"|^\s*(?:[A-Za-z]:)?[\w./\\@+~-]+\.\w{1,8}[:(][0-9]+[:,][0-9]+\)?:? +\S"
        r"|\bat \S+\.(?:pl|pm|t|cgi) line [0-9]"
        r"|✗|✘|❌|✖)"
    ).encode()
)
_TO_LINE_END = re2.compile(rb"(?:" + _PATTERN.pattern + rb")[^\n]*")
_STARTED = (
    r"(?:[✓✔√✅☑]|=== (?:RUN|PAUSE|CONT|NAME)\b|--- PASS:|\(pass\)"
    r"|ok(?: [0-9]|\s+\S+\s+(?:[0-9.]+s|\(cached\)))"
    r"|PASS(?:ED)?\b|Passed [A-Za-z]|\[ *(?:OK|PASS(?:ED)?) *\]|\[gw[0-9]+\] +\[ *[0-9]+%\] +PASSED\b)"
)
_ENDED = (
    r"(?:(?:\s|:|\.|\()PASS(?:ED)?\)?|\.\.\. ?(?:ok|OK|passed)|\[ *(?:ok|OK|PASS(?:ED)?|passed) *\]"
    r"|\bPassed +[0-9.]+ sec|\bSUCCESS \[ *[0-9.:]+ *(?:s|min)\]|✓|✔)"
    r"(?: *[\[(] *[0-9.,]+ *(?:%|ms|s|sec|secs)? *[\])]| +in [0-9.]+ ?s| +[0-9.]+ ?m?s)?"
)
RUNNER = r"@?[\w./-]+[ :][\w:.-]*(?:test|spec|check|e2e)[\w:.-]*: "
"""A package and its script."""
_PREFIX = rf"(?:[\w.-]+ +\| |{RUNNER})?(?:\[?[0-9TZ:.,+ -]{{8,35}}\]? +)?[ \t]*"
"""The text that services and time stamps put before a line."""
_WHAT = r"(?:(?:tests?|examples?|specs?|suites?|files?|checks?|jobs?|targets?|steps?|errors?|assertions?) )?"
SOME_FAILED = (
    rf"(?i:\b[1-9][0-9]* {_WHAT}(?:failed|failing|fail|failures?|errors?|errored|problems?)"
    r"(?:[^\w\s]| *$| (?:in|out of|and|found|generated|tests?|[0-9|])))"
)
"""A count of what failed."""
FAILED_SOME = r"(?i:\b(?:failed|failing|failures?|errors?)\"?[:=] *[1-9])"
"""The words of a failure with the count after them."""
_PASSED = re2.compile((rf"^{_PREFIX}{_STARTED}|{_ENDED}\s*$").encode())
_SOME_PASS = Linear(b"(?m)" + _PASSED.pattern)
"""Matches in a text if one of its lines says that something passed: most texts have none."""
_FAILED_TOO = re2.compile(rf"[✗✘❌✖]|\bnot ok\b|{SOME_FAILED}|{FAILED_SOME}".encode())
_LINE_LIMIT = 4_000
"""Characters of a line that are looked at: a longer line is data, not a message."""
_SEARCHES = 64
"""Lines that are looked for inside other lines before the answer is no: bounds the work."""


class Severity(IntEnum):
    """The severity of a critical line: lower ones come first where not all of them fit."""

    FAILURE = 0
    """Named failures and breakdowns, and the end of the whole."""
    ERROR = 1
    COMPLAINT = 2
    """Something that did not work, without being called an error."""
    MENTION = 3
    """Warnings, frames of traces, counts of nothing, words in lines that inform."""


_FAILINGS = r"(?:failed|failing|fail|failures?|errors?|warnings?|problems?|vulnerabilities|exceptions?)"
_NOTHING = re2.compile(
    (
        rf"(?i)\b(?:0|no|zero|without)(?: \w+)?[ :=]+{_FAILINGS}\b"
        rf"|\b{_FAILINGS}\"?[:=] *(?:0\b|null|none|false|\[\]|\{{\}}|\"\")"
        r"|\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]+0\b"
    ).encode()
)
"""Statements that nothing failed."""
LEVEL = r"(?i:\b(?:level|severity|lvl)[\"']? *[:=] *[\"']?"
"""A field with the level of a line; its value and a closing parenthesis follow."""
_FAILURE = re2.compile(
    (
        r"\b(?:FAILED|FAILURES?|FAIL|FATAL|CRITICAL|PANIC|EMERG|SEVERE|ABORTED|OOMKilled|CrashLoopBackOff)\b"
        r"|(?i:\bfatal\b|\bpanic(?:ked)?\b|\b(?:unhandled|uncaught|segfault|crashed|crashloopbackoff|oomkilled)\b"
        r"|\bsegmentation fault|\bcore dumped|\bout of memory|\bnot ok\b|\bkilled\b"
        r"|\btraceback \(most recent)"
        r"|✗|✘|❌|✖|^\s*Failed \S+ \[|^\s*● .* › |^rspec \./"
        rf"|{SOME_FAILED}|{FAILED_SOME}"
        r"|(?i:\b(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode)[ :=]+-?[1-9])"
        r"|(?i:\"(?:status|conclusion|state|result|outcome)\" *: *\"(?:fail|error|crash|abort))"
        rf"|{LEVEL}(?:fatal|crit|emerg|alert|panic))"
    ).encode()
)
_ERROR = re2.compile(
    (
        r"(?i:\berrors?\b *(?:\[[\w-]+\]|\(?[A-Z]{0,10}-?[0-9]+\)?)?[\"']?[:\]])"
        r"|(?i:^\W*error\b|: error\b| +error +|\bassert(?:ion)?\b|\b(?:failed|failure)\b)"
        r"|\b(?:ERROR|ERR|ERR!|E)\b[ :!\]|]|\b[A-Z]\w*(?:Error|Exception)\b|^E {2,}\S"
        rf"|{LEVEL}err)|{ABROAD} ?(?::|：)"
    ).encode()
)
_COMPLAINT = re2.compile(
    ABROAD.encode()
    + rb"|(?i:\b(?:denied|refused|timed ?out|undefined reference|cannot|can't|could not|not found|no such"
    rb"|unable to|rejected|conflicts?|corrupt\w*|aborted|fails?|failing|exceptions?|errors?|err)\b)"
    rb"|\bFailed[A-Z]|BackOff\b|\b(?:Unhealthy|Evicted)\b|^\s*[^\s:(]+[:(][0-9]+[:,][0-9]+\)?:? "
)
_CALM = re2.compile(
    (
        r"^(?:.{0,60}[\s\[|\"'=])?(?:WARN(?:ING)?|INFO|DEBUG|TRACE|NOTICE|VERBOSE)(?:[\s\]|:,\"']|$)"
        rf"|{LEVEL}(?:warn|info|debug|trace|notice))"
        r"|^(?i:.{0,60}\b(?:warning|warn|note|hint|help)[:\[])"
    ).encode()
)
"""A level that is none of an error."""
_NAME = re2.compile(
    rb"(?:[~.@]?[/\\]|[.@~][\w.@~+-]*[/\\]|[a-z0-9_][\w.@~+-]*[/\\][\w.@~+-]*[/\\])"
    rb"[\w.@~+-]*(?:[/\\][\w.@~+-]+)*[/\\]?"
    rb"|@?[\w.-]*\w@[~^]?v?[0-9][\w.+-]*"
    rb"|^\W*[a-z0-9_.-]+ v[0-9]+\.[0-9][\w.+-]*"
    rb"|\b[\w.-]+\.(?:[cm]?[jt]sx?|py|go|rs|java|rb|php|cs|kt|swift|[ch](?:pp)?|cc|log|md|json|toml|txt"
    rb"|ya?ml|html?|css)\b"
)
"""Paths, names of files, and packages with their versions: `http-errors@2.0.1` tells of no error."""
_STATED = re2.compile(rb"(?i)^[\s\[(]*(?:fatal|error|failure|panic|critical)(?:[ :@]|$)")
"""A failure is stated first: what stands after it is no package of that name."""
_ENDING = re2.compile(rf"\b(?:FAILED|FAILURES?|FAIL)\b|{SOME_FAILED}|{FAILED_SOME}".encode())
"""The end of something, at any level."""


def _set_of(*patterns: Any) -> re2.Set:
    """Finds in one walk over a line which of the patterns it holds."""
    options = re2.Options()
    options.max_mem = _SET_MEMORY
    searched = re2.Set.SearchSet(options)
    for pattern in patterns:
        searched.Add(pattern.pattern)
    searched.Compile()
    return searched


_SET_MEMORY = 1 << 25
_MARKS = (_PASSED, _FAILED_TOO, _NOTHING, _CALM, _ENDING, _FAILURE, _ERROR, _COMPLAINT, _NAME)
_SET = _set_of(*_MARKS)
_SET_OF_PASSING = _set_of(*_MARKS[:2])
_HAS_PASSED, _HAS_FAILED, _IS_NOTHING, _IS_CALM, _IS_ENDING = range(5)
_IS_FAILURE, _IS_ERROR, _IS_COMPLAINT, _HAS_NAME = range(5, len(_MARKS))


def is_passing(line: bytes) -> bool:
    """True if a line says that something passed, and not that something else failed."""
    marks = _SET_OF_PASSING.Match(line)
    return bool(marks) and _HAS_PASSED in marks and _HAS_FAILED not in marks


def is_critical(line: str) -> bool:
    """True if this one line carries an error, a failure, a location of one, or a summary."""
    data = encode(line[:_LINE_LIMIT])
    return bool(_PATTERN.search(data)) and not is_passing(data)


def severity(line: bytes) -> Severity:
    """The severity of a line that `_PATTERN` finds."""
    return _severity(line, _SET.Match(line) or ())


def severity_unless_passing(line: bytes) -> Severity | None:
    """The severity of a line; None if the line reports a pass."""
    marks = _SET.Match(line) or ()
    if _HAS_PASSED in marks and _HAS_FAILED not in marks:
        return None
    return _severity(line, marks)


def _severity(line: bytes, marks: Sequence[int]) -> Severity:
    if _IS_NOTHING in marks or (_HAS_NAME in marks and not _STATED.match(line)):
        # The remainder of a name still names a place.
        said = _NOTHING.sub(b"", _NAME.sub(b"./x.x", line))
        if not _PATTERN.search(said):
            return Severity.MENTION
        marks = _SET.Match(said) or ()
    if _IS_CALM in marks:
        return Severity.FAILURE if _IS_ENDING in marks else Severity.MENTION
    if _IS_FAILURE in marks:
        return Severity.FAILURE
    if _IS_ERROR in marks:
        return Severity.ERROR
    return Severity.COMPLAINT if _IS_COMPLAINT in marks else Severity.MENTION


def says_as_much(line: str, other: str) -> bool:
    """True if another form of a critical line is as severe as the line."""
    return is_critical(other) and severity(encode(other[:_LINE_LIMIT])) <= severity(
        encode(line[:_LINE_LIMIT])
    )


def critical_lines(lines: Sequence[str]) -> Iterator[int]:
    """Positions of the critical lines, in order: less work than asking for each by itself."""
    data = encode("\n".join([line[:_LINE_LIMIT] for line in lines]))
    position = start = 0
    some_pass: bool | None = None
    while (match := _PATTERN.search(data, start)) is not None:
        left, right = match.span()
        position += data.count(b"\n", start, left)
        if some_pass is None:
            some_pass = _SOME_PASS.search(data, data.rfind(b"\n", 0, left) + 1) is not None
        if data.find(b"\n", left, right) >= 0:
            # The match crosses the line's end.
            if is_critical(lines[position]):
                yield position
        elif not some_pass or not is_passing(encode(lines[position][:_LINE_LIMIT])):
            yield position
        end = data.find(b"\n", left)
        if end < 0:
            return
        position, start = position + 1, end + 1


def candidates(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    """(start, end) of what makes each line critical at or after `start`, up to the line's end, in bytes.

    Lines that report a pass are included.
    """
    for match in _TO_LINE_END.finditer(data, start):
        left, right = match.span()
        yield max(left, data.rfind(b"\n", left, right) + 1), right


def next_match(data: bytes, start: int) -> tuple[int, int] | None:
    """(start, end) of the next thing at or after `start` that makes a line critical, in bytes.

    The match lies within one line. Lines that report a pass are included.
    """
    match = _PATTERN.search(data, start)
    if match is None:
        return None
    left, right = match.span()
    return max(left, data.rfind(b"\n", left, right - 1) + 1), right


def normal(line: str) -> str:
    """A line as the guard compares it: runs of blanks become one, the ends are trimmed."""
    return " ".join(line.split())


def keeps_critical(before: str, after: str) -> bool:
    """True if every critical line of `before` still stands in `after`, as often as it did.

    A line counts as kept when it is a line of `after`, or a part of one, blanks aside.
    """
    wanted = Counter(map(normal, before.split("\n")))
    wanted.subtract(Counter(map(normal, after.split("\n"))))
    critical = [key for key, missing in wanted.items() if missing > 0 and key and is_critical(key)]
    if len(critical) > _SEARCHES:
        return False
    counts = Counter(map(normal, before.split("\n"))) if critical else Counter[str]()
    joined = normal(after) if critical else ""
    return all(joined.count(key) >= counts[key] for key in critical)
