"""This module writes a request as text for people: a summary, the differences of new results, the
conversation, and earlier results. A message is shown as lines: its texts, calls, reasoning, and the places of
its results. Original and sent texts are compared line by line, and removed and added lines are marked."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from msgspec import Raw

from penumbra.apis.parts import Conversation, ResultText
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.apis.recognise import Api, model_in
from penumbra.errors import counted
from penumbra.explain.result_facts import ResultFacts
from penumbra.explain.text_lines import (
    LONGEST_SEARCHED,
    MOST_LINES,
    TOO_MUCH_TO_READ,
    Line,
    Mark,
    Search,
    Show,
    bounded,
    head,
    is_too_much,
    note,
    plain,
    quoted,
    wrapped,
)
from penumbra.wire.document import Document

_MOST_LINES = 2_000
"""Greatest number of lines of each text that are compared. The time grows with the square of this number."""
_LONGEST = 2_000
"""Greatest number of characters of a line that are shown."""
_NO_LETTERS = re.compile(r"[\W\d_]")
_LEAST_LETTERS = 4
"""A line with fewer letters is not paired with a longer line that ends in the same letters."""
_MOST_MATCHED = 200_000
"""If more pairs of different lines are possible, no ends of lines are compared."""
_AROUND = 3
"""Number of equal lines that are shown on either side of a difference."""
Row = list[Any]
"""A row is `[kind, left number, left line, right number, right line]` or `["gap", number of hidden rows]`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A `Comparison` has rows of the kinds `same`, `changed`, `removed`, `added` and `gap`."""

    rows: list[Row]
    is_cut: bool


def compare(before: str, after: str) -> Comparison:
    left, right = before.split("\n"), after.split("\n")
    is_cut = max(len(left), len(right)) > _MOST_LINES
    left, right = left[:_MOST_LINES], right[:_MOST_LINES]
    rows: list[Row] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, left, right).get_opcodes():
        if kind == "equal":
            rows += _equal(left, a, b, c, first=a == 0, last=b == len(left))
            continue
        for old, new in _pairs(left[a:b], right[c:d]):
            name = "removed" if new is None else "added" if old is None else "changed"
            old, new = old and old + a, new and new + c
            rows.append([name, *_side(left, old), *_side(right, new)])
    return Comparison(rows, is_cut)


def _pairs(left: list[str], right: list[str]) -> Iterator[tuple[int | None, int | None]]:
    """Yield pairs of line numbers (from 1). A line without a partner is paired with None. A right line is
    paired with a left line that ends in the same letters. Other right lines, such as an omission marker, are
    placed beside the first left line that they replace."""
    before, after = ([_NO_LETTERS.sub("", line) for line in lines] for lines in (left, right))
    endings = dict.fromkeys(before)
    if len(endings) * len(set(after)) <= _MOST_MATCHED:
        whole = {key: next((each for each in endings if each.endswith(key)), key) for key in set(after)}
        after = [whole[key] if len(key) >= _LEAST_LETTERS else key for key in after]
    for _, a, b, c, d in difflib.SequenceMatcher(None, before, after).get_opcodes():
        yield from zip_longest(range(a + 1, b + 1), range(c + 1, d + 1))


def _equal(left: list[str], a: int, b: int, c: int, *, first: bool, last: bool) -> list[Row]:
    rows: list[Row] = [["same", n + 1, _line(left[n]), n - a + c + 1, _line(left[n])] for n in range(a, b)]
    head, tail = (0 if first else _AROUND), (0 if last else _AROUND)
    hidden = len(rows) - head - tail
    if hidden <= 1:
        return rows
    return [*rows[:head], ["gap", hidden], *(rows[-tail:] if tail else [])]


def _side(lines: list[str], index: int | None) -> Row:
    return [None, None] if index is None else [index, _line(lines[index - 1])]


def _line(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_BLOCK = 60


def difference_lines(before: str, after: str) -> list[Line]:
    compared = compare(before, after)
    shown: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for row in compared.rows:
        if row[0] in ("same", "gap"):
            shown += _block(left, right)
            left, right = [], []
            shown.append(_equal_lines(row))
            continue
        _, number, old, other, new = row
        if number is not None:
            left.append(Line(Mark.REMOVED, f"  - {number:>5} {plain(old)}"))
        if other is not None:
            right.append(Line(Mark.ADDED, f"  + {other:>5} {plain(new)}"))
    shown += _block(left, right)
    if compared.is_cut:
        shown.append(note("        … the rest is not compared"))
    return shown


def _equal_lines(row: Row) -> Line:
    if row[0] == "gap":
        return note(f"        … {row[1]:,} lines that are the same")
    return Line(Mark.TEXT, f"    {row[3]:>5} {plain(row[4])}")


def _block(left: list[Line], right: list[Line]) -> list[Line]:
    return [
        *bounded(left, _BLOCK, "lines of the original"),
        *bounded(right, 2 * _BLOCK, "lines that were sent"),
    ]


_BEGINNING = 240
_MOST_ARGUMENTS = 100
"""Greatest number of lines of arguments that are shown."""
_MOST_PARTS = 1_000
"""Greatest number of parts of one message that are shown."""
_DEEPEST = 20
"""Greatest depth of arguments that are indented."""
_MOST_TEXT = 2_000
"""Greatest number of lines of a text that are shown."""
HIDDEN = "hidden from the client"
Result = Callable[[Part], list[str]]
"""A `Result` is a function that returns the lines of a result, one for each of its texts."""


def outline(
    document: Document, message: Message, search: Search, show: Show, hidden: str, result: Result
) -> list[Line]:
    """Return a message in short form. `hidden` is the injected tool's name; empty if there is none."""
    lines = [quoted(f"#{message.turn + 1} {show(message.role) or ('model' if message.by_model else 'item')}")]
    for part in message.parts[:_MOST_PARTS]:
        if part.kind is Kind.CALL:
            beginning = search.beginning(_written(document, part.arguments), _BEGINNING)
            lines.append(quoted(f"    {_call(part, show, hidden)}: {beginning}"))
        elif part.kind is Kind.RESULT:
            lines += [quoted(f"    result {line}") for line in result(part)]
        elif part.kind is Kind.REASONING:
            lines.append(note(f"    reasoning, {len(document.source(part.block)):,} bytes"))
        else:
            for text in part.texts:
                words = document.string(text) or ""
                size = f" ({len(words):,} characters)" if len(words) > _BEGINNING else ""
                lines.append(quoted(f"    {' '.join(search.beginning(words, _BEGINNING).split())}{size}"))
    return lines + _left_out(message)


