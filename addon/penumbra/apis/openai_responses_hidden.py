"""OpenAI Responses: the injected tool and hidden exchanges in requests.

What stands for an assistant message here is a run of items that the model wrote. Where the history is
at the provider, the request names the last answer by the id that the client has got; the one to go on
from may be another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from msgspec import Raw

from penumbra.apis.base import (
    Hidden,
    InjectedCall,
    Reasoning,
    Tool,
    Tools,
    Turn,
    Usual,
    Visible,
    read_visible,
)
from penumbra.apis.openai_responses import TEXTS, call_id, is_answer, kind
from penumbra.apis.openai_responses_response import ResponsesBody, ResponsesStream, known_by
from penumbra.apis.parts import joined_text
from penumbra.wire.document import Document, Edit, encode

_OWN_TOOLS = ("function", "custom", "local_shell", "shell", "apply_patch", "computer", "computer_use_preview")
_BEFORE = "previous_response_id"
_ELSEWHERE = -1


class ResponsesAnswers(Usual):
    """See AnswerFormat."""

    def stream(self, injected_tool: str, before: str = "") -> ResponsesStream:
        return ResponsesStream(injected_tool, before)

    def body(self, injected_tool: str, before: str = "") -> ResponsesBody:
        return ResponsesBody(injected_tool, before)

    def tools(self, request: Document) -> Tools:
        top = request.members(request.root)
        names, own = [], 0
        for tool in _all_tools(request, top):
            names.append(request.string(tool.get("name")) or "")
            own += request.string(tool.get("type")) in _OWN_TOOLS
        # A conversation object takes up every answer, also one that the client has not seen.
        elsewhere = bool(request.plain(top.get("background")) or request.plain(top.get("conversation")))
        stored = request.plain(top.get("store")) is not False
        return Tools(tuple(names), own, _forced(request, top), "input" in top and not elsewhere, stored)

    def declare(self, request: Document, tool: Tool) -> None:
        head = encode({"type": "function", "name": tool.name, "description": tool.description})
        declaration = head[:-1] + b',"parameters":' + tool.parameters + b',"strict":false}'
        top = request.members(request.root)
        arrays = [top.get("tools"), *(item.get("tools") for item in _tool_items(request, top))]
        request.append(next(one for one in arrays if one is not None and request.items(one)), declaration)

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"type": "function_call_output", "call_id": call.id, "output": text})

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        return (turn.message, *results) if turn.message else tuple(results)

    def extended(self, request: bytes, messages: Sequence[bytes], answer_id: str = "") -> bytes:
        document = Document(request)
        top = document.members(document.root)
        added = b",".join(storable(document, messages))
        if (text := document.string(top["input"])) is not None:
            start, end = document.place(top["input"])
            first = encode({"role": "user", "content": text})
            document.edits.append(Edit(start, end, b"[" + first + b"," + added + b"]"))
        else:
            document.append(top["input"], added)
        return document.render()

    def without_calls(self, request: bytes) -> bytes:
        document = Document(request)
        document.set_member(document.root, "tool_choice", b'"none"')
        return document.render()

    def visible(self, request: Document) -> list[Visible]:
        before = request.string(request.members(request.root).get(_BEFORE))
        first = [Visible(_ELSEWHERE, 0, (), "", "", 0, answer_id=before)] if before else []
        runs = list(_runs(request))
        found = read_visible([(run.first, run.calls, run.text, run.signed) for run in runs])
        last = len(_items(request)) - 1
        return first + [
            replace(visible, item=run.item, open=run.last == last)
            for visible, run in zip(found, runs, strict=True)
        ]

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        top = request.members(request.root)
        items = request.items(top.get("input"))
        if visible.index == _ELSEWHERE:
            if hidden.results and not items:
                return False
            if hidden.results:
                request.insert(top["input"], 0, b",".join(hidden.results))
            if hidden.answer_id:
                request.replace(top[_BEFORE], hidden.answer_id)
            return True
        run = next(run for run in _runs(request) if run.first == visible.index)
        start, end = request.place(items[run.first])[0], request.place(items[run.last])[1]
        # An answer that goes on from what is left of another is one run with it in later requests.
        if request.is_edited(start, end) or (hidden.broken and visible.open):
            return False
        messages = [*hidden.before, *([hidden.last] if hidden.last else []), *hidden.results]
        request.edits.append(Edit(start, end, b",".join(storable(request, messages))))
        return True

    def reasoning(self, request: Document) -> list[Reasoning]:
        found = []
        for place, value in enumerate(_items(request)):
            item = request.members(value)
            name = kind(request, item)
            known = known_by(request, item) if name in ("reasoning", "item_reference") else ""
            found += [Reasoning(place, known)] if known else []
        return found

    def take_out(self, request: Document, places: Collection[int]) -> None:
        bounds = [request.place(item) for item in _items(request)]
        kept = [place for place in range(len(bounds)) if place not in places]
        for place in sorted(places):
            before = max((one for one in kept if one < place), default=None)
            behind = place + 1 < len(bounds)
            # With the comma in front of it, and at the beginning with the one behind it.
            if before is not None:
                start, end = bounds[place - 1][1], bounds[place][1]
            else:
                start, end = bounds[place][0], bounds[place + 1][0] if behind else bounds[place][1]
            if not request.is_edited(start, end):
                request.edits.append(Edit(start, end, b""))

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        # The API itself leaves out reasoning that is bound to something else. It refuses reasoning
        # that nothing follows: of an exchange that is missing now, that is what may be left.
        items = request.items(request.members(request.root).get("input"))
        kinds = [kind(request, request.members(item)) for item in items]
        orphans = [
            place
            for place in range(max(first, 0), len(items) - 1)
            if kinds[place] == "reasoning"
            and (kinds[place + 1] == "reasoning" or not _is_answer(request, items[place + 1]))
        ]
        dropped = False
        for place in orphans:
            start, end = request.place(items[place])[0], request.place(items[place + 1])[0]
            if not request.is_edited(start, end):
                request.edits.append(Edit(start, end, b""))
                dropped = True
        return dropped


@dataclass(frozen=True, slots=True)
class _Run:
    """Items that the model wrote without a break; places of the first and the last."""

    first: int
    last: int
    calls: tuple[str, ...]
    text: str
    signed: bool
    item: str
    """Id of the last, if the request refers to it by that."""


def _runs(request: Document) -> Iterator[_Run]:
    items = request.items(request.members(request.root).get("input"))
    place = 0
    while place < len(items):
        first = place
        while place < len(items) and _is_answer(request, items[place]):
            place += 1
        if place > first:
            yield _run(request, items, first, place - 1)
        place += 1


def _run(request: Document, items: list[Raw], first: int, last: int) -> _Run:
    calls, texts, signed, referred, reference = [], [], False, False, ""
    for value in items[first : last + 1]:
        item = request.members(value)
        name = kind(request, item)
        if found := call_id(request, name, item):
            calls.append(found)
        elif name == "message":
            texts.append(joined_text(request, item.get("content"), TEXTS))
        signed |= name == "reasoning"
        reference = request.string(item.get("id")) or "" if name == "item_reference" else ""
        referred |= bool(reference)
    if referred:
        # A reference does not say which call it stands for; the results behind it do.
        behind = (items[at] for at in range(last + 1, len(items)))
        calls = list(_answered(request, takewhile(lambda one: not _is_answer(request, one), behind))) or calls
    return _Run(first, last, tuple(calls), "".join(texts), signed, reference)


def _answered(request: Document, items: Iterable[Raw]) -> Iterator[str]:
    """Ids of the calls that items are results of, in order."""
    for value in items:
        item = request.members(value)
        if kind(request, item).endswith("_call_output"):
            yield request.string(item.get("call_id")) or request.string(item.get("id")) or ""


def _is_answer(request: Document, value: Raw) -> bool:
    item = request.members(value)
    return is_answer(request, kind(request, item), item)


def _items(request: Document) -> list[Raw]:
    return request.items(request.members(request.root).get("input"))


def _tool_items(request: Document, top: dict[str, Raw]) -> Iterator[dict[str, Raw]]:
    """Items that declare tools, as Codex sends them."""
    for value in request.items(top.get("input")):
        item = request.members(value)
        if kind(request, item) == "additional_tools":
            yield item


def _all_tools(request: Document, top: dict[str, Raw]) -> Iterator[dict[str, Raw]]:
    """Every tool of a request, those in namespaces one by one."""
    arrays = [top.get("tools"), *(item.get("tools") for item in _tool_items(request, top))]
    for value in (value for array in arrays for value in request.items(array)):
        tool = request.members(value)
        if request.string(tool.get("type")) == "namespace":
            yield from (request.members(one) for one in request.items(tool.get("tools")))
        else:
            yield tool


def _forced(request: Document, top: dict[str, Raw]) -> bool:
    choice = request.plain(top.get("tool_choice"))
    if isinstance(choice, dict):
        return choice.get("type") != "allowed_tools" or choice.get("mode") == "required"
    return bool(choice == "required")


def storable(request: Document, messages: Sequence[bytes]) -> list[bytes]:
    """Items as this request may send them: what was not stored can't be referred to by its id alone."""
    if request.plain(request.members(request.root).get("store")) is not False:
        return list(messages)
    kept: list[bytes] = []
    for message in messages:
        document = Document(b"[" + message + b"]")
        for value in document.items(document.root):
            item = document.members(value)
            opaque = document.plain(item.get("encrypted_content"))
            if kind(document, item) != "reasoning" or opaque:
                kept.append(document.source(value))
    return kept
