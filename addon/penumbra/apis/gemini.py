"""Google Gemini: requests, as AI Studio, Vertex and Code Assist take them.

A tool result is a `functionResponse` part; its response is an object of any shape, of which every
string may be replaced where it stands. Ids are optional: a response without one answers the first
call of its name that has none yet. Code Assist wraps the request in another object. The API takes
names of members in camel and in snake case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Raw

from penumbra.apis.parts import Conversation, OpenCalls, ResultText, ToolCall, short_hash, string_values
from penumbra.wire.document import Document, encode

_STATUS = {400: "INVALID_ARGUMENT", 413: "INVALID_ARGUMENT", 503: "UNAVAILABLE"}
_WRAPPERS = ("request", "generateContentRequest", "generate_content_request")


def read(document: Document) -> Conversation:
    """The conversation of a generateContent, streamGenerateContent or countTokens body."""
    top = document.members(document.root)
    request = inner(document)
    contents = request.get("contents")
    items = document.items(contents)
    calls: dict[str, ToolCall] = {}
    waiting = OpenCalls()
    results: list[ResultText] = []
    opening: list[str] = []
    last_answer = -1
    for turn, item in enumerate(items):
        content = document.members(item)
        parts = [document.members(part) for part in document.items(content.get("parts"))]
        if document.string(content.get("role")) == "model":
            if turn < len(items) - 1:
                last_answer = turn
            made = [_call(document, part) for part in parts if member(part, "functionCall") is not None]
            waiting.add(made)
            calls |= {call.id: call for call in made if call.id}
            continue
        for part in parts:
            if (response := member(part, "functionResponse")) is not None:
                results.extend(_results(document, response, calls, waiting, turn))
            elif last_answer < 0 and (text := document.string(part.get("text"))):
                opening.append(text)
    return Conversation(
        model=document.string(top.get("model")) or document.string(request.get("model")) or "",
        results=tuple(results),
        messages=contents,
        tools=request.get("tools"),
        last_answer=last_answer,
        last_thinking=-1,
        opening="\n".join(opening),
        calls=calls,
    )


def spoken(document: Document) -> Iterator[Raw]:
    """What was said beside tool results: texts that are no thoughts, and the arguments of calls."""
    request = inner(document)
    system = member(request, "systemInstruction")
    for content in ([] if system is None else [system]) + document.items(request.get("contents")):
        for item in document.items(document.members(content).get("parts")):
            part = document.members(item)
            text = part.get("text")
            if text is not None and document.is_string(text) and not document.plain(part.get("thought")):
                yield text
            arguments = document.members(member(part, "functionCall")).get("args")
            if arguments is not None:
                yield arguments


def error(status: int, message: str) -> bytes:
    """An error body as the API writes it."""
    name = _STATUS.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
    return encode({"error": {"code": status, "message": message, "status": name}})


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


def _call(document: Document, part: dict[str, Raw]) -> ToolCall:
    call = document.members(member(part, "functionCall"))
    name = document.string(call.get("name")) or ""
    return ToolCall(document.string(call.get("id")) or "", name, call.get("args"))


def _results(
    document: Document, value: Raw, calls: dict[str, ToolCall], waiting: OpenCalls, turn: int
) -> Iterator[ResultText]:
    response = document.members(value)
    call_id = document.string(response.get("id")) or ""
    name = document.string(response.get("name")) or ""
    call = calls.get(call_id)
    if call is None:
        call = waiting.first_named(name) or (ToolCall(call_id, name) if name else None)
    waiting.close(call)
    body = response.get("response")
    is_error = bool(document.plain(document.members(body).get("error")))
    for text in string_values(document, body):
        yield ResultText(text, call_id, call, is_error, turn, body)
