"""True if a line states a failure in a form in which programs do, or only speaks of one.

    src/a.c:120:9: error: expected ';'                     states one
    We still can't tell conflicts from failed merges.      speaks of some

Tools that nobody knows print texts that people wrote as often as what went wrong: there only the first kind
is a failure.
"""

from __future__ import annotations

import re2

from penumbra.compress.critical_lines import ABROAD, FAILED_SOME, LEVEL, RUNNER, SOME_FAILED

_NOT_LETTER = r"[^\w\n]{0,12}"
_BEFORE = (
    rf"(?:^|\t|\": ?\"){_NOT_LETTER}(?:[\w.@/-]+ +\| *|{RUNNER}|\S+\t[^\t\n]*\t)?"
    r"(?:[0-9][0-9TZ:.,/+-]{3,40}[\])]? *|[A-Z][a-z]{2} {1,2}[0-9]{1,2} +[0-9:.]{5,15} |\[[^\]\n]{1,60}\] *"
    rf"|[\w-]+\[[0-9]+\]: *){{0,4}}{_NOT_LETTER}"
)
"""The text before a statement, in a line, a cell or a string of JSON: marks, names of services, times, fields
in brackets."""
_END = r"(?:\W*$|\t|\\?\")"
_CALLED = r"(?:fatal|error|err|failure|failed|panic|exception|critical|severe|uncaught|unhandled)"
_CAPITALS = r"(?:FAILED|FAILURES?|FAIL|FATAL|CRITICAL|PANIC|EMERG|SEVERE|ABORTED|ERROR|ERR!|ERR)\b"
_WHO = r"(?:[\w./@+-]{1,60}:? )?"
_TOTALS = r"(?:tests?|test suites|test files|suites|summary|total|result|ran|found|[0-9]+ problems)"
_STATEMENTS = (
    # A word for it that ends in a colon, or stands in capitals.
    rf"{_WHO}(?i:(?:[\w-]+ )?{_CALLED}(?: ?\[[\w-]+\]| [A-Z]{{0,10}}-?[0-9]+)?[\])]?:(?:\s|$))",
    rf"{_WHO}{_CAPITALS}",
    rf"[\[(](?i:{_CALLED})[\])][:\s]",
    r"(?i:error (?:(?:response )?(?:from|while|during) [^:\n]{1,80}: |code[:=]? *-?[1-9]|[0-9]+ \(\w+\): ))",
    r"(?:[Ff]ailed|[Uu]nable) to \w+ \S",
    r"[EF]: ",
    rf"##\[(?i:{_CALLED})\]",
    # A package manager's level, which stands before each line of its message.
    r"(?:npm|pnpm|yarn) error [^\n]*[a-z]{2} ",
    # An exception by its name.
    r"(?:Caused by: )?[\w.$:]*(?:[A-Z]\w*|\b)(?:Error|Exception)\b(?: \[\w+\])?(?::|\(|\) |$| in | at )",
    # R's, of a call.
    r"Error in .{1,120} : ",
    rf"(?i:traceback \(most recent|segmentation fault|killed{_END}|out of memory|core dumped)",
    r"(?i:(?:uncaught|unhandled) \w|thread '[^'\n]*' panicked|panicked at )",
    # A mark of something that failed.
    r"# +Failed (?:\(TODO\) )?test|# Failure message: ",
    r"E {2,}\S|not ok\b|--- FAIL:|\(fail\) |● .* › |rspec \./|make(?:\[[0-9]+\])?: \*\*\* ",
    # A program and its code for what failed.
    r"[\w-]{1,40}: \([0-9]{1,4}\) \S",
    # The end of a run.
    r"(?i:(?:\w+ ){0,4}exit(?:ed)?(?: with)?(?: code| status)?[ :=]+-?[1-9])",
    rf"(?i:(?:{_TOTALS}\b.{{0,60}})?{SOME_FAILED})",
    # A place in a file, and what is said of it.
    r"\S+\.\w{1,8}[:(][0-9]+[:,][0-9]+\)?: \S",
    r"\S+\.\w{1,8}:[0-9]+:in [`'].*\(\w+(?:Error|Exception)\)",
)
_PLACE = r"\S\.\w{1,8}[:(][0-9]+(?:[:,][0-9]+)?\)?:? +"
_SYSTEMS = (
    r"(?i:no such file or directory|permission denied|command not found|not found|connection refused"
    r"|(?:operation|connection) timed out)"
)
_ANYWHERE = (
    r"[✗✘❌✖]",
    # After what is told of each thing alike: `order.tar … ERROR: access denied`.
    r"(?:\.\.\.|…|->|=>|[ )\]]:) *(?:FAILED|FAILURE|FATAL|ERROR|(?i:error|failed)):? +\S",
    rf"{ABROAD} ?(?::|：) *\S|{ABROAD} [1-9][0-9]*$|(?:\.\.\.|…) *{ABROAD}",
    rf"\bFAILED(?: +[\[(][^\])\n]{{0,20}}[\])])?{_END}",
    r"[\[(](?:FAIL(?:ED|URE)?|ERROR)(?: (?:in )?[0-9][^\])\n]{0,20})?[\])]$",
    r"(?i:\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]+-?[1-9][0-9]{0,2}\W*$)",
    rf"\.\.\. *(?:FAIL|ERROR){_END}",
    # A frame of a stack.
    r"File \"[^\"\n]+\", line [0-9]+|^\s*at [\w.$<>/]+\(\w+\.(?:java|kt|scala):[0-9]+\)",
    r"\bOut of memory: |\(HTTP [45][0-9]{2}\)$",
    rf"{_PLACE}(?i:-? *(?:fatal )?(?:error|failed|failure)\b)",
    # Systems' messages at the end of a line.
    rf": {_SYSTEMS}{_END}",
    r"\bat \S+\.(?:pl|pm|t|cgi) line [0-9]+\.$",
    # Fields and states.
    rf"{LEVEL}(?:err|fatal|crit|emerg|alert|panic))",
    r"(?i:\"(?:status|conclusion|state|result|outcome)\" *: *\"(?:fail|error|crash|abort))",
    r"(?i:\"(?:fail(?:ed|ures?)?|errors?)\" *: *(?:[1-9]|\"[^\"]))",
    FAILED_SOME,
    r"\b(?:\w*BackOff|OOMKilled|Evicted)\b",
)
_STATED = re2.compile("|".join([f"{_BEFORE}(?:{'|'.join(_STATEMENTS)})", *_ANYWHERE]).encode())


