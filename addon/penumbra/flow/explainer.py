"""This module explains flows in mitmproxy's view "Penumbra" and with the commands `:penumbra.*`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mitmproxy import command, contentviews, ctx, exceptions, flow, http, types
from mitmproxy.websocket import WebSocketMessage

from penumbra.apis import recognise
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.formats import FORMATS
from penumbra.apis.recognise import Api
from penumbra.config.settings import Settings
from penumbra.errors import one_line, place
from penumbra.explain import request_text, response_text
from penumbra.explain.request_text import RequestContext, ResultContext
from penumbra.explain.response_text import ResponseContext
from penumbra.explain.result_facts import ResultMemory, read_all
from penumbra.explain.text_lines import Line, Mark, Search, head, note, quoted
from penumbra.flow import destination
from penumbra.flow.current_settings import EngineHandle
from penumbra.flow.destination import headers_of
from penumbra.flow.page.contents import Contents, Texts
from penumbra.metrics import totals
from penumbra.metrics.journal import Journal
from penumbra.redaction.redact_calls import shown_names
from penumbra.wire import framing
from penumbra.wire.json_values import NotJson

if TYPE_CHECKING:
    from mitmproxy.contentviews import Metadata

_NO_ORIGINALS = "Originals are shown where penumbra_page_originals=on; this is the sent form."
PRIORITY = 3.0
"""The priority of the view, above JSON (1) and GraphQL (2)."""
_OWN_FRAME = "Penumbra: a frame of its own: the client has not sent it, and does not see it."
_HIDDEN_FRAME = "Penumbra: this frame is hidden from the client."
_WOULD = "penumbra_would"
"""The name under which the flow of an observed request has its metadata."""
NOT_OURS = -2.0
"""A priority that no other view has. If two views had the same priority, mitmproxy 11 would compare the view
objects."""


@dataclass(frozen=True)
class Explainer:
    """An `Explainer` writes the explanations of flows, from facts that other objects remember."""

    _memory: ResultMemory
    _texts: Texts
    _handle: Callable[[], EngineHandle]
    """The function that gives access to the rules that redact secrets."""
    _settings: Callable[[], Settings]

    def priority(self, flow: object, message: object) -> float:
        """Return the priority of the view for a message; below 0 if the view has no text about it."""
        return PRIORITY if isinstance(flow, http.HTTPFlow) and self._is_ours(flow, message) else NOT_OURS

    def lines(self, flow: object, message: object, body: bytes) -> list[Line]:
        """Return the text about a message. `body` is its decoded body."""
        if not isinstance(flow, http.HTTPFlow) or (api := _api(flow)) is None:
            return [note("Penumbra: this is no call of an LLM.")]
        if isinstance(message, WebSocketMessage):
            return self._frame(flow, api, message, body)
        if not isinstance(message, http.Response):
            return self._made(partial(request_text.lines, api, body, self._request_context(flow)))
        if (wire := _reader(api)) is None:
            return [note("Penumbra: the request of this response asks for no message.")]
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
        """Return the text about a flow's request and response, or about a WebSocket's latest messages."""
        if flow.websocket is not None:
            return self._of_socket(flow, flow.websocket.messages)
        shown = self.lines(flow, flow.request, _content(flow.request))
        if flow.response is not None and self._is_ours(flow, flow.response):
            shown += [quoted(""), head("RESPONSE"), *self.lines(flow, flow.response, _content(flow.response))]
        return shown

    def _of_socket(self, flow: http.HTTPFlow, messages: Sequence[WebSocketMessage]) -> list[Line]:
        shown: list[Line] = []
        for message in reversed(messages):
            is_end = not message.from_client and not message.dropped and response_text.is_end(message.content)
            if is_end and not shown:
                shown = [quoted(""), head("RESPONSE"), *self.lines(flow, message, message.content)]
            elif message.from_client and not message.injected and response_text.is_request(message.content):
                return [*self.lines(flow, message, message.content), *shown]
        return shown

    def _is_ours(self, flow: http.HTTPFlow, message: object) -> bool:
        is_llm = "api" in _described(flow) or destination.is_llm_host(flow, self._settings().hosts)
        if not is_llm or (api := _api(flow)) is None:
            return False
        if isinstance(message, WebSocketMessage):
            return message.from_client or response_text.is_shown(message.content)
        if isinstance(message, http.Response):
            is_sound = message.status_code == 200 and flow.websocket is None
            return is_sound and _reader(api) is not None
        return isinstance(message, http.Request) and flow.websocket is None

    def learn(self, flow: http.HTTPFlow) -> None:
        """Remember the results that a flow from a file lists, for later flows in its session."""
        for name in ("penumbra", _WOULD):
            described = _described(flow, name)
            if isinstance(session := described.get("session"), str):
                new = read_all(described.get("new"))
                self._memory.learn(session, new, is_observed=name == _WOULD)

    def _made(self, make: Callable[..., list[Line]]) -> list[Line]:
        try:
            with self._handle() as handle:
                search = Search(handle.engine.rules.redact_now)
                return make(search, shown_names(search.name))
        except NotJson:
            return [note("Penumbra: its body is no JSON.")]
        except Exception as error:
            # mitmproxy's other views can still show the flow.
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


def _api(flow: http.HTTPFlow) -> Api | None:
    line = flow.request
    if flow.websocket is not None:
        return recognise.asks_for(line.method, line.path, headers_of(line))
    return recognise.by_request_line(line.method, line.path)


def _earlier(flow: http.HTTPFlow, message: WebSocketMessage) -> Iterator[bytes]:
    """Return the frames that the client got before a frame. The latest frame comes first."""
    messages = iter(reversed(flow.websocket.messages if flow.websocket is not None else ()))
    for each in messages:
        if each is message:
            break
    return (each.content for each in messages if not each.from_client and not each.dropped)


def _reader(api: Api) -> ApiFormat | None:
    """Return the reader of an API's responses; None if responses are not messages."""
    return FORMATS.get(api.format) if api.kind == "messages" else None


