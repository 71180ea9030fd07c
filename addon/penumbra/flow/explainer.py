"""Flows as text for people: what is asked of `explain`, from what a flow holds and what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mitmproxy import http
from mitmproxy.websocket import WebSocketMessage

from penumbra.apis import recognise
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.formats import FORMATS
from penumbra.apis.recognise import Api
from penumbra.config.settings import Settings
from penumbra.errors import place
from penumbra.explain import request_text, response_text
from penumbra.explain.request_text import RequestContext, ResultContext
from penumbra.explain.response_text import ResponseContext
from penumbra.explain.result_facts import ResultMemory, read_all
from penumbra.explain.text_lines import Line, Search, head, note, said
from penumbra.flow import destination
from penumbra.flow.engines import Lease
from penumbra.flow.page.texts import Texts
from penumbra.flow.signing import headers_of
from penumbra.redaction.shown_names import shown_names
from penumbra.wire import framing
from penumbra.wire.json_values import NotJson

_NO_ORIGINALS = "Originals are shown where penumbra_page_originals=on; here stands what was sent."
PRIORITY = 3.0
"""That of JSON is 1, that of GraphQL 2."""
_OWN_FRAME = "Penumbra: a frame of its own: the client has not sent it, and does not see it."
_HIDDEN_FRAME = "Penumbra: this frame is hidden from the client."
_WOULD = "penumbra_would"
"""Metadata of what is only observed."""
NOT_OURS = -2.0
"""Below all, and equal to none: mitmproxy 11 compares views themselves where these are equal."""


class Explainer:
    """State: none but what others remember."""

    def __init__(
        self,
        memory: ResultMemory,
        texts: Texts,
        lease: Callable[[], Lease],
        settings: Callable[[], Settings],
    ) -> None:
        """`lease`: whose rules take secrets out; `settings`: those in force."""
        self._memory = memory
        self._texts = texts
        self._lease = lease
        self._settings = settings

    def priority(self, flow: object, message: object) -> float:
        """Of the view, for a request, a response or a frame; below 0: it is none of ours."""
        return PRIORITY if isinstance(flow, http.HTTPFlow) and self._is_ours(flow, message) else NOT_OURS

    def lines(self, flow: object, message: object, body: bytes) -> list[Line]:
        """The text. `body`: of the message, without content coding. Never raises."""
        if not isinstance(flow, http.HTTPFlow) or (api := _api(flow)) is None:
            return [note("Penumbra: this is no call of an LLM.")]
        if isinstance(message, WebSocketMessage):
            return self._frame(flow, api, message, body)
        if not isinstance(message, http.Response):
            return self._made(partial(request_text.lines, api, body, self._request_context(flow)))
        if (wire := _reader(api)) is None:
            return [note("Penumbra: what this is a response to asks for no message.")]
        stream = framing.is_stream(message.headers.get("content-type", ""), flow.request.path)
        return self._made(partial(response_text.lines, wire, body, _response_context(flow), stream=stream))

    def _frame(self, flow: http.HTTPFlow, api: Api, message: WebSocketMessage, body: bytes) -> list[Line]:
        if message.from_client:
            context = self._request_context(flow)
            context = replace(context, line=_OWN_FRAME) if message.injected else context
            return self._made(partial(request_text.lines, api, body, context))
        if message.dropped:
            return [note(_HIDDEN_FRAME)]
        return self._made(partial(response_text.frame_lines, body, _earlier(flow, message)))

    def of_flow(self, flow: http.HTTPFlow) -> list[Line]:
        """Its request and its response; of a WebSocket the latest ones."""
        if flow.websocket is not None:
            return self._of_socket(flow, flow.websocket.messages)
        shown = self.lines(flow, flow.request, _content(flow.request))
        if flow.response is not None and self._is_ours(flow, flow.response):
            shown += [said(""), head("RESPONSE"), *self.lines(flow, flow.response, _content(flow.response))]
        return shown

    def _of_socket(self, flow: http.HTTPFlow, messages: Sequence[WebSocketMessage]) -> list[Line]:
        shown: list[Line] = []
        for message in reversed(messages):
            is_end = not message.from_client and not message.dropped and response_text.is_end(message.content)
            if is_end and not shown:
                shown = [said(""), head("RESPONSE"), *self.lines(flow, message, message.content)]
            elif message.from_client and not message.injected and response_text.is_request(message.content):
                return [*self.lines(flow, message, message.content), *shown]
        return shown

    def _is_ours(self, flow: http.HTTPFlow, message: object) -> bool:
        if (api := _api(flow)) is None or not self._is_llm(flow):
            return False
        if isinstance(message, WebSocketMessage):
            return message.from_client or response_text.is_shown(message.content)
        if isinstance(message, http.Response):
            is_sound = message.status_code == 200 and flow.websocket is None
            return is_sound and _reader(api) is not None
        return isinstance(message, http.Request) and flow.websocket is None

    def learn(self, flow: http.HTTPFlow) -> None:
        """A flow comes from a file: what it lists holds for later flows of its session."""
        for name in ("penumbra", _WOULD):
            described = _described(flow, name)
            if isinstance(session := described.get("session"), str):
                new = read_all(described.get("new"))
                self._memory.learn(session, new, is_observed=name == _WOULD)

    def _made(self, make: Callable[..., list[Line]]) -> list[Line]:
        try:
            with self._lease() as lease:
                search = Search(lease.engine.rules.redact_now)
                return make(search, shown_names(search.name))
        except NotJson:
            return [note("Penumbra: its body is no JSON.")]
        except Exception as error:
            # Whoever looks at a flow has other views of it.
            return [note(f"Penumbra can't show this: {place(error)}")]

    def _request_context(self, flow: http.HTTPFlow) -> RequestContext:
        described = _described(flow)
        would = _described(flow, _WOULD)
        is_observed = bool(would) and "api" not in described
        described = would if is_observed else described
        session, new = _word(described.get("session")), read_all(described.get("new"))
        alone = ResultMemory()
        alone.learn(session, new, is_observed=is_observed)
        keys = {(facts.call_id, facts.tool, facts.bytes) for facts in new}
        has_originals = self._settings().page_originals == "on"

        def result(call_id: str, tool: str, sent: str) -> ResultContext:
            facts, number = self._memory.get(session, call_id, tool, sent) if session else (None, 0)
            facts = facts or alone.get(session, call_id, tool, sent)[0]
            pair = self._texts.get(number) if number and has_originals else None
            is_new = facts is not None and (call_id, tool, facts.bytes) in keys
            return ResultContext(facts, is_new, pair, is_observed)

        return RequestContext(
            line=_line(flow, described),
            result=result,
            originals="" if has_originals else _NO_ORIGINALS,
            injected_tool=_word(described.get("declared")),
            path=flow.request.path,
        )

    def _is_llm(self, flow: http.HTTPFlow) -> bool:
        return "api" in _described(flow) or destination.is_llm_host(flow, self._settings().hosts)


def _api(flow: http.HTTPFlow) -> Api | None:
    line = flow.request
    if flow.websocket is not None:
        return recognise.asks_for(line.method, line.path, headers_of(line))
    return recognise.by_request_line(line.method, line.path)


def _earlier(flow: http.HTTPFlow, message: WebSocketMessage) -> Iterator[bytes]:
    """What the provider sent before a frame, and the client got, the latest first."""
    messages = iter(reversed(flow.websocket.messages if flow.websocket is not None else ()))
    for each in messages:
        if each is message:
            break
    return (each.content for each in messages if not each.from_client and not each.dropped)


def _reader(api: Api) -> ApiFormat | None:
    """What reads the API's responses, where they are messages."""
    return FORMATS.get(api.format) if api.kind == "messages" else None


