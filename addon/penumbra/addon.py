"""mitmproxy's face: options, and the hooks in the order in which a flow meets them."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from mitmproxy import ctx, exceptions, http, tls
from mitmproxy.addonmanager import Loader

from penumbra import errors
from penumbra.apis import other_paths, recognise, websocket_upgrade
from penumbra.apis.recognise import Api
from penumbra.config import options
from penumbra.config.options import unknown_options, unprefixed_options
from penumbra.config.per_request import THRESHOLD_HEADER
from penumbra.config.settings import Settings, SettingsError, unknown_variables
from penumbra.conversation import ambiguity, bound_thinking
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.refused import Refused, message_of, unsearched
from penumbra.errors import one_line
from penumbra.flow import bodies, destination, listening, llm_hosts, state, websocket_limit
from penumbra.flow.commands import Commands
from penumbra.flow.current_settings import CurrentSettings
from penumbra.flow.engines import Engines, Lease
from penumbra.flow.only_http import OnlyHttp
from penumbra.flow.other_requests import Hands, OtherRequests
from penumbra.flow.other_websockets import OtherSockets
from penumbra.flow.overflow_retry import OverflowRetry
from penumbra.flow.placeholder_warning import PlaceholderWarning
from penumbra.flow.privacy import FlowPrivacy
from penumbra.flow.report import Reports
from penumbra.flow.secret_restoration import SecretRestoration
from penumbra.flow.state import FlowEnd
from penumbra.flow.tool_loop import Expansion
from penumbra.flow.usage_scaling import UsageScaling
from penumbra.flow.websocket import Sockets
from penumbra.flow.websocket_retry import SocketRescue
from penumbra.metrics import events, totals
from penumbra.metrics.expansions import ExpansionFigures
from penumbra.metrics.running import StatsFile, own_file
from penumbra.redaction import RedactionError, TooLarge, Unreadable
from penumbra.wire import content_encoding, own_calls, sigv4

_THRESHOLD = "penumbra_threshold"
"""What a WebSocket's opening said about all of its frames, in the metadata of its flow."""
_MOST_HOSTS = 1_000
"""That are warned of."""
_log = logging.getLogger(__name__)


