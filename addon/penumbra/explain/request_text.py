"""A request for people: what was done, new results before and after, the conversation, earlier results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penumbra.apis.parts import Conversation, ResultText
from penumbra.apis.prompt import Part
from penumbra.apis.recognise import Api, model_in
from penumbra.explain import differences
from penumbra.explain.message_text import HIDDEN, beginning_of_call, outline
from penumbra.explain.result_facts import ResultFacts
from penumbra.explain.text_lines import (
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
    said,
    wrapped,
)
from penumbra.wire.document import Document

_MOST_READ = 10_000
"""Messages of a request that is read here."""
_MOST_MESSAGES = 300
"""Of an outline."""
_MOST_RESULTS = 2_000
"""The latest; each takes time, whether it is shown or not."""
_MOST_TOOLS = 100
_MOST_NEW = 50
_LINES_OF_NEW, _LINES_OF_EARLIER = 600, 80
"""Of one result's difference."""
_LINES_OF_SENT = 12
"""Of a result of which there is only what was sent."""
_MOST_COMPARED = 12_000
"""Lines of both forms of all results together: comparing takes time."""
_SENT_CHARACTERS = 4_000
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ResultContext:
    """What is known of a result beside its text."""

    facts: ResultFacts | None = None
    is_new: bool = False
    """It was new in this request."""
    pair: Pair | None = None
    """Before and after, without secrets; None: the original is not there."""
    is_observed: bool = False
    """It was sent as it came, and all of this would have been."""

    @property
    def would(self) -> str:
        """What stands before what was done."""
        return "would have been " if self.is_observed else ""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What is known of a request beside its body."""

    line: str
    """What was done, in short; empty if nothing is known of that."""
    result: Callable[[str, str, str], ResultContext]
    """By call and tool, as they may be shown, and the text as it was sent."""
    originals: str = ""
    """Why there are no originals at all; empty: there may be some."""
    injected_tool: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class _Result:
    """One result text of the request."""

    text: ResultText
    sent: str
    call_id: str
    tool: str
    context: ResultContext
    is_hidden: bool

    def line(self) -> str:
        """In one line."""
        return f"{self.name()}: {self.done()}"

    def done(self) -> str:
        """Sizes before and after, and what was done, as far as that is known."""
        if (facts := self.context.facts) is None:
            return f"{len(self.sent.encode('utf-8', 'surrogatepass')):,} bytes"
        return f"{facts.sizes()}; {self.context.would}{facts.done()}"

    def name(self) -> str:
        """Its tool and call."""
        name = " ".join(word for word in (self.tool or "(unknown tool)", self.call_id) if word)
        flags = "".join((" (error)" if self.text.is_error else "", f" ({HIDDEN})" if self.is_hidden else ""))
        return f"{name}{flags}"


def lines(api: Api, body: bytes, context: RequestContext, search: Search, show: Show) -> list[Line]:
    """The whole text. Raises NotJson."""
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
        shown += [said(""), head("NEW RESULTS")]
        shown += _in_detail(new[-_MOST_NEW:], document, context, search, budget, _LINES_OF_NEW)
    shown += [said(""), head("CONVERSATION")]
    shown += _outline(api, document, results, context, search, show)
    if earlier:
        title = "EARLIER RESULTS, the latest first" if new else "RESULTS, the latest first"
        shown += [said(""), head(title)]
        shown += _in_detail(earlier, document, context, search, budget, _LINES_OF_EARLIER)
    return bounded([*top, *search.warning(), *shown], MOST_LINES)


@dataclass
class _Budget:
    """State: lines that may still be compared."""

    left: int

    def takes(self, pair: Pair) -> bool:
        """Whether both forms may be compared."""
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
    top.append(
        note(
            f"{api.id}, {model}: {_count(messages, 'message')}, {_count(len(conversation.results), 'result')}"
        )
    )
    if context.originals and results:
        top.append(note(context.originals))
    return top


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


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
    # The provider's own tools have none.
    if tools := [name for name in api.wire.tools(document).names if name]:
        more = " …" if len(tools) > _MOST_TOOLS else ""
        shown.append(note(f"tools: {', '.join(map(show, tools[:_MOST_TOOLS]))}{more}"))
    messages = prompt.messages
    first, last = messages[: _MOST_MESSAGES // 10], messages[_MOST_MESSAGES // 10 :]
    hidden = max(0, len(messages) - _MOST_MESSAGES)
    # What came last is searched first, in case that not all can be.
    behind = [
        outline(document, message, search, show, context.injected_tool, result_lines)
        for message in reversed(last[hidden:])
    ]
    for message in first:
        shown += outline(document, message, search, show, context.injected_tool, result_lines)
    if hidden:
        shown.append(note(f"… {hidden:,} messages"))
    return [*shown, *(line for each in reversed(behind) for line in each)]


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
        if call is not None and (arguments := beginning_of_call(document, call.arguments, search)):
            shown.append(said(f"    {arguments}"))
        shown += bounded(_text(result, context, search, budget), most)
    return shown


def _text(result: _Result, context: RequestContext, search: Search, budget: _Budget) -> list[Line]:
    """What of a result's text can be shown: what became of it, or what was sent."""
    facts, pair = result.context.facts, result.context.pair
    sent = search.beginning(result.sent, _SENT_CHARACTERS) if pair is None else pair[1]
    if pair is not None and pair[0] != pair[1]:
        if budget.takes(pair):
            return differences.lines(*pair)
        return [note("    not compared here: there is too much in this request"), *_sent(sent)]
    if facts is None or facts.is_as_it_came or pair is not None or context.originals:
        return _sent(sent)
    lost = "other form" if result.context.is_observed else "original"
    return [note(f"    its {lost} is not held any more; what was sent:"), *_sent(sent)]


def _sent(text: str) -> list[Line]:
    every = text.split("\n")
    shown = [Line(Mark.TEXT, said(f"      {line}").text) for line in every[:_LINES_OF_SENT]]
    if len(every) > _LINES_OF_SENT:
        shown.append(note(f"        … {len(every) - _LINES_OF_SENT:,} more lines"))
    return shown
