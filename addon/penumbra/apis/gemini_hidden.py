"""Google Gemini: the injected tool and hidden exchanges in requests.

What stands for an assistant message here is a run of contents of the model: some clients keep an answer
that came in pieces as several. Results of parallel calls have to stand together in one content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import Raw

from penumbra.apis import gemini_response
from penumbra.apis.base import Hidden, InjectedCall, Response, Tool, Tools, Turn, Usual, Visible, read_visible
from penumbra.apis.gemini import call_token, inner, inner_root, member
from penumbra.wire.document import Document, Edit, decode, encode

_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")
_NO_CALLS = b'{"mode":"NONE"}'


class GeminiAnswers(Usual):
    """See AnswerFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return gemini_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return gemini_response.body(injected_tool)

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
        used = (name for name in _SCHEMAS if any(name in one for one in declared))
        head = encode({"name": tool.name, "description": tool.description})
        schema = encode(next(used, "parameters")) + b":" + tool.parameters
        array = [one for one in _arrays(request, members) if request.items(one)][-1]
        request.append(array, head[:-1] + b"," + schema + b"}")

    def result(self, call: InjectedCall, text: str) -> bytes:
        named = decode(call.id.encode())
        return encode({"functionResponse": {**named, "response": {"output": text}}})

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        answers = b'{"role":"user","parts":[' + b",".join(results) + b"]}"
        return (turn.message, answers) if turn.message else (answers,)

    def extended(self, request: bytes, messages: Sequence[bytes], answer_id: str = "") -> bytes:
        document = Document(request)
        document.append(inner(document)["contents"], b",".join(messages))
        return document.render()

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

    def visible(self, request: Document) -> list[Visible]:
        runs = list(_runs(request))
        found = [(run.first, run.calls, run.text, False) for run in runs]
        return read_visible(found, [run.tokens for run in runs])

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        items = _contents(request)
        run = next(run for run in _runs(request) if run.first == visible.index)
        start, end = request.place(items[run.first])[0], request.place(items[run.last])[1]
        if request.is_edited(start, end):
            return False
        last, results = hidden.last, hidden.results
        if not all(run.calls):
            # The client will answer these calls without ids.
            last, results = last and _without_ids(last), tuple(map(_without_ids, results))
        if results:
            behind = items[run.last + 1 : run.last + 2]
            answers = request.members(behind[0]).get("parts") if behind else None
            if answers is None or not request.items(answers):
                return False
            request.insert(answers, 0, b",".join(results))
        texts = [*hidden.before, *([last] if last else [])]
        request.edits.append(Edit(start, end, b",".join(texts)))
        return True

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _Run:
    """Contents of the model without a break; places of the first and the last."""

    first: int
    last: int
    calls: tuple[str, ...]
    tokens: tuple[str, ...]
    text: str


def _runs(request: Document) -> Iterator[_Run]:
    items = _contents(request)
    roles = [request.string(request.members(item).get("role")) for item in items]
    place = 0
    while place < len(items):
        first = place
        while place < len(items) and roles[place] == "model":
            place += 1
        if place > first:
            yield _run(request, items, first, place - 1)
        place += 1


def _run(request: Document, items: list[Raw], first: int, last: int) -> _Run:
    calls, tokens, texts = [], [], []
    for item in items[first : last + 1]:
        for value in request.items(request.members(item).get("parts")):
            part = request.members(value)
            if (call := member(part, "functionCall")) is not None:
                calls.append(request.string(request.members(call).get("id")) or "")
                tokens.append(call_token(request, call))
            elif request.plain(part.get("thought")) is not True:
                texts.append(request.string(part.get("text")) or "")
    return _Run(first, last, tuple(calls), tuple(tokens), "".join(texts))


def _without_ids(source: bytes) -> bytes:
    """A content, or a part of one, whose calls and responses have no ids."""
    document = Document(source)
    for value in document.items(document.members(document.root).get("parts")) or [document.root]:
        part = document.members(value)
        for call in (member(part, "functionCall"), member(part, "functionResponse")):
            if (found := document.members(call).get("id")) is not None:
                document.remove_member(found)
    return document.render()


def _contents(request: Document) -> list[Raw]:
    return request.items(inner(request).get("contents"))


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
