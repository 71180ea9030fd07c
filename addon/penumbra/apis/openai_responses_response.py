"""OpenAI Responses: what comes back, as streams and as JSON.

A response is a list of output items. Events of a stream name their item by its place; the injected tool's
items are taken out and the rest is numbered anew, and so is the sequence of events. The last event
repeats the whole response, and the first ones repeat the request's tools: both are put right for what
the client knows. A stream keeps the id of its first turn, which the client has got, to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, InjectedCall, MadeCall, Turn
from penumbra.apis.ending import EndingTable
from penumbra.apis.event import Event
from penumbra.apis.openai_call_arguments import ResponsesArguments
from penumbra.apis.openai_responses import CALLS, TEXTS, call_id, kind, reasoning_name
from penumbra.apis.parts import joined_text
from penumbra.apis.responses import Responses
from penumbra.apis.result_blocks import reads_result
from penumbra.apis.stream import Framing
from penumbra.apis.turns import Turns
from penumbra.apis.upstream_error import described
from penumbra.apis.usage import UsageTable
from penumbra.apis.whole_turns import WholeTurns
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece, SseEvent, SseReader, event_bytes
from penumbra.wire.json_values import encode

USAGE = UsageTable(
    inputs=("input_tokens", "input_tokens_details"),
    outputs=("output_tokens",),
    within=("response", ""),
    total="total_tokens",
    in_total=("input_tokens",),
)
ENDS = EndingTable(reasons=(("incomplete_details", "reason"), ("status",)))
_KEEP_ALIVE = b": keep-alive\n\n"
_BEGINS = ("response.created", "response.in_progress", "response.queued")
_ENDS = ("response.completed", "response.incomplete")
_FAILED = ("response.failed", "error")
_BEFORE = "previous_response_id"
_KEPT = ("id", "created_at", _BEFORE)
"""What a response says of itself: of all its events, and of all the turns behind it."""


@dataclass(slots=True)
class _Turn:
    items: dict[int, bytes] = field(default_factory=dict)
    """Complete items by their place, as the model wrote them."""
    hidden: set[int] = field(default_factory=set)
    end: dict[str, Any] = field(default_factory=dict)

    def sources(self) -> list[bytes]:
        return [item for _, item in sorted(self.items.items())]


class ResponsesTurns(Turns):
    """A stream of events."""

    usage = USAGE
    ends = ENDS

    def __init__(self, injected_tool: str, before: str, piece: Callable[[str, bytes], Piece]) -> None:
        """`before`: the id by which the client named the response that it goes on from.

        `piece` makes an event of a name and its data.
        """
        self._before = before
        self._piece = piece
        self._sequence = -1
        """Number of the last event that the client got."""
        self._shown: list[bytes] = []
        """The items of turns that were continued, as far as the client got them."""
        self._first: dict[str, Any] = {}
        """The response as the first event described it."""
        self._begun = False
        """The client has got the beginning of a turn that was had once more."""
        super().__init__(injected_tool)

    def begin_turn(self) -> None:
        self.seen = _Turn()
        self._begun = bool(self._first)

    def hide_turn(self) -> None:
        seen = self.seen
        self._shown += [item for place, item in sorted(seen.items.items()) if place not in seen.hidden]

    def holds(self) -> bool:
        return bool(self.seen.hidden)

    def turn(self) -> Turn:
        return read_turn(self.seen.sources(), self.seen.end, self.injected_tool)

    def is_error(self, event: Event) -> bool:
        return _name(event) in _FAILED or "error" in event.members

    def failed_by(self, event: Event) -> Failure:
        assert event.document is not None
        status = event.document.plain(event.members.get("status"))
        number = status if isinstance(status, int) else None
        return Failure(number, event.data(), ENDED_IN_AN_ERROR, reported=True)

    def own_error(self, event: Event) -> Iterable[Event]:
        assert event.document is not None
        response = event.document.members(event.members.get("response"))
        name_before(event.document, response, self._before)
        scrub(event.document, response, self.injected_tool)
        return self._item_event(event, event.document)

    def error(self, failure: Failure) -> Piece:
        self._sequence += 1
        response = {**self._first, "status": "failed", "error": _error(failure, self.injected_tool)}
        value = {"type": "response.failed", "response": response, "sequence_number": self._sequence}
        return self._piece("response.failed", encode(value))

    def read(self, event: Event, document: Document) -> Iterable[Event]:
        name = _name(event)
        if name in _BEGINS:
            return self._begin(event, document)
        if name not in _ENDS:
            return self._item_event(event, document)
        response = event.members.get("response")
        described = document.plain(response)
        said = described if isinstance(described, dict) else {}
        self.seen.end = {"status": name.removeprefix("response."), **said}
        self.note_usage(document, response)
        if self.seen.hidden:
            return self.hold(event)
        self.put_right(event)
        return (event,)

    def _begin(self, event: Event, document: Document) -> Iterable[Event]:
        if self.continued or self._begun:
            return ()
        response = event.members.get("response")
        scrub(document, document.members(response), self.injected_tool)
        name_before(document, document.members(response), self._before)
        if not self._first and response is not None:
            rendered = Document(document.render())
            described = rendered.plain(rendered.members(rendered.root)["response"])
            self._first = described if isinstance(described, dict) else {}
        self._number(document, event.members)
        return (event,)

    def _item_event(self, event: Event, document: Document) -> Iterable[Event]:
        members, name, seen = event.members, _name(event), self.seen
        place = document.plain(members.get("output_index"))
        if isinstance(place, int):
            item = members.get("item")
            if name == "response.output_item.added":
                hidden = is_hidden(document, item, self.injected_tool)
                seen.hidden |= {place} if hidden else set()
                self.hidden_names.note(_names(document, item), hidden=hidden)
            if name == "response.output_item.done" and item is not None:
                seen.items[place] = document.source(item)
            if place in seen.hidden:
                return ()
            shown = len(self._shown) + place - sum([hidden < place for hidden in seen.hidden])
            if shown != place:
                document.replace(members["output_index"], shown)
        self._number(document, members)
        return (event,)

    def _number(self, document: Document, members: dict[str, Raw]) -> None:
        """Give an event the next number of the sequence, if it has one."""
        number = document.plain(members.get("sequence_number"))
        if isinstance(number, int):
            wanted = number if self._sequence < 0 else self._sequence + 1
            if wanted != number:
                document.replace(members["sequence_number"], wanted)
            self._sequence = wanted

    def put_right(self, event: Event) -> None:
        document = event.document
        assert document is not None
        owner = event.members.get("response")
        response = document.members(owner)
        # Some servers leave the items of a stream out of its last event.
        left_out = bool(self.seen.items) and not document.items(response.get("output"))
        show(document, response, self.injected_tool, [] if left_out else self._shown)
        self.usage.add(document, owner, self.hidden_usage, {})
        later = self.continued or self._begun
        if not later:
            name_before(document, response, self._before)
        for name in _KEPT if later else ():
            if name in response and name in self._first:
                document.replace(response[name], self._first[name])
        self._number(document, event.members)


class ResponsesWhole(WholeTurns):
    """One JSON document."""

    usage = USAGE
    ends = ENDS

    def __init__(self, injected_tool: str, before: str) -> None:
        super().__init__(injected_tool)
        self._before = before
        self._shown: list[bytes] = []

    def always_edits(self) -> bool:
        return True

    def turn(self, document: Document) -> Turn:
        members = document.members(document.root)
        has_error = bool(document.plain(members.get("error")))
        if "output" not in members:
            return Turn(failed=has_error)
        items = [document.source(item) for item in document.items(members["output"])]
        turn = read_turn(items, document.plain(document.root), self.injected_tool)
        return replace(turn, failed=has_error and not turn.finished)

    def hide_turn(self, document: Document) -> None:
        self._shown += visible_items(document, document.members(document.root), self.injected_tool)

    def put_right(self, document: Document) -> None:
        members = document.members(document.root)
        show(document, members, self.injected_tool, self._shown)
        name_before(document, members, self._before)

    def error(self, failure: Failure) -> bytes:
        return error_body(failure, self.injected_tool)


def _name(event: Event) -> str:
    """The type of an event."""
    said = event.document.string(event.members.get("type")) if event.document is not None else ""
    return said or (event.piece.name if isinstance(event.piece, SseEvent) else "")


def is_hidden(document: Document, item: Raw | None, injected_tool: str) -> bool:
    """Whether an item is a call of the injected tool."""
    members = document.members(item)
    is_call = document.string(members.get("type")) == "function_call"
    return is_call and document.string(members.get("name")) == injected_tool


def _names(document: Document, item: Raw | None) -> tuple[str, ...]:
    """The ids of an item: its own, and that of the call that it is."""
    members = document.members(item)
    return tuple(filter(None, (document.string(members.get(key)) for key in ("id", "call_id"))))


def scrub(document: Document, response: dict[str, Raw], injected_tool: str) -> None:
    """Take the injected tool out of the tools that a response repeats from its request."""
    items = document.items(response.get("tools"))
    kept = [
        document.source(item)
        for item in items
        if document.string(document.members(item).get("name")) != injected_tool
    ]
    if len(kept) < len(items):
        _set_items(document, response["tools"], kept)


def name_before(document: Document, response: dict[str, Raw], before: str) -> None:
    """A response names the one before it as the client does, who may know it by another id."""
    named = response.get(_BEFORE)
    if before and named is not None and document.string(named) not in (None, before):
        document.replace(named, before)


def show(document: Document, response: dict[str, Raw], injected_tool: str, shown: Sequence[bytes]) -> None:
    """Edit a complete response: its tools and items as the client is to know them."""
    scrub(document, response, injected_tool)
    items = document.items(response.get("output"))
    visible = visible_items(document, response, injected_tool)
    if "output" in response and (shown or len(visible) < len(items)):
        _set_items(document, response["output"], [*shown, *visible])


def visible_items(document: Document, response: dict[str, Raw], injected_tool: str) -> list[bytes]:
    items = document.items(response.get("output"))
    return [document.source(item) for item in items if not is_hidden(document, item, injected_tool)]


def _set_items(document: Document, array: Raw, items: Sequence[bytes]) -> None:
    document.rewrite(array, b"[" + b",".join(items) + b"]")


def read_turn(items: Sequence[bytes], end: dict[str, Any], injected_tool: str) -> Turn:
    """What is to be known of a turn: `items` as the model wrote them, `end` the finished response."""
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
        if is_hidden(document, document.root, injected_tool):
            arguments = document.string(item.get("arguments")) or ""
            alias = document.string(item.get("id")) or ""
            injected.append(InjectedCall(call_id(document, name, item), arguments, (alias,)))
            continue
        last = document.string(item.get("id")) or ""
        # Clients send it again whole, or refer to it by its id.
        orphans = [*orphans, reasoning_name(document, item), last] if name == "reasoning" else []
        if id_ := call_id(document, name, item):
            real_calls.append(id_)
            made += [call] if (call := _made(document, name, item, id_)) else []
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
        continuable=status == "completed",
        response_id=str(end.get("id") or ""),
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
        if not lonely and not is_hidden(document, document.root, injected_tool):
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
    by_program = reads_result(document.plain(item.get("caller")))
    return MadeCall(found, document.string(item.get("name")) or default, text, by_program)


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    error = described(failure, injected_tool)
    status = error.status or 502
    kind = error.type if error.type not in ("error", "response.failed") else ""
    code = error.code or ("rate_limit_exceeded" if status == 429 else None)
    kind = kind or ("invalid_request_error" if status < 500 and status != 429 else "server_error")
    return encode({"error": {"message": error.message, "type": kind, "param": None, "code": code}})


def _error(failure: Failure, injected_tool: str) -> dict[str, str]:
    """Code and message of a response that failed."""
    error = described(failure, injected_tool)
    code = str(error.code) if isinstance(error.code, str) else ""
    other = "rate_limit_exceeded" if error.status == 429 else "server_error"
    return {"code": code or other, "message": error.message}


class ResponsesResponses(Responses):
    """OpenAI Responses."""

    usage = USAGE
    keep_alive = b": keep-alive\n\n"
    arguments = ResponsesArguments

    def framing(self) -> Framing:
        return Framing(SseReader)

    def turns(self, framing: Framing, injected_tool: str, before: str) -> Turns:
        return ResponsesTurns(
            injected_tool, before, lambda name, data: SseEvent(event_bytes(name, data), name, data)
        )

    def whole_turns(self, injected_tool: str, before: str) -> WholeTurns:
        return ResponsesWhole(injected_tool, before)