def _content(message: http.Message) -> bytes:
    try:
        return message.content or b""
    except ValueError:
        return message.raw_content or b""


def _described(flow: http.HTTPFlow, name: str = "penumbra") -> dict[str, Any]:
    """Return the metadata that Penumbra wrote into a flow; empty if there are none."""
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


# A view of mitmproxy 12 returns a text, and a view of mitmproxy 11 returns lines of marked texts. Each
# version has its own base class for views.
NAME = "Penumbra"
_EMPTY = " "
"""The text of an empty line. mitmweb gives a line without text no height."""
_STYLES = {
    Mark.HEAD: "header",
    Mark.TEXT: "text",
    Mark.NOTE: "offset",
    Mark.REMOVED: "error",
    Mark.ADDED: "Token_Name_Tag",
}
"""The names of colours in mitmproxy 11, by kind of text."""


class ContentView:
    """The view for both versions of mitmproxy."""

    name = NAME
    syntax_highlight = "none"

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer

    def render_priority(self, data: bytes, metadata: Metadata | None = None, **more: Any) -> float:
        """Return a priority. For LLM calls it is above mitmproxy's views, for other flows below all views."""
        facts = more if metadata is None else vars(metadata)
        return self.explainer.priority(facts.get("flow"), _message(facts)) if data else NOT_OURS

    def prettify(self, data: bytes, metadata: Metadata) -> str:
        """Return the text for mitmproxy 12."""
        lines = self.explainer.lines(metadata.flow, _message(vars(metadata)), data)
        return "\n".join(line.text or _EMPTY for line in lines)

    def __call__(self, data: bytes, **metadata: Any) -> tuple[str, Iterator[list[tuple[str, str]]]]:
        """Return the view's name and its lines for mitmproxy 11."""
        lines = self.explainer.lines(metadata.get("flow"), _message(metadata), data)
        return NAME, iter([[(_STYLES[line.mark], line.text or _EMPTY)] for line in lines])

    def __lt__(self, other: Any) -> bool:
        return bool(self.name < other.name)


def _message(metadata: dict[str, Any]) -> Any:
    return metadata.get("websocket_message") or metadata.get("http_message")


# The view belongs to the process, like mitmproxy's list of views: a reload of the script makes a new addon.
_VIEWS: list[ContentView] = []


def install(explainer: Explainer) -> None:
    """Add the view to mitmproxy's views. If the view is there already, it gets the new explainer."""
    if _VIEWS:
        _VIEWS[0].explainer = explainer
        return
    _VIEWS.append(ContentView(explainer))
    add: Any = contentviews.add
    add(_VIEWS[0])