_QUOTED = re2.compile(rb"^\s*(?:[+-](?: {2}|\t)|</?[A-Za-z]|\{/\*|// |[\w:-]+=[\"'{]|\S+\s*$)")
"""Lines of a difference, markup, comments and attributes in code, and single words."""


def is_quoted(line: bytes) -> bool:
    """True if a line is a piece of code or of a document, as runs show them around what failed."""
    return bool(_QUOTED.match(line))


def is_stated(line: bytes) -> bool:
    """True if a line that may be a failure line states a failure."""
    return bool(_STATED.search(line))


_LAST = 2_000
"""Bytes at the end of a run in which it says how it ended."""
_PASSED = re2.compile(
    rb"(?im)^[ =\t]*(?:[0-9]+ pass(?:ed|ing)?\b|tests?:? +[0-9]+ passed|test result: ok"
    rb"|ran [0-9]+ tests? |[0-9]+ (?:examples|tests|specs)?,? ?0 fail)"
)
_EXIT = r"(?i:\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]+-?[1-9])"
_COUNTED = r"^[ =\t]*(?i:tests?:? +|test [a-z]+:? +|errors?:? +|.{0,80}\bpass(?:ed|ing)\b.{0,80}?)?"
_OF_TOOLS = (
    r"[:)] (?:fatal )?error(?: [A-Z]{1,10}-?[0-9]+)?: |^error(?:\[[\w-]+\]: |: could not compile )"
    r"|^npm (?:ERR!|error) |^\W*(?i:unhandled (?:errors?|rejections?|exceptions?))\b"
)
"""Messages of compilers, package managers and runners: no test prints them itself."""
_FAILED = re2.compile(
    (
        rf"(?m){_COUNTED}(?:{SOME_FAILED}|[1-9][0-9]* fail\b)|{_OF_TOOLS}"
        rf"|\bFAIL(?:ED|URES?)?\b|^(?:FATAL|ERROR)\b|\(fail\)|\bnot ok\b|[✗✘❌✖]|{_EXIT}"
        r"|(?i:panic|segmentation fault)"
    ).encode()
)
"""The words of a runner about a failure."""


def none(data: bytes) -> bool:
    """True if a run of tests ends by saying that they passed: what it printed of failures was meant to be."""
    return bool(_PASSED.search(data[-_LAST:])) and not _FAILED.search(data)
