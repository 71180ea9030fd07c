"""OpenAI Responses: answers, as streams and as JSON.

An answer is a list of output items. Events of a stream name their item by its place; the injected tool's
items are taken out and the rest is numbered anew, and so is the sequence of events. The last event
repeats the whole answer, and the first ones repeat the request's tools: both are put right for what
the client knows. A stream keeps the id of its first turn, which the client has got, to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, InjectedCall, MadeCall, Turn
from penumbra.apis.openai_responses import CALLS, TEXTS, call_id, kind, known_by
from penumbra.apis.parts import joined_text
from penumbra.apis.upstream_error import told
from penumbra.apis.usage import added, flat, only, plus
from penumbra.apis.whole_response import WholeResponse
from penumbra.wire.document import Document, Edit, NotJson, encode
from penumbra.wire.sse import EventReader, SseEvent, SseReader, event_bytes

_SUMMED = ("output_tokens",)
_BEGINS = ("response.created", "response.in_progress", "response.queued")
_ENDS = ("response.completed", "response.incomplete")
_FAILED = ("response.failed", "error")
_BEFORE = "previous_response_id"
_KEPT = ("id", "created_at", _BEFORE)
"""What an answer says of itself: of all its events, and of all the turns behind it."""


class ResponsesStream:
    """An answer that arrives event by event: server-sent, unless told otherwise."""

    keep_alive = b": keep-alive\n\n"

    def __init__(
        self,
        injected_tool: str,
        before: str = "",
        reader: Callable[[], EventReader] = SseReader,
        write: Callable[[str, bytes], bytes] = event_bytes,
    ) -> None:
        """`before`: the id by which the client named the answer that it goes on from.

        `reader` cuts a turn's bytes into events; `write` makes an event of a name and its data.
        """
        self._injected_tool = injected_tool
        self._before = before
        self._new_reader, self._write = reader, write
        self._reader = reader()
        self._sequence = -1
        """Number of the last event that the client got."""
        self._shown: list[bytes] = []
        """The items of turns that were continued, as far as the client got them."""
        self._first: dict[str, Any] = {}
        """The answer as the first event described it."""
        self._hidden_usage: dict[str, int] = {}
        self._continued = False
        self._begun = False
        """The client has got the beginning of a turn that was had once more."""
        self._turn = _StreamTurn()

    @property
    def holding(self) -> bool:
        return bool(self._turn.injected)

    def feed(self, data: bytes) -> bytes:
        return b"".join([self._event(event) for event in self._reader.feed(data)])

    def end_turn(self) -> Turn:
        self._turn.rest = b"".join([self._event(event) for event in self._reader.close()])
        turn = self._turn
        return _turn(turn.sources(), turn.end, self._injected_tool, turn.failed, turn.failure)

    def go_on(self) -> bytes:
        turn = self._turn
        self._hidden_usage = plus(self._hidden_usage, only(flat(turn.end.get("usage")), _SUMMED))
        self._shown += [item for place, item in sorted(turn.items.items()) if place not in turn.injected]
        self._turn, self._reader = _StreamTurn(), self._new_reader()
        self._continued = True
        return turn.rest

    def restart(self) -> None:
        self._turn, self._reader = _StreamTurn(), self._new_reader()
        self._begun = bool(self._first)

    def finish(self) -> bytes:
        held, self._turn.held = self._turn.held, []
        rest, self._turn.rest = self._turn.rest, b""
        return b"".join([rest, *(self._end(event, Document(event.data or b"")) for event in held)])

    def fail(self, failure: Failure) -> bytes:
        if self._turn.failed and not self._continued:
            return b""
        self._sequence += 1
        response = {**self._first, "status": "failed", "error": _error(failure, self._injected_tool)}
        value = {"type": "response.failed", "response": response, "sequence_number": self._sequence}
        return self._write("response.failed", encode(value))

    def _event(self, event: SseEvent) -> bytes:
        if self._turn.failure is not None:
            return b""
        if event.data is None:
            return event.raw
        try:
            document = Document(event.data)
        except NotJson:
            return event.raw
        members = document.members(document.root)
        name = document.string(members.get("type")) or event.name
        if name in _BEGINS:
            return self._begin(event, document, members)
        if name in _ENDS:
            response = document.plain(members.get("response"))
            described = response if isinstance(response, dict) else {}
            self._turn.end = {"status": name.removeprefix("response."), **described}
            if self._turn.injected:
                self._turn.held.append(event)
                return b""
            return self._end(event, document)
        if name in _FAILED or "error" in members:
            self._turn.failed = True
            self._turn.held.clear()
            if self._continued:
                status = document.plain(members.get("status"))
                status = status if isinstance(status, int) else None
                self._turn.failure = Failure(status, event.data, ENDED_IN_AN_ERROR)
                return b""
            name_before(document, document.members(members.get("response")), self._before)
            scrub(document, document.members(members.get("response")), self._injected_tool)
        return self._item_event(event, document, members, name)

    def _begin(self, event: SseEvent, document: Document, members: dict[str, Raw]) -> bytes:
        if self._continued or self._begun:
            return b""
        response = members.get("response")
        scrub(document, document.members(response), self._injected_tool)
        name_before(document, document.members(response), self._before)
        if not self._first and response is not None:
            rendered = Document(document.render())
            described = rendered.plain(rendered.members(rendered.root)["response"])
            self._first = described if isinstance(described, dict) else {}
        return self._numbered(event, document, members)

    def _item_event(self, event: SseEvent, document: Document, members: dict[str, Raw], name: str) -> bytes:
        place = document.plain(members.get("output_index"))
        if not isinstance(place, int):
            return self._numbered(event, document, members)
        turn = self._turn
        item = members.get("item")
        if name == "response.output_item.added" and is_phantom(document, item, self._injected_tool):
            turn.injected.add(place)
        if name == "response.output_item.done" and item is not None:
            turn.items[place] = document.source(item)
        if place in turn.injected:
            return b""
        shown = len(self._shown) + place - sum(hidden < place for hidden in turn.injected)
        if shown != place:
            document.replace(members["output_index"], shown)
        return self._numbered(event, document, members)

    def _numbered(self, event: SseEvent, document: Document, members: dict[str, Raw]) -> bytes:
        """The event with its edits, and with the next number of the sequence if it has one."""
        number = document.plain(members.get("sequence_number"))
        if isinstance(number, int):
            wanted = number if self._sequence < 0 else self._sequence + 1
            if wanted != number:
                document.replace(members["sequence_number"], wanted)
            self._sequence = wanted
        return event.with_data(document.render()) if document.edits else event.raw

    def _end(self, event: SseEvent, document: Document) -> bytes:
        members = document.members(document.root)
        response = document.members(members.get("response"))
        # Some servers leave the items of a stream out of its last event.
        left_out = bool(self._turn.items) and not document.items(response.get("output"))
        show(document, response, self._injected_tool, [] if left_out else self._shown, self._hidden_usage)
        later = self._continued or self._begun
        if not later:
            name_before(document, response, self._before)
        for name in _KEPT if later else ():
            if name in response and name in self._first:
                document.replace(response[name], self._first[name])
        return self._numbered(event, document, members)


@dataclass(slots=True)
class _StreamTurn:
    items: dict[int, bytes] = field(default_factory=dict)
    """Complete items by their place, as the model wrote them."""
    injected: set[int] = field(default_factory=set)
    held: list[SseEvent] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    failed: bool = False
    failure: Failure | None = None
    rest: bytes = b""

    def sources(self) -> list[bytes]:
        return [item for _, item in sorted(self.items.items())]


class ResponsesBody(WholeResponse):
    """An answer that arrives as one JSON document."""

    def __init__(self, injected_tool: str, before: str = "") -> None:
        super().__init__(injected_tool)
        self._before = before
        self._shown: list[bytes] = []

    def end_turn(self) -> Turn:
        try:
            document = Document(bytes(self._body))
        except NotJson:
            return Turn()
        members = document.members(document.root)
        if "output" not in members:
            return Turn(failed=bool(document.plain(members.get("error"))))
        items = [document.source(item) for item in document.items(members["output"])]
        return _turn(items, document.plain(document.root), self._injected_tool)

    def go_on(self) -> bytes:
        document = Document(bytes(self._body))
        members = document.members(document.root)
        usage = only(flat(document.plain(members.get("usage"))), _SUMMED)
        self._hidden_usage = plus(self._hidden_usage, usage)
        self._shown += _visible_items(document, members, self._injected_tool)
        return super().go_on()

    def finish(self) -> bytes:
        body = bytes(self._body)
        try:
            document = Document(body)
        except NotJson:
            return body
        members = document.members(document.root)
        show(document, members, self._injected_tool, self._shown, self._hidden_usage)
        name_before(document, members, self._before)
        return document.render()

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure, self._injected_tool)


def is_phantom(document: Document, item: Raw | None, injected_tool: str) -> bool:
    """Whether an item is a call of the injected tool."""
    members = document.members(item)
    is_call = document.string(members.get("type")) == "function_call"
    return is_call and document.string(members.get("name")) == injected_tool


def scrub(document: Document, response: dict[str, Raw], injected_tool: str) -> None:
    """Take the injected tool out of the tools that an answer repeats from its request."""
    items = document.items(response.get("tools"))
    kept = [
        document.source(item)
        for item in items
        if document.string(document.members(item).get("name")) != injected_tool
    ]
    if len(kept) < len(items):
        _set_items(document, response["tools"], kept)


def name_before(document: Document, response: dict[str, Raw], before: str) -> None:
    """An answer names the one before it as the client does, who may know it by another id."""
    named = response.get(_BEFORE)
    if before and named is not None and document.string(named) not in (None, before):
        document.replace(named, before)


def show(
    document: Document,
    response: dict[str, Raw],
    injected_tool: str,
    shown: Sequence[bytes],
    hidden_usage: dict[str, int],
) -> None:
    """Edit a complete answer: tools, items and figures as the client is to know them."""
    scrub(document, response, injected_tool)
    items = document.items(response.get("output"))
    visible = _visible_items(document, response, injected_tool)
    if "output" in response and (shown or len(visible) < len(items)):
        _set_items(document, response["output"], [*shown, *visible])
    usage = document.plain(response.get("usage"))
    if isinstance(usage, dict) and hidden_usage:
        summed = added(usage, hidden_usage)
        if "total_tokens" in summed and "input_tokens" in summed:
            summed["total_tokens"] = summed["input_tokens"] + summed.get("output_tokens", 0)
        document.replace(response["usage"], summed)


def _visible_items(document: Document, response: dict[str, Raw], injected_tool: str) -> list[bytes]:
    items = document.items(response.get("output"))
    return [document.source(item) for item in items if not is_phantom(document, item, injected_tool)]


def _set_items(document: Document, array: Raw, items: Sequence[bytes]) -> None:
    start, end = document.place(array)
    document.edits.append(Edit(start, end, b"[" + b",".join(items) + b"]"))


def _turn(
    items: Sequence[bytes],
    end: dict[str, Any],
    injected_tool: str,
    failed: bool = False,
    failure: Failure | None = None,
) -> Turn:
    """What is to be known of a turn: `items` as the model wrote them, `end` the finished answer."""
    injected: list[InjectedCall] = []
    real_calls: list[str] = []
    texts: list[str] = []
    signatures: list[str] = []
    orphans: list[str] = []
    made: list[MadeCall] = []
    last = ""
    for source in items:
        document = Document(source)
        item = document.members(document.root)
        name = kind(document, item)
        if is_phantom(document, document.root, injected_tool):
            arguments = document.string(item.get("arguments")) or ""
            injected.append(InjectedCall(call_id(document, name, item), arguments))
            continue
        last = document.string(item.get("id")) or ""
        # Clients send it again whole, or refer to it by its id.
        orphans = [*orphans, known_by(document, item), last] if name == "reasoning" else []
        if found := call_id(document, name, item):
            real_calls.append(found)
            made += [call] if (call := _made(document, name, item, found)) else []
        elif name == "message":
            texts.append(joined_text(document, item.get("content"), TEXTS))
        elif "encrypted_content" in item:
            signatures.append(document.string(item["encrypted_content"]) or "")
    status = end.get("status")
    whole = status in ("completed", "incomplete")
    return Turn(
        message=b",".join(items if whole else _followed(items, injected_tool)) or None,
        injected=tuple(injected),
        real_calls=tuple(real_calls),
        text="".join(texts),
        signatures=tuple(signatures),
        orphans=tuple(dict.fromkeys(filter(None, orphans))),
        finished=whole,
        failed=failed,
        failure=failure,
        continuable=status == "completed",
        usage=flat(end.get("usage")),
        answer_id=str(end.get("id") or ""),
        made=tuple(made),
        item=last,
    )


def _followed(items: Sequence[bytes], injected_tool: str) -> list[bytes]:
    """What of a turn that broke off can be sent: no call that nobody answers, and no reasoning that
    nothing follows."""
    kept: list[bytes] = []
    for source in reversed(items):
        document = Document(source)
        item = document.members(document.root)
        lonely = kind(document, item) == "reasoning" and not kept
        if not lonely and not is_phantom(document, document.root, injected_tool):
            kept.append(source)
    return kept[::-1]


def _made(document: Document, name: str, item: dict[str, Raw], found: str) -> MadeCall | None:
    """A call whose result will be the client's, with the name and arguments that a request would tell."""
    if name not in CALLS:
        return None
    default, arguments = CALLS[name]
    given = item.get(arguments)
    text = document.string(given)
    if text is None:
        text = document.source(given).decode() if given is not None else ""
    return MadeCall(found, document.string(item.get("name")) or default, text)


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    error = told(failure, injected_tool)
    status = error.status or 502
    kind = error.type if error.type not in ("error", "response.failed") else ""
    code = error.code or ("rate_limit_exceeded" if status == 429 else None)
    kind = kind or ("invalid_request_error" if status < 500 and status != 429 else "server_error")
    return encode({"error": {"message": error.message, "type": kind, "param": None, "code": code}})


def _error(failure: Failure, injected_tool: str) -> dict[str, str]:
    """Code and message of an answer that failed."""
    error = told(failure, injected_tool)
    code = str(error.code) if isinstance(error.code, str) else ""
    other = "rate_limit_exceeded" if error.status == 429 else "server_error"
    return {"code": code or other, "message": error.message}
