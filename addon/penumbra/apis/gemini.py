"""This module has the format of Google Gemini, which AI Studio, Vertex and Code Assist use.

A tool result is a `functionResponse` part. Its response is an object of any shape, whose strings may be
shortened. Ids are optional. A result without an id answers the first call with the same name that has no
result yet. Names of members may be in camel or snake case. Adjacent contents of the model count as one
assistant message, because some clients store each piece of a response as a content. Results of parallel calls
must be in one content.

A response is a list of parts. A stream (server-sent events or one JSON array) is a list of responses. Each
response in the list has some of the parts (`message_pieces.py`). Code Assist wraps requests and responses in
another object. The API has no keep-alive event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Event, Hidden, InjectedCall, Tool, Tools, Turn, Visible, called_as
from penumbra.apis.call_arguments import CallArguments
from penumbra.apis.message_pieces import Noted, PieceTurns, Reading, call_tokens
from penumbra.apis.parts import OpenCalls, ToolCall, string_values
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.apis.responses import Responses
from penumbra.apis.turns import SSE, Framing
from penumbra.apis.upstream_error import GOOGLE, DescribedError, by_status
from penumbra.apis.usage import EndingTable, UsageTable
from penumbra.linear import utf8
from penumbra.wire.document import Document
from penumbra.wire.framing import MOST_BLANK_BYTES, ArrayItem, ArrayReader, Piece, Reader, SseEvent, SseReader
from penumbra.wire.json_values import decode, encode

_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")
_CALLING, _NO_CALLS = "functionCallingConfig", b'{"mode":"NONE"}'
_ERRORS = {**by_status(GOOGLE), 413: "INVALID_ARGUMENT"}
_WRAPPERS = ("request", "generateContentRequest", "generate_content_request")


def write_error(error: DescribedError) -> bytes:
    code = error.status or 502
    state = error.state or _ERRORS.get(code, "INTERNAL" if code >= 500 else "FAILED_PRECONDITION")
    return encode({"error": {"code": code, "message": error.message, "status": state}})


class GeminiFormat(ApiFormat):
    """The format of bodies of generateContent, streamGenerateContent and countTokens."""

    names_calls = False
    messages = "contents"
    error_body = staticmethod(write_error)
    tokens = staticmethod(call_tokens)
    opens_with_first = False
    calls_wait = True
    joins_messages = True

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        members = document.members(value)
        role = document.string(members.get("role")) or "user"
        return Message(value, turn, role, role == "model", tuple(_parts(document, members)))

    def members(self, document: Document) -> Mapping[str, Raw]:
        return inner(document)

    def model(self, document: Document) -> str:
        top = document.top
        return document.string(top.get("model")) or document.text_of(inner(document).get("model"))

    def system(self, document: Document) -> Iterator[Part]:
        return _parts(document, document.members(member(inner(document), "systemInstruction")))

    def answered(self, result: Part, by_id: Mapping[str, ToolCall], waiting: OpenCalls) -> ToolCall | None:
        call = by_id.get(result.id) if result.id else None
        return call or waiting.first_named(result.name)

    def blocks(self, document: Document, message: Raw) -> Raw | None:
        return document.members(message).get("parts")

    def tools(self, request: Document) -> Tools:
        members = inner(request)
        names = []
        for value in _declarations(request, members):
            names.append(request.text_of(request.members(value).get("name")))
        config = request.members(member(members, "generationConfig"))
        candidates = request.plain(member(config, "candidateCount"))
        calling = request.members(member(request.members(member(members, "toolConfig")), _CALLING))
        in_pieces = request.plain(member(calling, "streamFunctionCallArguments")) is True
        forced = request.string(calling.get("mode")) == "ANY"
        return Tools(tuple(names), len(names), forced, candidates in (None, 1) and not in_pieces)

    def declare(self, request: Document, tool: Tool) -> None:
        members = inner(request)
        declared = [request.members(value) for value in _declarations(request, members)]
        used = (name for name in _SCHEMAS if any(name in source for source in declared))
        array = [item for item in _arrays(request, members) if request.items(item)][-1]
        request.append(array, tool.declared(next(used, "parameters")))

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"functionResponse": {**decode(utf8(call.id)), "response": {"output": text}}})

    def user_message(self, text: str) -> bytes:
        return encode({"role": "user", "parts": [{"text": text}]})

    def pair(self, part: Part) -> str:
        return part.id or part.name

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        results_message = b'{"role":"user","parts":[' + b",".join(results) + b"]}"
        return (turn.message, results_message) if turn.message else (results_message,)

    def without_calls(self, request: bytes) -> bytes:
        document = Document(request)
        top = inner_root(document)
        members = document.members(top)
        config = member(members, "toolConfig")
        calling = member(document.members(config), _CALLING)
        if config is None:
            document.add_member(top, "toolConfig", b'{"functionCallingConfig":' + _NO_CALLS + b"}")
        elif calling is None:
            document.add_member(config, _CALLING, _NO_CALLS)
        else:
            document.rewrite(calling, _NO_CALLS)
        return document.render()

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        run = self.response_at(request, visible.index)
        if request.is_edited(request.place(run[0].value)[0], request.place(run[-1].value)[1]):
            return False
        last, results = hidden.last, hidden.results
        if not all(visible.calls):
            # The client answers these calls without ids.
            last, results = last and _without_ids(last), tuple(map(_without_ids, results))
        if results:
            after = self.prompt(request).messages[run[-1].turn + 1 :][:1]
            blocks = self.blocks(request, after[0].value) if after else None
            if blocks is None or not request.items(blocks):
                return False
            request.insert(blocks, 0, b",".join(results))
        return self.replace_run(request, run, [*hidden.before, *([last] if last else [])])


def _parts(document: Document, members: Mapping[str, Raw]) -> Iterator[Part]:
    for value in document.items(members.get("parts")):
        yield from _parts_of(document, value)


def _parts_of(document: Document, value: Raw) -> Iterator[Part]:
    part = document.members(value)
    text = part.get("text")
    if text is not None and document.is_string(text):
        thought = "thought" in part and document.plain(part["thought"])
        yield Part(Kind.REASONING if thought else Kind.TEXT, value, texts=(text,))
    if (call := member(part, "functionCall")) is not None:
        made = document.members(call)
        call_id, name = (document.text_of(made.get(key)) for key in ("id", "name"))
        yield Part(Kind.CALL, call, call_id, name, made.get("args"))
    if (response := member(part, "functionResponse")) is not None:
        result = document.members(response)
        call_id, name = (document.text_of(result.get(key)) for key in ("id", "name"))
        body = result.get("response")
        is_error = bool(document.plain(document.members(body).get("error")))
        texts = tuple(string_values(document, body))
        yield Part(Kind.RESULT, value, call_id, name, None, texts, body, is_error)


def inner(document: Document) -> dict[str, Raw]:
    """Return the members of the request itself, which may be inside another object."""
    return document.members(inner_root(document))


def inner_root(document: Document) -> Raw:
    top = document.top
    for name in _WRAPPERS:
        if "contents" not in top and "contents" in document.members(top.get(name)):
            return top[name]
    return document.root


def member(members: Mapping[str, Raw], name: str) -> Raw | None:
    """Return a member. `name` is in camel case; the member's name may also be in snake case."""
    if name in members:
        return members[name]
    return members.get(_in_snake_case(name))


