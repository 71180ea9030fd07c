"""Google Gemini: answers, as streams (server-sent events or one JSON array) and as JSON.

An answer is a list of parts, and a stream is a list of answers with some of them each. Calls arrive in
one piece, often together with the finish reason: the end of a turn is held back once a call of the
injected tool was seen. Code Assist wraps every answer in another object. The API knows no keep-alive.

Where the client sees the text of several turns as one text, an empty line stands between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, InjectedCall, Turn
from penumbra.apis.gemini import call_token, member
from penumbra.apis.openai_chat_message import gap
from penumbra.apis.upstream_error import told
from penumbra.apis.usage import added, flat, only, plus
from penumbra.apis.whole_response import WholeResponse
from penumbra.wire.document import Document, Edit, NotJson, decode, encode
from penumbra.wire.framing import MOST_BLANK_BYTES
from penumbra.wire.json_array import ArrayItem, ArrayReader
from penumbra.wire.sse import SseEvent, SseReader, event_bytes

_SUMMED = ("candidatesTokenCount", "thoughtsTokenCount")
_USAGE = ("usageMetadata", "usage_metadata")
_CONTINUABLE = ("", "STOP")
_EMPTY = b'[{"text":""}]'
_STATUS = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}

_Event = SseEvent | ArrayItem


class GeminiStream:
    """An answer that arrives piece by piece."""

    keep_alive = b""

    def __init__(self, injected_tool: str) -> None:
        self._injected_tool = injected_tool
        self._reader: SseReader | ArrayReader | None = None
        self._blank = bytearray()
        """White space at the beginning of a turn, before it is known what comes."""
        self._is_array = False
        self._begun = False
        """The client has got the beginning of an array."""
        self._id: bytes | None = None
        self._seam = Seam()
        self._hidden_usage: dict[str, int] = {}
        self._continued = False
        self._turn = _Turn()

    @property
    def holding(self) -> bool:
        return bool(self._turn.held)

    def feed(self, data: bytes) -> bytes:
        return b"".join([self._event(event) for event in self._read(data)])

    def end_turn(self) -> Turn:
        rest = self._reader.close() if self._reader else []
        self._turn.rest = b"".join([self._event(event) for event in rest])
        if self._reader is None:
            self._turn.rest = bytes(self._blank)
        return self._turn.read()

    def go_on(self) -> bytes:
        out = [self._turn.rest]
        out += [self._without_end(event) for event in self._turn.held if event.data is not None]
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        self._continued = True
        self._seam.due = True
        self.restart()
        return b"".join(out)

    def restart(self) -> None:
        self._turn, self._reader = _Turn(), None
        self._blank.clear()

    def finish(self) -> bytes:
        held, self._turn.held = self._turn.held, []
        rest, self._turn.rest = self._turn.rest, b""
        return b"".join([rest, *(self._end(event) for event in held)])

    def fail(self, failure: Failure) -> bytes:
        if self._turn.failed and not self._continued:
            return b""
        body = error_body(failure, self._injected_tool)
        if not self._is_array:
            return event_bytes("", body)
        return (b"," if self._begun else b"[") + body + b"]"

    def _read(self, data: bytes) -> Sequence[_Event]:
        if self._reader is None:
            self._blank += data
            if not data.strip() and len(self._blank) <= MOST_BLANK_BYTES:
                return []
            data = bytes(self._blank)
            self._is_array = data.lstrip()[:1] == b"["
            self._reader = ArrayReader() if self._is_array else SseReader()
        return self._reader.feed(data)

    def _event(self, event: _Event) -> bytes:
        if self._turn.failure is not None:
            return b""
        if event.data is None:
            if isinstance(event, ArrayItem) and not event.is_part and b"]" in event.raw:
                return self._hold(event) if self._turn.held else self._close(event)
            return event.raw
        try:
            document = Document(event.data)
        except NotJson:
            return event.raw
        response = answer(document)
        if "error" in response:
            self._turn.failed = True
            self._turn.held.clear()
            if not self._continued:
                return self._write(event, document)
            self._turn.failure = Failure(None, event.data, ENDED_IN_AN_ERROR)
            return b""
        found = self._turn.read_parts(document, response, self._injected_tool)
        ends = self._turn.note_end(document, response)
        self._seam.close(document, found.shown)
        if found.hidden:
            remove(document, found)
        if self._continued:
            self._one_answer(document, response)
        elif self._id is None and "responseId" in response:
            self._id = document.source(response["responseId"])
        if self._turn.injected and ends:
            return self._hold(_changed(event, document))
        if found.hidden and not found.shown:
            return b""
        return self._write(event, document)

    def _write(self, event: _Event, document: Document) -> bytes:
        """The event with its edits; in an array with what must stand in front of it."""
        changed = _changed(event, document)
        if isinstance(changed, ArrayItem):
            first, self._begun = not self._begun, True
            fits = changed.raw.lstrip()[:1] == (b"[" if first else b",")
            return changed.raw if fits else changed.opening() if first else changed.following()
        return changed.raw

    def _one_answer(self, document: Document, response: dict[str, Raw]) -> None:
        """Pieces of a continuation carry the id of the first turn, and figures of all turns."""
        if self._id is not None and "responseId" in response:
            document.replace(response["responseId"], decode(self._id))
        sum_usage(document, response, self._hidden_usage)

    def _hold(self, event: _Event) -> bytes:
        self._turn.held.append(event)
        return b""

    def _end(self, event: _Event) -> bytes:
        """A held event at the end of the answer."""
        return self._close(event) if event.data is None else self._write(event, Document(event.data))

    def _close(self, event: _Event) -> bytes:
        """The end of an array, which the client may or may not have got the beginning of."""
        opens = event.raw.lstrip()[:1] == b"["
        if self._begun:
            return b"]" if opens else event.raw
        return event.raw if opens else b"[]"

    def _without_end(self, event: _Event) -> bytes:
        """What a held event still has to say when the answer goes on; empty if that is nothing."""
        document = Document(event.data or b"{}")
        response = answer(document)
        if not any(_says(part) for _, part in parts(document, response)):
            return b""
        for candidate in document.items(response.get("candidates")):
            if (reason := member(document.members(candidate), "finishReason")) is not None:
                document.remove_member(reason)
        return self._write(event, document)


def _changed(event: _Event, document: Document) -> _Event:
    if not document.edits:
        return event
    data = document.render()
    raw = event.with_data(data)
    return ArrayItem(raw, data) if isinstance(event, ArrayItem) else SseEvent(raw, event.name, data)


@dataclass(slots=True)
class Seam:
    """The place where the text of one turn meets that of the next."""

    due: bool = False
    last: str = ""

    def close(self, document: Document, shown: Sequence[dict[str, Raw]]) -> None:
        """Put an empty line in front of the first text of a continuation, if there is text before."""
        for part in shown:
            text = _text(document, part)
            if not text:
                continue
            if self.due and (space := gap(self.last, text)):
                document.replace(part["text"], space + text)
            self.last, self.due = text, False


@dataclass(slots=True)
class Found:
    """The parts of one piece of an answer."""

    shown: list[dict[str, Raw]] = field(default_factory=list)
    hidden: list[Raw] = field(default_factory=list)
    arrays: list[tuple[Raw, list[Raw]]] = field(default_factory=list)
    """Each array of parts, with those of it that the client gets."""


@dataclass(slots=True)
class _Turn:
    """What was said so far in the current turn."""

    parts: list[bytes] = field(default_factory=list)
    injected: list[InjectedCall] = field(default_factory=list)
    real_calls: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    held: list[_Event] = field(default_factory=list)
    reason: str = ""
    finished: bool = False
    failed: bool = False
    failure: Failure | None = None
    single: bool = True
    rest: bytes = b""

    def read_parts(self, document: Document, response: dict[str, Raw], injected_tool: str) -> Found:
        found = Found()
        candidates = document.items(response.get("candidates"))
        self.single = self.single and len(candidates) <= 1
        for candidate in candidates:
            content = document.members(document.members(candidate).get("content"))
            kept = []
            for value in document.items(content.get("parts")):
                part = document.members(value)
                self.parts.append(document.source(value))
                if self._is_hidden(document, part, injected_tool):
                    found.hidden.append(value)
                else:
                    kept.append(value)
                    found.shown.append(part)
            if "parts" in content:
                found.arrays.append((content["parts"], kept))
        return found

    def _is_hidden(self, document: Document, part: dict[str, Raw], injected_tool: str) -> bool:
        if (signature := document.string(member(part, "thoughtSignature"))) is not None:
            self.signatures.append(signature)
        self.texts.append(_text(document, part))
        call = member(part, "functionCall")
        if call is None:
            return False
        members = document.members(call)
        if document.string(members.get("name")) != injected_tool:
            self.real_calls.append(document.string(members.get("id")) or "")
            self.tokens.append(call_token(document, call))
            return False
        arguments = document.source(members["args"]).decode() if "args" in members else "{}"
        self.injected.append(InjectedCall(_identity(document, members), arguments))
        return True

    def note_end(self, document: Document, response: dict[str, Raw]) -> bool:
        """Keep figures and finish reason; whether this piece ends the turn."""
        for name in _USAGE:
            self.usage |= flat(document.plain(response.get(name)))
        ends = False
        for candidate in document.items(response.get("candidates")):
            reason = document.string(member(document.members(candidate), "finishReason"))
            if reason:
                self.reason, self.finished, ends = reason, True, True
        if document.plain(document.members(member(response, "promptFeedback")).get("blockReason")):
            self.reason, self.finished, ends = "BLOCKED", True, True
        return ends

    def read(self) -> Turn:
        calls = bool(self.injected or self.real_calls)
        return Turn(
            # What would have come beside a call, nobody knows.
            message=_message(self.parts) if self.finished or not calls else None,
            injected=tuple(self.injected),
            real_calls=tuple(self.real_calls),
            tokens=tuple(self.tokens),
            text="".join(self.texts),
            signatures=tuple(self.signatures),
            finished=self.finished,
            failed=self.failed,
            failure=self.failure,
            continuable=self.single and self.reason in _CONTINUABLE,
            usage=self.usage,
        )


class GeminiBody(WholeResponse):
    """An answer that arrives as one JSON document."""

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._shown: list[bytes] = []
        """Parts that the client gets of turns that were continued."""
        self._seam = Seam()
        self._turn = _Turn()

    def end_turn(self) -> Turn:
        self._turn = _Turn()
        try:
            document = Document(bytes(self._body))
        except NotJson:
            return Turn()
        response = answer(document)
        self._turn.failed = "error" in response
        self._turn.read_parts(document, response, self._injected_tool)
        self._turn.note_end(document, response)
        return self._turn.read()

    def go_on(self) -> bytes:
        shown = self._visible()
        self._shown += shown
        self._seam.due = True
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        return super().go_on()

    def finish(self) -> bytes:
        body = bytes(self._body)
        if not self._shown and not self._hidden_usage and not self._turn.injected:
            return body
        document = Document(body)
        response = answer(document)
        visible = [*self._shown, *self._visible()]
        found = _Turn().read_parts(document, response, self._injected_tool)
        for array, _ in found.arrays[:1]:
            start, end = document.place(array)
            document.edits.append(Edit(start, end, b"[" + b",".join(visible) + b"]" if visible else _EMPTY))
        sum_usage(document, response, self._hidden_usage)
        return document.render()

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure, self._injected_tool)

    def _visible(self) -> list[bytes]:
        """The parts of the current turn that the client gets, its text apart from that of earlier ones."""
        document = Document(bytes(self._body))
        found = _Turn().read_parts(document, answer(document), self._injected_tool)
        self._seam.close(document, found.shown)
        kept = found.arrays[0][1] if found.arrays else []
        return [_rendered(document, value, document.edits) for value in kept]


def answer(document: Document) -> dict[str, Raw]:
    """The members of the answer itself, without what Code Assist puts around it."""
    top = document.members(document.root)
    wrapped = document.members(top.get("response"))
    return wrapped if wrapped and "candidates" not in top else top


def parts(document: Document, response: dict[str, Raw]) -> list[tuple[Raw, dict[str, Any]]]:
    """The parts of all candidates, each with its decoded members."""
    found = []
    for candidate in document.items(response.get("candidates")):
        content = document.members(document.members(candidate).get("content"))
        for value in document.items(content.get("parts")):
            said = document.plain(value)
            found.append((value, said if isinstance(said, dict) else {}))
    return found


def remove(document: Document, found: Found) -> None:
    """Take the hidden parts out; other edits within the parts are kept."""
    for array, kept in found.arrays:
        hidden = [value for value in found.hidden if _within(document, value, array)]
        if not hidden:
            continue
        start, end = document.place(array)
        inside = [edit for edit in document.edits if start <= edit.start and edit.end <= end]
        document.edits[:] = [edit for edit in document.edits if edit not in inside]
        pieces = [_rendered(document, value, inside) for value in kept]
        document.edits.append(Edit(start, end, b"[" + b",".join(pieces) + b"]" if pieces else _EMPTY))


def _rendered(document: Document, value: Raw, edits: Sequence[Edit]) -> bytes:
    """A value with those of the edits that are within it."""
    start, end = document.place(value)
    part = Document(document.source(value))
    part.edits += [
        Edit(edit.start - start, edit.end - start, edit.data)
        for edit in edits
        if start <= edit.start and edit.end <= end
    ]
    return part.render()


def _within(document: Document, value: Raw, outer: Raw) -> bool:
    return document.place(outer)[0] <= document.place(value)[0] < document.place(outer)[1]


def sum_usage(document: Document, response: dict[str, Raw], hidden: dict[str, int]) -> None:
    """Output of all turns, input of the last."""
    for name in _USAGE:
        usage = document.plain(response.get(name))
        if isinstance(usage, dict) and hidden:
            summed = added(usage, hidden)
            more = sum(summed.get(key, 0) - usage.get(key, 0) for key in _SUMMED if key in usage)
            if "totalTokenCount" in summed:
                summed["totalTokenCount"] += more
            document.replace(response[name], summed)


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    error = told(failure, injected_tool)
    code = error.status or 502
    state = error.state or _STATUS.get(code, "INTERNAL")
    return encode({"error": {"code": code, "message": error.message, "status": state}})


def _identity(document: Document, call: dict[str, Raw]) -> str:
    """Name and id of a call, as its response repeats them; JSON."""
    return encode({key: document.string(call[key]) for key in ("id", "name") if key in call}).decode()


def _text(document: Document, part: dict[str, Raw]) -> str:
    """The visible text of a part."""
    thought = document.plain(part.get("thought")) is True
    return "" if thought else document.string(part.get("text")) or ""


def _says(part: dict[str, Any]) -> bool:
    return any(value not in ("", None) for key, value in part.items() if key != "thought")


def _message(sources: Sequence[bytes]) -> bytes | None:
    """Parts of a turn as a request would carry them; text that was cut for the stream is one again."""
    merged: list[bytes] = []
    last: dict[str, Any] = {}
    for source in sources:
        part = decode(source)
        said = part if isinstance(part, dict) else {}
        whole = set(said) <= {"text", "thought"} and "text" in said
        if whole and "text" in last and said.get("thought") == last.get("thought"):
            last = {**said, "text": str(last["text"]) + str(said["text"])}
            merged[-1] = encode(last)
            continue
        merged.append(source)
        last = said if whole else {}
    kept = [source for source in merged if source not in (b'{"text":""}', b'{"text": ""}')]
    return b'{"role":"model","parts":[' + b",".join(kept) + b"]}" if kept else None
