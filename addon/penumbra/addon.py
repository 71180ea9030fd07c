"""This module has the mitmproxy addon. The hooks are in the order in which mitmproxy calls them."""

from __future__ import annotations

import gc
import logging
import os
import time
from typing import Any

from mitmproxy import connection, ctx, exceptions, http, tls
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy.layer import NextLayer

from penumbra import __version__
from penumbra.apis import recognise
from penumbra.config.settings import Settings, SettingsError, declare
from penumbra.conversation.workers import share_heap
from penumbra.explain.result_facts import ResultMemory
from penumbra.flow import destination, explainer, hidden_requests, listening, websocket_streams
from penumbra.flow.certificate_names import CertificateNames
from penumbra.flow.current_settings import CurrentSettings, EngineHandle, Engines
from penumbra.flow.explainer import Explainer, FlowCommands
from penumbra.flow.guarded import Guarded
from penumbra.flow.only_http import OnlyHttp
from penumbra.flow.page.contents import Contents, Texts
from penumbra.flow.page.server import PORT_CLOSED, PageServer, ProxiedPage
from penumbra.flow.report import HistoryWriter, Observation, Reports
from penumbra.flow.request import RequestWay
from penumbra.flow.response import ResponseWay
from penumbra.flow.state import Refused, TurnEnd
from penumbra.flow.tracing import Tracing
from penumbra.flow.websocket import WebSockets
from penumbra.metrics import totals
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.metrics.events import EventFile
from penumbra.metrics.journal import Journal
from penumbra.metrics.running import StatsFile, own_file

_log = logging.getLogger(__name__)