def _content(message: http.Message) -> bytes:
    """Without content coding, where that can be undone."""
    try:
        return message.content or b""
    except ValueError:
        return message.raw_content or b""


def _described(flow: http.HTTPFlow, name: str = "penumbra") -> dict[str, Any]:
    """What we have said of a flow; it may come from a file of anybody's."""
    described = flow.metadata.get(name)
    return described if isinstance(described, dict) else {}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _line(flow: http.HTTPFlow, described: dict[str, Any]) -> str:
    if parent := _word(described.get("continues")):
        return f"Penumbra: a hidden request: the client does not see it. It continues the flow {parent}."
    if flow.comment.startswith("Penumbra"):
        return flow.comment
    return "Penumbra: sent on as it came" if "api" in described else ""


def _response_context(flow: http.HTTPFlow) -> ResponseContext:
    described = _described(flow)
    if parent := _word(described.get("continues")):
        line = f"Penumbra: a hidden response: a part of that to the flow {parent}."
        return ResponseContext(line, injected_tool=_word(described.get("declared")))
    asked, flows = flow.metadata.get("penumbra_asked"), flow.metadata.get("penumbra_continuations")
    hidden = []
    for each in asked if isinstance(asked, list | tuple) else ():
        hidden.append(f"hidden from the client: the model asked for {each}")
    if isinstance(flows, list | tuple) and flows:
        hidden.append(f"hidden from the client, a flow for each round: {', '.join(map(str, flows))}")
    line = "Penumbra: made of several turns, as the client got it" if hidden else ""
    return ResponseContext(line, hidden, _word(described.get("declared")))
