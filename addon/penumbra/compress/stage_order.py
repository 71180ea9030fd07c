"""This module lists the structural stages in their order."""

from __future__ import annotations

from penumbra.compress.calls import log_files
from penumbra.compress.calls.family_rules import prints
from penumbra.compress.calls.programs import reading_rule
from penumbra.compress.result import Loss
from penumbra.compress.stage import Shape, Source, Stage
from penumbra.compress.stages import (
    binary,
    excerpt,
    folding,
    json_minify,
    json_table,
    line_numbers,
    logs,
    markup,
    row_sample,
    search_hits,
)


def _line_numbers(text: str, source: Source) -> str | None:
    """If lossy stages may run, return the text with every twentieth line number, otherwise with all numbers
    but without their padding. Return None unless the call or the sign `→` shows that the numbers are not
    data."""
    call = source.call
    reads = call.category == "read" and not call.shell
    is_own = reads and line_numbers.may_be_the_files(text, source.original, call)
    numbered = call.is_numbered and not is_own and _begins_where_asked(text, source)
    if not numbered and not (call.category == "other" and "→" in text):
        return None
    return line_numbers.thin(text) if source.policy.lossy else line_numbers.unpad(text)


def _begins_where_asked(text: str, source: Source) -> bool:
    """Return whether numbers may be a tool's. Those of a read count code, or begin where the call asked."""
    if source.call.shell or source.call.category != "read" or line_numbers.count_code(text):
        return True
    first = line_numbers.first_number(text)
    # Some tools count from 0, and some write the first line after a tag.
    return first is not None and any(first - more in (0, *source.call.numbers) for more in range(3))


def _repeated(text: str, source: Source) -> str | None:
    return None if source.shape in (Shape.JSON, Shape.DIFF) else folding.fold(text)


def _blanks(text: str, source: Source) -> str | None:
    """Return the text of a program without needless blanks; None for other texts, in which blanks may
    matter."""
    call = source.call
    ran = call.category in ("bash", "other") and bool(call.family) and not call.mixed
    is_safe = source.shape is Shape.PLAIN and (ran or (not call.is_quoted and log_files.is_log("", text)))
    return folding.trim(text) if is_safe else None


def _web_page(text: str, source: Source) -> str | None:
    """Return a web page as text; None for other texts, and for the output of a command, whose markup may be
    wanted."""
    return markup.to_text(text) if source.call.category == "web" else None


def _hits(text: str, source: Source) -> str | None:
    """Return the text with its hits grouped by file. Lines of `nl x | grep -n` keep one number each."""
    if not search_hits.is_search(source.call):
        return None
    fed = [reading_rule(argv) for part in source.call.parts for argv in part.fed]
    is_numbered = any(rule is not None and rule.numbers for rule in fed)
    once = search_hits.NUMBERED_TWICE.sub(r"\1\2", text) if is_numbered else text
    return search_hits.group(once) or once


def _logs(text: str, source: Source) -> str | None:
    """Return a log with each pattern written only once. Lists of paths or hits, and separated values, are no
    logs. If the new form would still need an excerpt, the log stays, because an excerpt of original lines is
    clearer."""
    call = source.call
    is_listed = search_hits.is_search(call) or prints(call.family) == "names"
    is_log = (call.category in ("bash", "other") and not is_listed) or (
        call.category == "read" and log_files.is_log(call.path, text)
    )
    factored = logs.factor(text) if is_log and source.shape is Shape.PLAIN else None
    if factored is None or row_sample.is_separated(text):
        return None
    if not source.policy.lossy:
        return factored
    return None if excerpt.is_needed(factored, source) else factored


def _encoded_data(text: str, source: Source) -> str | None:
    may_be = source.shape is not Shape.JSON and source.call.category not in ("subagent", "read")
    return binary.named(text) if may_be else None


STRUCTURE: tuple[Stage, ...] = (
    Stage("line_numbers", Loss.REVERSIBLE, _line_numbers, quoted=True, deletes=True),
    Stage("web_page", Loss.LOSSY, _web_page, deletes=True, bares=True),
    Stage("json_minify", Loss.NONE, lambda text, _: json_minify.minify(text)),
    Stage("json_table", Loss.NONE, lambda text, _: json_table.to_tables(text)),
    Stage("group_hits", Loss.REVERSIBLE, _hits),
)
"""These stages run before the rules of the command family, and again if these rules change the text."""
AFTER_FAMILY: tuple[Stage, ...] = (
    Stage("fold_repeated", Loss.REVERSIBLE, _repeated, deletes=True),
    Stage("whitespace", Loss.NONE, _blanks, deletes=True),
    Stage("log_patterns", Loss.REVERSIBLE, _logs),
    Stage("encoded_data", Loss.LOSSY, _encoded_data, deletes=True),
    Stage("excerpt", Loss.LOSSY, excerpt.excerpt, quoted=True, deletes=True),
)
"""The stages after the rules of the command family."""