@cache
def _in_snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _without_ids(source: bytes) -> bytes:
    """Return a content, or a part of one, without the ids of its calls and responses."""
    document = Document(source)
    for value in document.items(document.top.get("parts")) or [document.root]:
        part = document.members(value)
        for call in (member(part, "functionCall"), member(part, "functionResponse")):
            if (id_ := document.members(call).get("id")) is not None:
                document.remove_member(id_)
    return document.render()


def _arrays(request: Document, members: dict[str, Raw]) -> Iterator[Raw]:
    """Yield every list of functions that the request declares."""
    for value in request.items(members.get("tools")):
        if (array := member(request.members(value), "functionDeclarations")) is not None:
            yield array


def _declarations(request: Document, members: dict[str, Raw]) -> Iterator[Raw]:
    for array in _arrays(request, members):
        yield from request.items(array)


USAGE = UsageTable(
    inputs=(
        "promptTokenCount",
        "cachedContentTokenCount",
        "toolUsePromptTokenCount",
        "promptTokensDetails",
        "cacheTokensDetails",
    ),
    outputs=("candidatesTokenCount", "thoughtsTokenCount"),
    holders=("usageMetadata", "usage_metadata"),
    within=("response", ""),
    total="totalTokenCount",
    in_total=("promptTokenCount", "toolUsePromptTokenCount"),
)
ENDS = EndingTable(reasons=(("finishReason",),), model="modelVersion", choices="candidates")
_CONTINUABLE = ("", "STOP")
_EMPTY = b'[{"text":""}]'


