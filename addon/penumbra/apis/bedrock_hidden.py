"""Amazon Bedrock: the injected tool and hidden exchanges in requests of Converse and InvokeModel.

Converse's messages are built like Anthropic's, of other blocks; InvokeModel's are Anthropic's own.
"""

from __future__ import annotations

from msgspec import Raw

from penumbra.apis import bedrock, bedrock_invoke_response, bedrock_response
from penumbra.apis.anthropic_hidden import AnthropicAnswers
from penumbra.apis.base import InjectedCall, Response, Said, Tool, Tools
from penumbra.wire.document import Document, Edit, encode

_DROP_BETA = b"thinking-binding-controls"


class InvokeAnswers(AnthropicAnswers):
    """See AnswerFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_invoke_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_invoke_response.body(injected_tool)

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        return super().drop_unbound(request, first, offered or _may_drop(request, request.root))


class ConverseAnswers(AnthropicAnswers):
    """See AnswerFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_response.body(injected_tool)

    def tools(self, request: Document) -> Tools:
        config = _config(request)
        names, own = [], 0
        for item in request.items(config.get("tools")):
            tool = request.members(item)
            found = request.members(tool.get("toolSpec") or tool.get("systemTool"))
            names += [request.string(found.get("name")) or ""] if found else []
            own += "toolSpec" in tool
        choice = request.members(config.get("toolChoice"))
        return Tools(tuple(names), own, forced="any" in choice or "tool" in choice, continuable=True)

    def declare(self, request: Document, tool: Tool) -> None:
        head = encode({"name": tool.name, "description": tool.description})
        specification = head[:-1] + b',"inputSchema":{"json":' + tool.parameters + b"}}"
        request.append(_config(request)["tools"], b'{"toolSpec":' + specification + b"}")

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"toolResult": {"toolUseId": call.id, "content": [{"text": text}]}})

    def without_calls(self, request: bytes) -> bytes:
        # The API has no way to forbid calls, and wants tools where there were calls. So the one that
        # nobody else would miss is taken out: the last, which `declare` put there.
        document = Document(request)
        *_, before, last = document.items(_config(document)["tools"])
        document.edits.append(Edit(document.place(before)[1], document.place(last)[1], b""))
        return document.render()

    def said(self, document: Document, block: Raw) -> Said:
        return bedrock.said(document, block)

    def thinking(self, request: Document) -> Raw | None:
        return request.members(_more(request)).get("thinking")

    def joined(self, texts: list[bytes], request: Document, behind: Raw | None) -> list[bytes]:
        # Roles have to alternate: results that no answer follows go into the message behind them.
        last = Document(texts[-1])
        said = last.members(last.root)
        content = request.members(behind).get("content")
        roles = last.string(said.get("role")), request.string(request.members(behind).get("role"))
        if roles != ("user", "user") or content is None or len(texts) == 1:
            return texts
        blocks = [last.source(block) for block in last.items(said.get("content"))]
        request.insert(content, 0, b",".join(blocks))
        return texts[:-1]

    def marked(self, text: bytes, request: Document, message: Raw) -> bytes:
        # A mark is a block of its own here.
        blocks = request.items(request.members(message).get("content"))
        marks = [request.source(block) for block in blocks if "cachePoint" in request.members(block)]
        document = Document(text)
        if marks:
            document.append(document.members(document.root)["content"], marks[-1])
        return document.render()

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        more = _more(request)
        offered = offered or (more is not None and _may_drop(request, more))
        return super().drop_unbound(request, first, offered)


def _config(request: Document) -> dict[str, Raw]:
    return request.members(request.members(request.root).get("toolConfig"))


def _more(request: Document) -> Raw | None:
    """What a Converse request says to the model in the model's own words."""
    return request.members(request.root).get("additionalModelRequestFields")


def _may_drop(request: Document, where: Raw) -> bool:
    """Whether Anthropic's betas, which stand in the body here, have the one for dropping thinking."""
    betas = request.members(where).get("anthropic_beta")
    return betas is not None and _DROP_BETA in request.source(betas)