def in_full(document: Document, message: Message, search: Search, show: Show, hidden: str) -> list[Line]:
    """Return a message of the model with its content."""
    lines: list[Line] = []
    for part in message.parts[:_MOST_PARTS]:
        if part.kind is Kind.CALL:
            lines.append(note(_call(part, show, hidden)))
            arguments = search.text(_pretty(document, part.arguments)).split("\n")
            lines += bounded([quoted(f"    {line}") for line in arguments], _MOST_ARGUMENTS)
        elif part.kind is Kind.REASONING:
            lines.append(note(f"reasoning, {len(document.source(part.block)):,} bytes"))
            words = document.string(document.members(part.block).get("thinking")) or ""
            lines += [quoted(f"    {line}") for line in search.text(words).split("\n")] if words else []
        else:
            for text in part.texts:
                words = search.text(document.string(text) or "")
                lines += bounded([quoted(line) for line in words.split("\n")], _MOST_TEXT)
    return lines + _left_out(message)


def _call(part: Part, show: Show, hidden: str) -> str:
    mark = f" ({HIDDEN})" if hidden and part.name == hidden else ""
    return f"call {show(part.name)} {show(part.id)}{mark}"


def _left_out(message: Message) -> list[Line]:
    more = len(message.parts) - _MOST_PARTS
    return [note(f"    … {more:,} more parts")] if more > 0 else []


def _written(document: Document, arguments: Raw | None) -> str:
    if arguments is None:
        return ""
    if (text := document.string(arguments)) is not None:
        return text
    return document.source(arguments).decode("utf-8", "replace")