class Penumbra(Guarded):
    """A `Penumbra` is the addon, with the current settings, the engine made from them, and the statistics."""

    def __init__(self) -> None:
        share_heap()
        self.current = CurrentSettings()
        self.journal = Journal(self._counted)
        self.engines = Engines(self.journal.external, listening.ports)
        self.events = EventFile(lambda: self.settings.events)
        self.stats_file = StatsFile(own_file(), self._stats)
        self.history = HistoryWriter(self.journal, self._handle, self.stats_file.changed)
        self.texts = Texts()
        self.memory = ResultMemory()
        reports = Reports(self.journal, self.texts, self.memory, self.events.write)
        self.tracing = Tracing(lambda: self.settings.traces == "on")
        self.responses = ResponseWay(
            self.journal, self.events.write, lambda: self.settings.blank_flows, self.tracing
        )
        observing = Engines(ExternalMetrics(), listening.ports)
        self.observation = Observation(observing, lambda: self.current.made_with, reports)
        self.requests = RequestWay(
            self.current, self._handle, self.responses, reports, self.journal, self.observation
        )
        self.websockets = WebSockets(self._handle, self.requests, self.responses)
        self.only_http = OnlyHttp(self._is_llm_host, self._is_searched, self._is_provider)
        self.explainer = Explainer(self.memory, self.texts, self._handle, lambda: self.settings)
        contents = Contents(self.journal, self.texts, self._process, self._handle, self.history.write)
        remembered = self.journal, self.explainer, self.memory, self.texts, contents
        self.commands = FlowCommands(*remembered, lambda: self.settings.pause, self._counted, self._forget)
        self.page = PageServer(contents, self.commands.switch)
        # These parts don't handle LLM calls. mitmproxy would ask each child addon for each hook, so the parts
        # are no child addons.
        self.certificates, self.proxied_page = CertificateNames(), ProxiedPage(self.page)
        self.listening = listening.Listening(lambda: {self.page.port: PORT_CLOSED})
        self.server_connect, self.http_connect = self.listening.server_connect, self.listening.http_connect
        self.is_embedded = False
        """True if the program that loads the addon shows errors of options itself."""
        self.is_wrapped = False
        """True if the proxy was started for one program and ends with this program."""
        self._running = False
        self._since = 0.0

    @property
    def settings(self) -> Settings:
        return self.current.settings

    # Life of the addon

    def load(self, loader: Loader) -> None:
        """Declare the options, which `configure` reads, and the commands."""
        declare(loader.add_option)
        loader.master.commands.collect_commands(self.commands)
        websocket_streams.bound_messages()
        explainer.install(self.explainer)

    def configure(self, updated: set[str]) -> None:
        """Read the settings again when one of them changes. A bad value gives an error of one line."""
        try:
            if "stream_large_bodies" in updated and ctx.options.stream_large_bodies:
                raise SettingsError(
                    f"stream_large_bodies: got {ctx.options.stream_large_bodies!r}, allowed: nothing while "
                    "Penumbra is loaded, since streamed requests leave before they can be read"
                )
            if any(name.startswith("penumbra_") for name in updated):
                self.current.read()
                self._applied()
        except SettingsError as error:
            if self._running or self.is_embedded:
                raise exceptions.OptionsError(str(error)) from None
            # mitmproxy exits if an error is logged before it runs; an exception would also print a traceback.
            _log.error(str(error))

    def running(self) -> None:
        """Start everything that needs a running proxy, and log that the addon is active."""
        self.current.report_unknown()
        self._running = True
        self._applied()
        # The garbage collector need not check objects from the start, because these exist until the end.
        gc.freeze()
        self._follow_page()
        self._since = time.time()
        self.stats_file.start()
        observes = ", which is only observed: nothing is changed" if self.settings.observe else ""
        _log.info(f"Penumbra is active, mode {self.settings.mode}{observes}.")
        self.responses.tool_loop.running()
        self.listening.running()
        self.commands.running()

    def done(self) -> None:
        """Write the statistics that are not written yet, and close all files."""
        self.page.close()
        self.history.write()
        self.stats_file.close()
        # A reload of the script ends this addon but not its flows.
        self.observation.close(at_once=ctx.master.should_exit.is_set())
        self.engines.close(at_once=ctx.master.should_exit.is_set())
        self.events.close()
        self.tracing.close()

    def _applied(self) -> None:
        if self._running:
            self.events.follow()
            self.tracing.follow()
            self._follow_page()

    def _follow_page(self) -> None:
        with self._handle() as handle:
            self.page.follow(self.settings.page, handle.engine.database.key)
        if self.settings.page_originals == "off":
            self.texts.clear()

    def _counted(self) -> None:
        """Tell the page, the history and the file of statistics that figures have changed."""
        self.stats_file.changed()
        self.history.changed()
        self.page.changed()

    def _forget(self) -> None:
        """Empty the store. Raises CommandError."""
        if self.settings.store:
            raise exceptions.CommandError("the store is shared (penumbra_store): other proxies need it")
        self.engines.forget()
        self.observation.forget()

    def _handle(self) -> EngineHandle:
        """Return a handle on the engine for a request that begins now."""
        if self.current.read_changed_file():
            self._applied()
        return self.engines.handle(self.settings, self.current.made_with)

    def _is_llm_host(self, host: str) -> bool:
        return recognise.is_llm_host(host, self.settings.hosts)

    def _is_searched(self, host: str) -> bool:
        return self.settings.redact_secrets and self._is_llm_host(host)

    def _is_provider(self, host: str) -> bool:
        return recognise.is_provider(host, self.settings.hosts)

    def _process(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "started": self._since,
            "version": __version__,
            "ports": sorted(listening.ports()),
            "is_paused": self.settings.pause,
            "is_observing": self.settings.observe,
            "mode": str(self.settings.mode),
            "has_originals": self.settings.page_originals == "on",
        }

    def _stats(self) -> dict[str, Any]:
        return {
            **self._process(),
            "proxy": listening.proxy(),
            "page": self.page.link,
            "ca": os.path.join(os.path.expanduser(ctx.options.confdir), "mitmproxy-ca-cert.pem"),
            "hosts": self.settings.hosts,
            "is_wrapped": self.is_wrapped,
            "written": time.time(),
            "not_in_history": self.journal.pending_requests,
            "figures": totals.lines(self.journal),
            "expansions": totals.expansion_lines(self.journal),
            "totals": totals.record(self.journal),
        }

    def failed(self, hook: str, subject: Any, error: BaseException) -> bool:
        """Refuse a request or a frame if the failed hook should have searched it for secrets."""
        if hook == "request":
            return self.requests.failed(subject, error)
        if hook == "websocket_message":
            return self.websockets.failed(subject, error)
        if hook == "next_layer":
            self.only_http.failed(subject)
        elif hook in ("response", "error"):
            self.responses.abandoned(subject, must_search=self.requests.must_search)
        return False

    # Life of a connection

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Tunnel connections to hosts that are no LLM hosts, unless all hosts are decrypted. A reverse proxy
        tunnels no connection."""
        self.certificates.tls_clienthello(data)
        if self.settings.intercept == "all" or destination.mode(data.context.client) == "reverse":
            return
        if (address := data.context.server.address) is None:
            return  # A client speaks TLS with the proxy itself, and names its destination later.
        # The name in the ClientHello may differ from the address of the connection, so both are checked.
        name = data.client_hello.sni or address[0]
        if not (self._is_llm_host(name) or self._is_provider(address[0])):
            data.ignore_connection = True

    def next_layer(self, data: NextLayer) -> None:
        """Check the protocol of the next layer, and replace the layer by a layer whose responses the tool
        loop can continue."""
        self.only_http.next_layer(data)
        self.responses.tool_loop.next_layer(data)

    async def client_disconnected(self, client: connection.Client) -> None:
        """Cancel the hidden requests of a client that has disconnected."""
        await hidden_requests.client_disconnected(client)

    # Life of a flow

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Keep the request away from the ports of this process, and limit the size of its body."""
        await self.listening.requestheaders(flow)
        self.proxied_page.requestheaders(flow)
        self.requests.begins(flow)

    async def request(self, flow: http.HTTPFlow) -> None:
        if flow.metadata:
            self.explainer.learn(flow)
        await self.requests.request(flow)

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        self.proxied_page.responseheaders(flow)
        await self.responses.begins(flow)

    async def penumbra_refused(self, refused: Refused) -> None:
        """Check a response before the client has received any byte of it."""
        await self.responses.overflow_retry.refused(refused)

    async def penumbra_turn_end(self, turn: TurnEnd) -> None:
        """Continue or end the client's response after the provider's response has ended."""
        await self.responses.tool_loop.turn_end(turn)

    async def response(self, flow: http.HTTPFlow) -> None:
        self.proxied_page.response(flow)
        await self.responses.complete(flow)

    async def error(self, flow: http.HTTPFlow) -> None:
        self.proxied_page.error(flow)
        await self.responses.failed(flow)

    def websocket_start(self, flow: http.HTTPFlow) -> None:
        self.websockets.start(flow)

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Rewrite a frame. The next frame waits until this hook has ended."""
        await self.websockets.message(flow)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self.websockets.end(flow)
