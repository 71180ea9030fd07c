"""Google Gemini: requests, as AI Studio, Vertex and Code Assist take them, and the injected tool and hidden
exchanges in them.

A tool result is a `functionResponse` part; its response is an object of any shape, of which every
string may be replaced where it stands. Ids are optional: a response without one answers the first
call of its name that has none yet. Code Assist wraps the request in another object. The API takes
names of members in camel and in snake case.

What stands for an assistant message here is a run of contents of the model: some clients keep a response
that came in pieces as several. Results of parallel calls have to stand together in one content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Hidden, InjectedCall, Tool, Tools, Turn, Visible
from penumbra.apis.parts import OpenCalls, ToolCall, short_hash, string_values
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.linear import utf8
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import decode, encode

_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")
_NO_CALLS = b'{"mode":"NONE"}'
_STATUS = {400: "INVALID_ARGUMENT", 413: "INVALID_ARGUMENT", 503: "UNAVAILABLE"}
_WRAPPERS = ("request", "generateContentRequest", "generate_content_request")


class GeminiFormat(ApiFormat):
    """Bodies of generateContent, streamGenerateContent and countTokens."""

    names_calls = False
    messages = "contents"
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
        top = document.members(document.root)
        return document.string(top.get("model")) or document.string(inner(document).get("model")) or ""

    def system(self, document: Document) -> Iterator[Part]:
        return _parts(document, document.members(member(inner(document), "systemInstruction")))

    def answered(self, result: Part, by_id: Mapping[str, ToolCall], waiting: OpenCalls) -> ToolCall | None:
        call = by_id.get(result.id) if result.id else None
        return call or waiting.first_named(result.name)

    def tokens(self, document: Document, calls: list[Part]) -> tuple[str, ...]:
        return tuple(call_token(document, part.block) for part in calls)

    def blocks(self, document: Document, message: Raw) -> Raw | None:
        return document.members(message).get("parts")

    def error(self, status: int, message: str) -> bytes:
        name = _STATUS.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
        return encode({"error": {"code": status, "message": message, "status": name}})

    def tools(self, request: Document) -> Tools:
        members = inner(request)
        names = []
        for value in _declarations(request, members):
            names.append(request.string(request.members(value).get("name")) or "")
        config = request.members(member(members, "generationConfig"))
        candidates = request.plain(member(config, "candidateCount"))
        calling = _calling(request, members)
        in_pieces = request.plain(member(calling, "streamFunctionCallArguments")) is True
        forced = request.string(calling.get("mode")) == "ANY"
        return Tools(tuple(names), len(names), forced, candidates in (None, 1) and not in_pieces)

    def declare(self, request: Document, tool: Tool) -> None:
        members = inner(request)
        declared = [request.members(value) for value in _declarations(request, members)]
        used = (name for name in _SCHEMAS if any(name in source for source in declared))
        head = encode({"name": tool.name, "description": tool.description})
        schema = encode(next(used, "parameters")) + b":" + tool.parameters
        array = [item for item in _arrays(request, members) if request.items(item)][-1]
        request.append(array, head[:-1] + b"," + schema + b"}")

    def result(self, call: InjectedCall, text: str) -> bytes:
        named = decode(utf8(call.id))
        return encode({"functionResponse": {**named, "response": {"output": text}}})

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
        calling = member(document.members(config), "functionCallingConfig")
        if config is None:
            document.add_member(top, "toolConfig", b'{"functionCallingConfig":' + _NO_CALLS + b"}")
        elif calling is None:
            document.add_member(config, "functionCallingConfig", _NO_CALLS)
        else:
            document.rewrite(calling, _NO_CALLS)
        return document.render()

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        run = next(run for run in self.assistant_runs(request) if run[0].turn == visible.index)
        start, end = request.place(run[0].value)[0], request.place(run[-1].value)[1]
        if request.is_edited(start, end):
            return False
        last, results = hidden.last, hidden.results
        if not all(visible.calls):
            # The client will answer these calls without ids.
            last, results = last and _without_ids(last), tuple(map(_without_ids, results))
        if results:
            behind = self.prompt(request).messages[run[-1].turn + 1 :][:1]
            blocks = self.blocks(request, behind[0].value) if behind else None
            if blocks is None or not request.items(blocks):
                return False
            request.insert(blocks, 0, b",".join(results))
        texts = [*hidden.before, *([last] if last else [])]
        request.edits.append(Edit(start, end, b",".join(texts)))
        return True


def _parts(document: Document, members: Mapping[str, Raw]) -> Iterator[Part]:
    """The parts of a content."""
    for value in document.items(members.get("parts")):
        part = document.members(value)
        text = part.get("text")
        if text is not None and document.is_string(text):
            thought = "thought" in part and document.plain(part["thought"])
            yield Part(Kind.REASONING if thought else Kind.TEXT, value, texts=(text,))
        if (call := member(part, "functionCall")) is not None:
            made = document.members(call)
            call_id, name = (document.string(made.get(key)) or "" for key in ("id", "name"))
            yield Part(Kind.CALL, call, call_id, name, made.get("args"))
        if (response := member(part, "functionResponse")) is not None:
            given = document.members(response)
            call_id, name = (document.string(given.get(key)) or "" for key in ("id", "name"))
            body = given.get("response")
            is_error = bool(document.plain(document.members(body).get("error")))
            texts = tuple(string_values(document, body))
            yield Part(Kind.RESULT, value, call_id, name, None, texts, body, is_error)


def inner(document: Document) -> dict[str, Raw]:
    """The members of the request itself, without what some services put around it."""
    return document.members(inner_root(document))


def inner_root(document: Document) -> Raw:
    """The request itself."""
    top = document.members(document.root)
    for name in _WRAPPERS:
        if "contents" not in top and "contents" in document.members(top.get(name)):
            return top[name]
    return document.root


def member(members: Mapping[str, Raw], name: str) -> Raw | None:
    """A member by its name in camel case, or by the same in snake case."""
    if name in members:
        return members[name]
    return members.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))


def call_token(document: Document, call: Raw) -> str:
    """What a call is known by: a short hash of its name and arguments. Many clients drop its id."""
    members = document.members(call)
    return short_hash(document.string(members.get("name")), document.plain(members.get("args")))


def _without_ids(source: bytes) -> bytes:
    """A content, or a part of one, whose calls and responses have no ids."""
    document = Document(source)
    for value in document.items(document.members(document.root).get("parts")) or [document.root]:
        part = document.members(value)
        for call in (member(part, "functionCall"), member(part, "functionResponse")):
            if (id_ := document.members(call).get("id")) is not None:
                document.remove_member(id_)
    return document.render()


def _arrays(request: Document, members: dict[str, Raw]) -> Iterator[Raw]:
    """Every list of functions that the request declares."""
    for value in request.items(members.get("tools")):
        if (array := member(request.members(value), "functionDeclarations")) is not None:
            yield array


def _declarations(request: Document, members: dict[str, Raw]) -> Iterator[Raw]:
    for array in _arrays(request, members):
        yield from request.items(array)


def _calling(request: Document, members: dict[str, Raw]) -> dict[str, Raw]:
    config = request.members(member(members, "toolConfig"))
    return request.members(member(config, "functionCallingConfig"))