_EVERYTHING = "everything"
_TABLES = ("days", "conversations", "turns", "results")
_NO_ORIGINAL = "none is, and there are some only where penumbra_page_originals=on, of results since then"
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class FlowCommands:
    """A `FlowCommands` has the commands `penumbra.*`."""

    _journal: Journal
    _explainer: Explainer
    _memory: ResultMemory
    _texts: Texts
    _contents: Contents
    _is_paused: Callable[[], bool]
    _changed: Callable[[], None]
    """The function that is called when figures have changed."""
    _forget: Callable[[], None]
    """The function that empties the store or raises CommandError."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def running(self) -> None:
        """Accept signals as commands, if the system has these signals and this is the main thread."""
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, self._toggle)
            loop.add_signal_handler(signal.SIGUSR2, self.resume)

    @command.command("penumbra.pause")
    def pause(self) -> None:
        """From now on, change only secrets. Results that were already sent keep their forms."""
        self.switch(is_on=True)

    @command.command("penumbra.resume")
    def resume(self) -> None:
        self.switch(is_on=False)

    def switch(self, *, is_on: bool) -> None:
        """Begin or end a pause."""
        ctx.options.update(penumbra_pause="true" if is_on else "false")
        _log.warning("Penumbra pauses: only secrets are taken out." if is_on else "Penumbra has resumed.")
        self._changed()

    def _toggle(self) -> None:
        self.switch(is_on=not self._is_paused())

    @command.command("penumbra.stats")
    def stats(self) -> str:
        """Return all figures since the start."""
        return "\n".join(totals.lines(self._journal))

    @command.command("penumbra.expansions")
    def expansions(self) -> str:
        """Return how often the model asked for originals, and the cost of these calls."""
        return "\n".join(totals.expansion_lines(self._journal))

    @command.command("penumbra.explain")
    def explain(self, flows: Sequence[flow.Flow]) -> Sequence[str]:
        """Return the text of the view Penumbra for the requests and responses of flows."""
        text: list[str] = []
        for each in flows:
            if isinstance(each, http.HTTPFlow):
                text += [*([""] if text else ()), *(line.text for line in self._explainer.of_flow(each))]
        return text

    @command.command("penumbra.references")
    def references(self) -> Sequence[str]:
        """Return the references that penumbra.expand can show with penumbra_page_originals=on."""
        numbers = self._memory.references()
        return sorted(ref for ref, number in numbers.items() if self._texts.get(number) is not None)

    @command.command("penumbra.expand")
    def expand(self, reference: str) -> Sequence[str]:
        """Return the original of a reference without its secrets."""
        # mitmproxy's own list of choices would not explain why a reference is refused.
        pair = self._texts.get(self._memory.references().get(reference, 0))
        if pair is None:
            count = len(self.references())
            where = f"penumbra.references lists the {count:,} that are" if count else _NO_ORIGINAL
            raise exceptions.CommandError(f"no original is kept for {one_line(reference)!r}: {where}")
        return [one_line(line.replace("\t", "    ")) for line in pair[0].split("\n")]

    @command.command("penumbra.tables")
    def tables(self) -> Sequence[str]:
        """Return the names of the tables that penumbra.export can write."""
        return [_EVERYTHING, *_TABLES]

    @command.command("penumbra.export")
    @command.argument("table", type=types.Choice("penumbra.tables"))
    def export(self, table: str, path: types.Path) -> None:
        """Write figures to a file: all figures as JSON, or one of penumbra.tables as CSV."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise exceptions.CommandError(f"{path}: {error.strerror}") from None
        task = asyncio.get_running_loop().create_task(self._export(table, path, descriptor))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _export(self, table: str, path: str, descriptor: int) -> None:
        try:
            with os.fdopen(descriptor, "wb") as file:
                if table == _EVERYTHING:
                    data = await self._contents.everything()
                else:
                    data = (await self._contents.table(table) or "").encode("utf-8", "replace")
                await asyncio.to_thread(file.write, data)
        except Exception as error:
            _log.error(f"Penumbra: {table} could not be written to {path}: {place(error)}")
        else:
            _log.info(f"Penumbra: {table} written to {path}")

    @command.command("penumbra.forget")
    def forget(self) -> None:
        """Delete all data about conversations in memory and on disk. Figures stay."""
        self._forget()
        self._texts.clear()
        self._memory.clear()
        _log.warning(
            "Penumbra has forgotten all conversations. A conversation that continues sends its earlier "
            "results unchanged: the provider's cache is written again once, and thinking that is bound to "
            "the earlier forms may be refused."
        )