class Penumbra:
    """The addon. State: the settings in force, the engine that works by them, and the figures."""

    def __init__(self) -> None:
        self.current = CurrentSettings()
        self.figures = totals.Figures()
        self._engines = Engines(self.figures.strategies, listening.ports)
        self.expansion = Expansion(ExpansionFigures(), self._write_event)
        self.tells = UsageScaling()
        self.rescue = OverflowRetry(self.expansion, self.tells.expect)
        self.edits = SecretRestoration()
        self.expansion.wrap = self.edits.wrap
        self.expansion.wrap = self.tells.behind(self.expansion.wrap)
        self.writes = PlaceholderWarning()
        rescue = SocketRescue(partial(self._described, socket=True))
        self.sockets = Sockets(
            self._frame, self._other_frame, self._lease, self.expansion, self.writes, rescue
        )
        self.stats_file = StatsFile(own_file(), self._stats)
        self.reports = Reports(self.figures, self._write_event, self.stats_file.changed)
        self.others = OtherRequests(
            Hands(
                lease=self._lease,
                is_provider=self._is_provider,
                may_change=lambda request: not self._is_sealed(request),
                sign=self._sign,
                refuse=self._refuse,
                figures=self.figures,
            )
        )
        commands = Commands(self.figures, self.expansion.figures)
        self.kept = FlowPrivacy(lambda: self.settings.blank_flows, self.expansion.sending)
        answers = [self.rescue, self.expansion, self.edits, self.tells, self.writes, self.kept]
        self.other_sockets = OtherSockets(self.others)
        first = [listening.Listening(), commands, OnlyHttp(self._is_searched)]
        self.addons = [*first, *answers, self.sockets, self.other_sockets, self.reports, FlowEnd()]
        self.is_embedded = False
        """Whether who loads the addon shows an error of an option by itself, also at the start."""
        self._running = False
        self._since = 0.0
        self._events: events.EventLog | None = None
        self._sealed_hosts: set[str] = set()

    @property
    def settings(self) -> Settings:
        """Those in force."""
        return self.current.settings

    # Life of the addon

    def load(self, loader: Loader) -> None:
        """Declare the options; `configure` reads them."""
        options.declare(loader)
        websocket_limit.install()

    def configure(self, updated: set[str]) -> None:
        """Read the settings anew when one of them changes. A bad value is refused in one line."""
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
            # An error that is logged before mitmproxy runs ends the start; an exception would do
            # the same behind a traceback.
            _log.error(str(error))

    def running(self) -> None:
        """Say that the addon is there; a misspelt option would otherwise be ignored for ever."""
        for line in unknown_options(ctx.options.deferred):
            _log.error(line)
        for line in unprefixed_options(ctx.options.deferred):
            _log.warning(line)
        for name in unknown_variables(os.environ):
            _log.warning(f"{name}: Penumbra reads no variable of this name.")
        self._running = True
        self._open_events()
        # What the start has made stays: the collector need not look at it in every request.
        gc.freeze()
        self._lease().end()
        self._since = time.time()
        self.stats_file.start()
        _log.info(f"Penumbra is active, mode {self.settings.mode}.")

    def done(self) -> None:
        """Write what is waiting and close the database."""
        self.stats_file.close()
        # A reload of the script ends this addon, and no flow.
        self._engines.close(at_once=ctx.master.should_exit.is_set())
        if self._events is not None:
            self._events.close()
            self._events = None

    def _stats(self) -> dict[str, Any]:
        """For `penumbra stats`."""
        return {
            "pid": os.getpid(),
            "started": self._since,
            "ports": sorted(listening.ports()),
            "mode": str(self.settings.mode),
            "figures": self.figures.lines(),
            "expansions": self.expansion.figures.lines(),
            "totals": self.figures.totals(),
        }

    def _applied(self) -> None:
        """Other settings are in force."""
        if self._events is not None and self._events.path != self.settings.events:
            self._events.close()
            self._events = None
        if self._running:
            self._open_events()

    def _lease(self) -> Lease:
        """What a request that begins now works with."""
        if self.current.read_changed_file():
            self._applied()
        return self._engines.lease(self.settings, self.current.made_with)

    # Life of a flow

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Tunnel what is none of ours: only known LLM hosts are decrypted."""
        if self.settings.intercept == "all" or destination.mode(data.context.client) == "reverse":
            return
        if (address := data.context.server.address) is None:
            return  # A client that speaks TLS with the proxy itself: where it wants to go comes later.
        host = data.client_hello.sni or address[0]
        if not recognise.is_llm_host(host, self.settings.hosts):
            data.ignore_connection = True

    async def request(self, flow: http.HTTPFlow) -> None:
        """Rewrite a recognised request."""
        if own_calls.is_ours(flow.request.headers.get(own_calls.HEADER, "")):
            # A strategy's own call, come back to us over some proxy.
            del flow.request.headers[own_calls.HEADER]
            return
        if self.expansion.is_continuation(flow):
            # The client's own request may have been signed long ago.
            self._sign(flow.request, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
            return
        lease = self._lease()
        state.begin(flow, lease)
        if not self._is_ours(flow) or self._is_ambiguous(flow, ambiguity.hosts) or self._is_socket(flow):
            return
        api = recognise.by_request_line(flow.request.method, flow.request.path)
        if api is None:
            await self.others.request(flow, lease)
            return
        if self._is_ambiguous(flow, ambiguity.content) or self._is_sealed(flow.request):
            return
        try:
            await self._rewrite(flow, api, lease)
        except Exception as error:
            if (refused := self._unsearched(flow, api, error, lease.settings)) is not None:
                self._refuse(flow, refused)

    async def _rewrite(self, flow: http.HTTPFlow, api: Api, lease: Lease) -> None:
        incoming = await self._incoming(flow, api, lease.settings)
        if incoming is None:
            return
        if isinstance(incoming, Refused):
            self._refuse(flow, incoming)
            return
        outcome = await lease.engine.process(incoming, lease.settings)
        if isinstance(outcome, Refused):
            self._refuse(flow, outcome)
        elif isinstance(outcome, Accepted):
            await self._send(flow, incoming, outcome, lease)
        else:
            self.figures.passed["unexpected body"] += 1
            await self.others.request(flow, lease, api)

    def _unsearched(
        self, flow: http.HTTPFlow, api: Api, error: Exception, settings: Settings
    ) -> Refused | None:
        """After a failure mitmproxy would send the request as it came, with its secrets."""
        where = errors.place(error)
        if settings.redact_secrets:
            return unsearched(api, RedactionError(where))
        _log.warning(f"Penumbra leaves a request to {destination.shown(flow)} alone: {where}")
        return None

    async def _frame(
        self, flow: http.HTTPFlow, api: Api, frame: bytes, lease: Lease
    ) -> Accepted | Refused | None:
        """What becomes of a request that is a frame of a WebSocket; None: it is left alone."""
        settings = lease.settings
        outcome: Accepted | Refused | None
        try:
            if len(frame) > settings.max_body_bytes:
                problem = TooLarge(f"a frame above {settings.max_body_bytes:,} bytes")
                outcome = unsearched(api, problem) if settings.must_search else None
            else:
                incoming = self._described(flow, api, frame, socket=True)
                outcome = await lease.engine.process(incoming, settings)
            if isinstance(outcome, Accepted):
                self.reports.accepted(flow, incoming, outcome)
        except Exception as error:
            outcome = self._unsearched(flow, api, error, lease.settings)
        if isinstance(outcome, Refused):
            self.figures.refused += 1
            _log.warning(f"Penumbra refused a request to {destination.shown(flow)}: {outcome.reason}")
        return outcome

    async def _other_frame(self, flow: http.HTTPFlow, frame: bytes) -> bytes:
        return await self.others.frame(flow, frame, "", known=True, strict=True)

    def _is_socket(self, flow: http.HTTPFlow) -> bool:
        """A WebSocket is rewritten frame by frame, or its client is sent back to HTTP."""
        request = flow.request
        policy = self.settings.websocket
        if policy == "pass":
            return False
        api = websocket_upgrade.asks_for(request.method, request.path, _headers(request))
        if api is None:
            if self.settings.redact_secrets and websocket_upgrade.is_socket(
                request.method, _headers(request)
            ):
                self.other_sockets.expect(flow, is_provider=self._is_provider(flow))
            return False
        # Values are put back into answers over HTTP only.
        restores = self.settings.redact_secrets and self.settings.restore_secrets != "off"
        if policy == "rewrite" and self.sockets.can_rewrite and not restores:
            self.sockets.expect(flow, api)
            if (threshold := request.headers.pop(THRESHOLD_HEADER, None)) is not None:
                flow.metadata[_THRESHOLD] = threshold
            return True
        content = {"content-type": "application/json", "upgrade": "HTTP/1.1", "connection": "upgrade"}
        flow.response = http.Response.make(
            websocket_upgrade.REFUSAL_STATUS, websocket_upgrade.refusal(), content
        )
        flow.metadata["penumbra"] = {"refused": websocket_upgrade.REFUSAL_STATUS}
        flow.comment = "Penumbra refused a WebSocket: the client goes on over HTTP"
        return True

    def _is_sealed(self, request: http.Request) -> bool:
        """Whether a signature forbids every change; said once for each host."""
        headers = _headers(request)
        if not sigv4.covers_body(headers):
            return False
        keys = self._aws_keys()
        if keys is not None and keys.made(_signable(request)):
            return False
        self.figures.passed["signed"] += 1
        host = one_line(request.host)
        if host not in self._sealed_hosts and len(self._sealed_hosts) < _MOST_HOSTS:
            self._sealed_hosts.add(host)
            _log.warning(
                f"Penumbra leaves requests to {host} alone: they are signed. Use an API key, "
                "or penumbra_aws_signing=environment and the client's own keys."
            )
        return True

    def _aws_keys(self) -> sigv4.Keys | None:
        key_id, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        if self.settings.aws_signing != "environment" or not key_id or not secret:
            return None
        return sigv4.Keys(key_id, secret)

    def _sign(self, request: http.Request, date: str = "") -> None:
        """Sign a changed body with the keys that the client has signed its own with."""
        if sigv4.covers_body(_headers(request)) and (keys := self._aws_keys()) is not None:
            request.headers.update(keys.sign(_signable(request), date))

    def _is_ours(self, flow: http.HTTPFlow) -> bool:
        if flow.response is not None or flow.error is not None or "penumbra" in flow.metadata:
            return False
        ours = llm_hosts.may_be(flow, self.settings.hosts)
        return ours and self.current.select(flow)

    def _is_searched(self, host: str) -> bool:
        return self.settings.redact_secrets and recognise.is_llm_host(host, self.settings.hosts)

    def _is_provider(self, flow: http.HTTPFlow) -> bool:
        return llm_hosts.is_provider(flow, self.settings.hosts)

    def _is_ambiguous(self, flow: http.HTTPFlow, read: Callable[[Iterable[tuple[str, str]]], str]) -> bool:
        """Whether a request's head can be read in two ways, so that it is refused."""
        why = read(flow.request.headers.items(multi=True)) if self.settings.must_search else ""
        if why:
            error = Unreadable(why)
            body = other_paths.error(flow.request.host, error.status, message_of(error))
            self._refuse(flow, Refused(error.status, body, message_of(error)))
        return bool(why)

    async def _incoming(self, flow: http.HTTPFlow, api: Api, settings: Settings) -> Incoming | Refused | None:
        request = flow.request
        try:
            body = await bodies.decoded(request, settings.max_body_bytes)
        except content_encoding.NotDecodable as error:
            says_json = recognise.claims_json(request.headers.get("content-type", ""))
            if settings.must_search and (says_json or self._is_provider(flow)):
                kind = TooLarge if isinstance(error, content_encoding.TooLarge) else Unreadable
                return unsearched(api, kind(f"its body: {error}"))
            self.figures.passed["undecodable body"] += 1
            _log.warning(f"Penumbra leaves a request to {destination.shown(flow)} alone: {error}")
            return None
        return self._described(flow, api, body)

    def _described(self, flow: http.HTTPFlow, api: Api, body: bytes, *, socket: bool = False) -> Incoming:
        request = flow.request
        peer = flow.client_conn.peername
        return Incoming(
            api=api,
            body=body,
            socket=socket,
            headers=_headers(request),
            query=dict(request.query.items()),
            peer=str(peer[0]) if peer else "",
            host=f"{destination.host(flow)}:{request.port}",
            path=request.path,
            threshold=request.headers.get(THRESHOLD_HEADER, flow.metadata.get(_THRESHOLD)),
        )

    def _refuse(self, flow: http.HTTPFlow, refused: Refused) -> None:
        self.figures.refused += 1
        flow.response = http.Response.make(refused.status, refused.body, {"content-type": "application/json"})
        flow.metadata["penumbra"] = {"refused": refused.status}
        flow.comment = f"Penumbra refused: {refused.reason}"
        _log.warning(f"Penumbra refused a request to {destination.shown(flow)}: {refused.reason}")

    async def _send(self, flow: http.HTTPFlow, incoming: Incoming, accepted: Accepted, lease: Lease) -> None:
        body = accepted.rewritten.body
        changed = body is not incoming.body
        headers = _headers(flow.request)
        flow.request.headers.pop(THRESHOLD_HEADER, None)
        if accepted.betas:
            flow.request.headers[bound_thinking.HEADER] = accepted.betas
        if changed:
            await bodies.put(flow.request, body)
        if accepted.prepared is not None and accepted.find is not None:
            prepared, find = accepted.prepared, accepted.find
            self.expansion.expect(flow, lease, prepared, find, body, accepted.room)
        if accepted.restoration is not None:
            self.edits.expect(flow, accepted.restoration)
        self.writes.expect(flow, incoming.api.format, body)
        self.kept.expect(flow, body)
        self.tells.expect(flow, accepted)
        self.rescue.expect(flow, lease, incoming, accepted)
        if changed or headers != _headers(flow.request):
            # Behind everything that may change a header, for headers are signed too.
            self._sign(flow.request)
        self.reports.accepted(flow, incoming, accepted)

    def _write_event(self, event: dict[str, Any]) -> None:
        if (log := self._open_events()) is not None:
            log.write(event)

    def _open_events(self) -> events.EventLog | None:
        if self._events is None and self.settings.events:
            self._events = events.EventLog(self.settings.events)
        return self._events


def _headers(request: http.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def _signable(request: http.Request) -> sigv4.Signable:
    headers = {"host": request.pretty_host, **_headers(request)}
    return sigv4.Signable(request.method, request.path, headers, request.raw_content or b"")