def _pretty(document: Document, arguments: Raw | None) -> str:
    written = _written(document, arguments)
    if len(written) > LONGEST_SEARCHED:
        return written
    try:
        value: Any = json.loads(written)
    except (ValueError, RecursionError):
        return written
    if not isinstance(value, dict | list) or not _is_small(value):
        return written
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_small(value: Any) -> bool:
    """Return whether a value has few levels. Indented, a deep value would become many times as long."""
    level = [value]
    for _ in range(_DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return True
    return False


_MOST_READ = 10_000
_MOST_MESSAGES = 300
_MOST_RESULTS = 2_000
"""Greatest number of results that are read. The latest results are read first."""
_MOST_TOOLS = 100
_MOST_NEW = 50
_LINES_OF_NEW, _LINES_OF_EARLIER = 600, 80
"""Greatest number of lines for the changes in a new result, and greatest number for an earlier result."""
_LINES_OF_SENT = 12
"""Greatest number of shown lines of a result whose original is not known."""
_MOST_COMPARED = 12_000
"""Greatest number of compared lines of all results together. The lines of both texts count."""
_SENT_CHARACTERS = 4_000
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ResultContext:
    """A `ResultContext` has facts about a result that its text does not show."""

    facts: ResultFacts | None = None
    is_new: bool = False
    pair: Pair | None = None
    """The original, redacted, and the sent text; None if the original is unknown."""
    is_observed: bool = False
    """True if the result was sent unchanged. The facts are then about a change that was not made."""

    @property
    def would(self) -> str:
        """Return the beginning of a sentence about a change that was not made; empty for other changes."""
        return "would have been " if self.is_observed else ""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A `RequestContext` has facts about a request that its body does not show."""

    line: str
    """Summary of the outcome; empty if it is unknown."""
    result: Callable[[str, str, str], ResultContext]
    """The function that returns the facts about a result by its call, tool and sent text."""
    originals: str = ""
    """Reason why the originals of all results are unknown; empty without such a reason."""
    injected_tool: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class _Result:
    """A `_Result` is one text of a result in the request."""

    text: ResultText
    sent: str
    call_id: str
    tool: str
    context: ResultContext
    is_hidden: bool

    def line(self) -> str:
        return f"{self.name()}: {self.done()}"

    def done(self) -> str:
        """Return sizes and stages as text. Without facts, return the size of the sent text."""
        if (facts := self.context.facts) is None:
            return f"{len(self.sent.encode('utf-8', 'surrogatepass')):,} bytes"
        return f"{facts.sizes()}; {self.context.would}{facts.done()}"

    def name(self) -> str:
        name = " ".join(word for word in (self.tool or "(unknown tool)", self.call_id) if word)
        flags = "".join((" (error)" if self.text.is_error else "", f" ({HIDDEN})" if self.is_hidden else ""))
        return f"{name}{flags}"


def lines(api: Api, body: bytes, context: RequestContext, search: Search, show: Show) -> list[Line]:
    document = Document(body)
    place = api.wire.members(document).get(api.wire.messages)
    if is_too_much(body) or len(document.items(place)) > _MOST_READ:
        return [*wrapped(head, context.line), note(TOO_MUCH_TO_READ)]
    conversation = api.wire.read(document)
    results = _results(document, conversation, context, show)
    new = [result for result in results if result.context.is_new]
    earlier = [result for result in reversed(results) if not result.context.is_new and not result.is_hidden]
    budget = _Budget(_MOST_COMPARED)
    top = _top(api, document, conversation, results, context, show)
    shown: list[Line] = []
    if new:
        shown += [quoted(""), head("NEW RESULTS")]
        shown += _in_detail(new[-_MOST_NEW:], document, context, search, budget, _LINES_OF_NEW)
    shown += [quoted(""), head("CONVERSATION")]
    shown += _outline(api, document, results, context, search, show)
    if earlier:
        title = "EARLIER RESULTS, the latest first" if new else "RESULTS, the latest first"
        shown += [quoted(""), head(title)]
        shown += _in_detail(earlier, document, context, search, budget, _LINES_OF_EARLIER)
    return bounded([*top, *search.warning(), *shown], MOST_LINES)


@dataclass
class _Budget:
    left: int

    def takes(self, pair: Pair) -> bool:
        size = sum(text.count("\n") + 1 for text in pair)
        if size > self.left:
            return False
        self.left -= size
        return True


def _top(
    api: Api,
    document: Document,
    conversation: Conversation,
    results: list[_Result],
    context: RequestContext,
    show: Show,
) -> list[Line]:
    messages = len(api.wire.prompt(document).messages)
    model = show(conversation.model or model_in(context.path)) or "(no model named)"
    top = wrapped(head, context.line)
    sizes = f"{counted(messages, 'message')}, {counted(len(conversation.results), 'result')}"
    top.append(note(f"{api.id}, {model}: {sizes}"))
    if context.originals and results:
        top.append(note(context.originals))
    return top


def _results(
    document: Document, conversation: Conversation, context: RequestContext, show: Show
) -> list[_Result]:
    results = []
    for text in conversation.results[-_MOST_RESULTS:]:
        sent = document.string(text.value) or ""
        if text.part is not None:
            sent = sent[slice(*text.part)]
        if not sent:
            continue
        name = text.call.name if text.call else ""
        call_id, tool = show(text.call_id), show(name)
        hidden = bool(context.injected_tool) and name == context.injected_tool
        results.append(_Result(text, sent, call_id, tool, context.result(call_id, tool, sent), hidden))
    return results


def _outline(
    api: Api, document: Document, results: list[_Result], context: RequestContext, search: Search, show: Show
) -> list[Line]:
    prompt = api.wire.prompt(document)
    by_value = {id(result.text.value): result for result in results}

    def result_lines(part: Part) -> list[str]:
        each = [by_value[id(text)].line() for text in part.texts if id(text) in by_value]
        return each or [f"{show(part.name)} {show(part.id)}".strip()]

    shown: list[Line] = []
    for part in prompt.system[:_MOST_MESSAGES]:
        for text in part.texts:
            words = document.string(text) or ""
            shown.append(note(f"system, {len(words):,} characters: {search.beginning(words, 120)}"))
    # Some of the provider's own tools have no names.
    if tools := [name for name in api.wire.tools(document).names if name]:
        more = " …" if len(tools) > _MOST_TOOLS else ""
        shown.append(note(f"tools: {', '.join(map(show, tools[:_MOST_TOOLS]))}{more}"))
    messages = prompt.messages
    first, last = messages[: _MOST_MESSAGES // 10], messages[_MOST_MESSAGES // 10 :]
    hidden = max(0, len(messages) - _MOST_MESSAGES)
    # The latest messages are searched first, since the search may reach its limit.
    later = [
        outline(document, message, search, show, context.injected_tool, result_lines)
        for message in reversed(last[hidden:])
    ]
    for message in first:
        shown += outline(document, message, search, show, context.injected_tool, result_lines)
    if hidden:
        shown.append(note(f"… {hidden:,} messages"))
    return [*shown, *(line for each in reversed(later) for line in each)]


def _in_detail(
    results: Iterable[_Result],
    document: Document,
    context: RequestContext,
    search: Search,
    budget: _Budget,
    most: int,
) -> list[Line]:
    shown: list[Line] = []
    for result in results:
        if len(shown) > MOST_LINES:
            break
        shown.append(head(result.name()))
        shown += wrapped(note, result.done(), "    ")
        call = result.text.call
        if call is not None and (arguments := _written(document, call.arguments)):
            shown.append(quoted(f"    {search.beginning(arguments, _BEGINNING)}"))
        shown += bounded(_text(result, context, search, budget), most)
    return shown


def _text(result: _Result, context: RequestContext, search: Search, budget: _Budget) -> list[Line]:
    """Return the differences between the original and the sent text of a result. If the original is unknown,
    return the sent text."""
    facts, pair = result.context.facts, result.context.pair
    sent = search.beginning(result.sent, _SENT_CHARACTERS) if pair is None else pair[1]
    if pair is not None and pair[0] != pair[1]:
        if budget.takes(pair):
            return difference_lines(*pair)
        return [note("    not compared here: there is too much in this request"), *_sent(sent)]
    if facts is None or facts.is_as_it_came or pair is not None or context.originals:
        return _sent(sent)
    lost = "other form" if result.context.is_observed else "original"
    return [note(f"    its {lost} is not kept any more; the sent form:"), *_sent(sent)]


def _sent(text: str) -> list[Line]:
    every = text.split("\n")
    shown = [Line(Mark.TEXT, quoted(f"      {line}").text) for line in every[:_LINES_OF_SENT]]
    if len(every) > _LINES_OF_SENT:
        shown.append(note(f"        … {len(every) - _LINES_OF_SENT:,} more lines"))
    return shown