class GeminiFraming(Framing):
    """The framing of server-sent events, or of one array. In an array, `[` or a comma precedes each item."""

    def __init__(self) -> None:
        super().__init__(lambda: GeminiReader(self), self._piece)
        self.is_array = False
        self.is_begun = False
        """True if the beginning of an array was sent to the client."""

    def write(self, event: Event) -> bytes:
        if not isinstance(event.piece, ArrayItem):
            return event.bytes()
        if event.document is None:
            return self._close(event.piece.raw) if ends_array(event.piece) else event.piece.raw
        first, self.is_begun = not self.is_begun, True
        raw = event.bytes()
        item = ArrayItem(raw, event.data())
        fits = raw.lstrip()[:1] == (b"[" if first else b",")
        return raw if fits else item.opening() if first else item.following()

    def _piece(self, name: str, data: bytes) -> Piece:
        """Return a new event. In an array, the event is the last one."""
        if not self.is_array:
            return SSE.piece(name, data)
        return ArrayItem((b"," if self.is_begun else b"[") + data + b"]", None)

    def _close(self, raw: bytes) -> bytes:
        """Return the end of an array. If the client has not got the beginning, return beginning and end."""
        opens = raw.lstrip()[:1] == b"["
        if self.is_begun:
            return b"]" if opens else raw
        return raw if opens else b"[]"


@dataclass(slots=True)
class GeminiReader:
    """A reader of server-sent events or of an array. The beginning of the stream shows its kind."""

    framing: GeminiFraming
    _reader: Reader | None = None
    _blank: bytearray = field(default_factory=bytearray)
    """White space at the beginning, before the kind of the stream is known."""

    def feed(self, data: bytes) -> Sequence[Piece]:
        if self._reader is None:
            self._blank += data
            if not data.strip() and len(self._blank) <= MOST_BLANK_BYTES:
                return []
            data = bytes(self._blank)
            self.framing.is_array = data.lstrip()[:1] == b"["
            self._reader = ArrayReader() if self.framing.is_array else SseReader()
        return self._reader.feed(data)

    def close(self) -> Sequence[Piece]:
        if self._reader is not None:
            return self._reader.close()
        return [SseEvent(bytes(self._blank), "", None)] if self._blank else []


def ends_array(piece: Piece) -> bool:
    return isinstance(piece, ArrayItem) and piece.data is None and not piece.is_part and b"]" in piece.raw


@dataclass
class GeminiReading(Reading):
    parts: list[bytes] = field(default_factory=list)
    single: bool = True

    def note(self, document: Document) -> Noted:
        response = members(document)
        self.single = self.single and len(document.items(response.get("candidates"))) <= 1
        hidden = []
        texts = []
        for value in parts(document):
            part = document.members(value)
            self.parts.append(document.source(value))
            hidden.append(is_hidden(document, value, self.injected_tool))
            if (signature := document.string(member(part, "thoughtSignature"))) is not None:
                self.signatures.append(signature)
            for call in (one for one in _parts_of(document, value) if one.kind is Kind.CALL):
                called = document.members(call.block)
                named: dict[str, str | None] = {
                    key: document.string(called[key]) for key in ("id", "name") if key in called
                }
                self.note_call(document, call, named if hidden[-1] else None)
            text = _text(document, part)
            self.texts.append(text)
            texts += [part["text"]] if text and not hidden[-1] else []
        return Noted(texts, any(hidden), not all(hidden), self._note_end(document, response))

    def _note_end(self, document: Document, response: dict[str, Raw]) -> bool:
        """Store the reasons why the turn ended. Return whether this piece has a reason."""
        candidates = map(document.members, document.items(response.get("candidates")))
        reasons = [document.string(member(candidate, "finishReason")) for candidate in candidates]
        feedback = document.members(member(response, "promptFeedback"))
        reasons += ["BLOCKED"] if document.plain(feedback.get("blockReason")) else []
        ended = [reason for reason in reasons if reason]
        if ended:
            self.reason, self.finished = ended[-1], True
        return bool(ended)

    def message(self) -> bytes | None:
        return _message(self.parts)

    def is_continuable(self) -> bool:
        return self.single and self.reason in _CONTINUABLE


