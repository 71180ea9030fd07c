"""This module has the formats of Amazon Bedrock: Converse, and InvokeModel with Anthropic's models.

Converse messages are lists of blocks, as in Anthropic's API, but the blocks have other members. A tool result
is a `toolResult` block of a user message. Its content is a list of blocks. Each block has one member that
names its kind. Texts and the strings in `json` may be shortened. InvokeModel takes requests of Anthropic's
API, but has errors of Bedrock's form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Raw

from penumbra.apis.anthropic import AnthropicFormat
from penumbra.apis.base import InjectedCall, Tool, Tools
from penumbra.apis.parts import string_values
from penumbra.apis.prompt import Kind, Part
from penumbra.apis.upstream_error import DescribedError
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import NotJson, encode

_DROP_BETA = b"thinking-binding-controls"
RUN_BY_PROVIDER = "server_tool_use"
"""Type of the calls that the client does not answer."""
_ERRORS = {
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


def write_error(error: DescribedError) -> bytes:
    """Return the body of an error. The API also names the error in a header, but its clients accept the body
    alone."""
    status = error.status or 502
    other = "ValidationException" if status < 500 else "InternalServerException"
    return encode({"__type": _ERRORS.get(status, other), "message": error.message})


class ConverseFormat(AnthropicFormat):
    """The format of bodies of `/converse` and `/converse-stream`."""

    opens_with_first = False
    error_body = staticmethod(write_error)

    def block(self, document: Document, value: Raw) -> list[Part]:
        return list(self._parts(document, value))

    def _parts(self, document: Document, value: Raw) -> Iterator[Part]:
        block = document.members(value)
        if (text := block.get("text")) is not None and document.is_string(text):
            yield Part(Kind.TEXT, value, texts=(text,))
        if "toolUse" in block:
            call = document.members(block["toolUse"])
            call_id, name = (document.text_of(call.get(key)) for key in ("toolUseId", "name"))
            own = document.string(call.get("type")) != RUN_BY_PROVIDER
            yield Part(Kind.CALL, value, call_id, name, call.get("input"), counts=own)
        elif "reasoningContent" in block:
            reasoning = document.members(block["reasoningContent"])
            signature = document.members(reasoning.get("reasoningText")).get("signature")
            known_by = document.text_of(signature or reasoning.get("redactedContent"))
            yield Part(Kind.REASONING, value, signature=known_by)
        elif "toolResult" in block:
            yield from _results(document, value, document.members(block["toolResult"]))
        elif cited := document.items(document.members(block.get("citationsContent")).get("content")):
            texts = (document.members(citation).get("text") for citation in cited)
            shown = tuple(text for text in texts if text is not None and document.is_string(text))
            yield Part(Kind.OTHER, value, texts=shown)

    def model(self, document: Document) -> str:
        return ""

    def system(self, document: Document) -> Iterator[Part]:
        for value in document.items(document.top.get("system")):
            yield from self.block(document, value)

    def tool_arrays(self, document: Document) -> tuple[Raw | None, ...]:
        return (document.members(document.top.get("toolConfig")).get("tools"),)

    def tools(self, request: Document) -> Tools:
        config = _config(request)
        names, own = [], 0
        for item in request.items(config.get("tools")):
            tool = request.members(item)
            spec = request.members(tool.get("toolSpec") or tool.get("systemTool"))
            names += [request.text_of(spec.get("name"))] if spec else []
            own += "toolSpec" in tool
        choice = request.members(config.get("toolChoice"))
        return Tools(tuple(names), own, forced="any" in choice or "tool" in choice, continuable=True)

    def declare(self, request: Document, tool: Tool) -> None:
        head = encode({"name": tool.name, "description": tool.description})
        specification = head[:-1] + b',"inputSchema":{"json":' + tool.parameters + b"}}"
        request.append(_config(request)["tools"], b'{"toolSpec":' + specification + b"}")

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"toolResult": {"toolUseId": call.id, "content": [{"text": text}]}})

    def user_message(self, text: str) -> bytes:
        return encode({"role": "user", "content": [{"text": text}]})

    def without_calls(self, request: bytes) -> bytes:
        # The API can't forbid calls, and requires tools after calls, so only the injected tool, which is the
        # last, is removed.
        document = Document(request)
        *_, before, last = document.items(_config(document)["tools"])
        document.edits.append(Edit(document.place(before)[1], document.place(last)[1], b""))
        return document.render()

    def thinking(self, request: Document) -> Raw | None:
        return request.members(_more(request)).get("thinking")

    def joined(self, texts: list[bytes], request: Document, after: Raw | None) -> list[bytes]:
        # Roles must alternate, so results without a response after them go into the next message.
        last = Document(texts[-1])
        message = last.top
        content = request.members(after).get("content")
        roles = last.string(message.get("role")), request.string(request.members(after).get("role"))
        if roles != ("user", "user") or content is None or len(texts) == 1:
            return texts
        blocks = [last.source(block) for block in last.items(message.get("content"))]
        request.insert(content, 0, b",".join(blocks))
        return texts[:-1]

    def marked(self, text: bytes, request: Document, message: Raw) -> bytes:
        # A cache breakpoint is a separate block in this API.
        blocks = request.items(request.members(message).get("content"))
        marks = [request.source(block) for block in blocks if "cachePoint" in request.members(block)]
        document = Document(text)
        if marks:
            document.append(document.top["content"], marks[-1])
        return document.render()

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        more = _more(request)
        offered = offered or (more is not None and may_drop(request, more))
        return super().drop_unbound(request, first, offered)


def _config(request: Document) -> dict[str, Raw]:
    return request.members(request.top.get("toolConfig"))


def _more(request: Document) -> Raw | None:
    """Return the fields of a Converse request that are those of the model's own API."""
    return request.top.get("additionalModelRequestFields")


def may_drop(request: Document, where: Raw) -> bool:
    """Return whether the body lists Anthropic's beta for dropping thinking. Other APIs use a header."""
    betas = request.members(where).get("anthropic_beta")
    return betas is not None and _DROP_BETA in request.source(betas)


def _results(document: Document, value: Raw, result: Mapping[str, Raw]) -> Iterator[Part]:
    """Yield a part for each block of a result. For a result without blocks, yield a part without text."""
    call_id = document.text_of(result.get("toolUseId"))
    is_error = document.string(result.get("status")) == "error"
    items = document.items(result.get("content"))
    if not items:
        yield Part(Kind.RESULT, value, call_id, is_error=is_error)
    for item in items:
        block = document.members(item)
        values = (block.get("text"), block.get("json"))
        texts = tuple(text for one in values for text in string_values(document, one))
        container = block.get("json")
        yield Part(Kind.RESULT, value, call_id, texts=texts, container=container, is_error=is_error)


_TOKENS = {
    "x-amzn-bedrock-input-token-count": "input_tokens",
    "x-amzn-bedrock-output-token-count": "output_tokens",
}


class InvokeFormat(AnthropicFormat):
    """The format of bodies of `/invoke` and `/invoke-with-response-stream`."""

    error_body = staticmethod(write_error)

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        return super().drop_unbound(request, first, offered or may_drop(request, request.root))


def token_headers(body: bytes) -> dict[str, str]:
    """For a response that is one document, return the headers that repeat its token counts."""
    try:
        document = Document(body)
    except NotJson:
        return {}
    usage = document.members(document.top.get("usage"))
    return {name: document.source(usage[key]).decode() for name, key in _TOKENS.items() if key in usage}