class GeminiTurns(PieceTurns):
    """The turns of a response in a stream of documents with parts, or in one document."""

    usage = USAGE
    ends = ENDS
    error_body = staticmethod(write_error)

    _id: bytes | None = None
    """The id of the first turn, in JSON."""

    def __init__(self, framing: Framing, injected_tool: str, before: str = "") -> None:
        self._shown: list[bytes] = []
        """The visible parts of the earlier turns. Each turn was a document."""
        super().__init__(framing, injected_tool, before)

    def new_reading(self) -> Reading:
        return GeminiReading(self.injected_tool)

    def event(self, event: Event) -> Iterable[Event]:
        """Read an event, without messages that quote a malformed call of the injected tool."""
        document, name = event.document, self.injected_tool
        if document is not None and name and b"inish" in document.data:
            for candidate in document.items(members(document).get("candidates")):
                message = member(document.members(candidate), "finishMessage")
                if message is not None and name in document.text_of(message):
                    document.remove_member(message)
            event.settle()
        return super().event(event)

    def is_error(self, event: Event) -> bool:
        return event.document is not None and "error" in members(event.document)

    def owner(self, document: Document) -> Raw:
        return _answer(document)

    def no_json(self, event: Event) -> Iterable[Event]:
        return self.delay(event) if ends_array(event.piece) and self.delayed else (event,)

    def take_out(self, document: Document) -> None:
        for array in arrays(document):
            items = document.items(array)
            kept = [
                document.source(item) for item in items if not is_hidden(document, item, self.injected_tool)
            ]
            if len(kept) < len(items):
                document.rewrite(array, b"[" + b",".join(kept) + b"]" if kept else _EMPTY)

    def join(self, document: Document) -> None:
        """Give a piece the id of the first turn and the token counts of all turns."""
        response, owner = members(document), _answer(document)
        self.note_usage(document, owner)
        self.usage.add(document, owner, self.hidden_usage, {})
        if "responseId" in response and not self.continued:
            self._id = self._id or document.source(response["responseId"])
        elif "responseId" in response and self._id is not None:
            document.replace(response["responseId"], decode(self._id))

    def without_end(self, event: Event) -> Event | None:
        document = event.document
        if document is None or not any(_says(document.plain(part)) for part in parts(document)):
            return None
        for candidate in document.items(members(document).get("candidates")):
            if (reason := member(document.members(candidate), "finishReason")) is not None:
                document.remove_member(reason)
        return event

    def keep(self, document: Document) -> None:
        self._shown += self._visible(document)

    def put_together(self, document: Document) -> None:
        visible = [*self._shown, *self._visible(document)]
        if (array := next(arrays(document), None)) is not None:
            document.rewrite(array, b"[" + b",".join(visible) + b"]" if visible else _EMPTY)

    def _visible(self, document: Document) -> list[bytes]:
        """Return the parts for the client, with a separator after the text of earlier turns."""
        joined = Document(document.data)
        self.seam.edit(joined, GeminiReading(self.injected_tool).note(joined).texts)
        joined = Document(joined.render())
        items = joined.items(next(arrays(joined), None))
        return [joined.source(item) for item in items if not is_hidden(joined, item, self.injected_tool)]


class GeminiArguments(CallArguments):
    def blocks(self, document: Document) -> Iterable[Raw]:
        return parts(document)

    def parts(self, document: Document, block: Raw) -> Iterable[Part]:
        return _parts_of(document, block)


def _answer(document: Document) -> Raw:
    """Return the response itself, without the object that Code Assist wraps around it."""
    top = document.top
    wrapped = top.get("response")
    return wrapped if wrapped and document.members(wrapped) and "candidates" not in top else document.root


def members(document: Document) -> dict[str, Raw]:
    return document.members(_answer(document))


def arrays(document: Document) -> Iterator[Raw]:
    for candidate in document.items(members(document).get("candidates")):
        content = document.members(document.members(candidate).get("content"))
        if "parts" in content:
            yield content["parts"]


def parts(document: Document) -> list[Raw]:
    return [part for array in arrays(document) for part in document.items(array)]


def is_hidden(document: Document, part: Raw, injected_tool: str) -> bool:
    call = document.members(member(document.members(part), "functionCall"))
    return document.string(call.get("name")) in called_as(injected_tool)


def _text(document: Document, part: dict[str, Raw]) -> str:
    thought = document.plain(part.get("thought")) is True
    return "" if thought else document.text_of(part.get("text"))


def _says(part: Any) -> bool:
    members = part if isinstance(part, dict) else {}
    return any(value not in ("", None) for key, value in members.items() if key != "thought")


def _message(sources: Sequence[bytes]) -> bytes | None:
    """Return a turn's message as JSON for a later request, with texts joined; None if it is empty."""
    runs: list[list[tuple[bytes, dict[str, Any]]]] = []
    before: dict[str, Any] = {}
    for source in sources:
        part = decode(source)
        members = (
            part if isinstance(part, dict) and set(part) <= {"text", "thought"} and "text" in part else {}
        )
        if not (members and before and members.get("thought") == before.get("thought")):
            runs.append([])
        runs[-1].append((source, members))
        before = members
    kept = [source for source in map(_joined, runs) if source not in (b'{"text":""}', b'{"text": ""}')]
    return b'{"role":"model","parts":[' + b",".join(kept) + b"]}" if kept else None


def _joined(run: Sequence[tuple[bytes, dict[str, Any]]]) -> bytes:
    """Return one part for successive parts of text, which are given with their members."""
    source, members = run[-1]
    texts = [str(part["text"]) for _, part in run] if len(run) > 1 else []
    return encode({**members, "text": "".join(texts)}) if texts else source


RESPONSES = Responses(GeminiTurns, GeminiArguments, GeminiFraming)
