"""A request's way to the provider, downwards: is it ours, what does it say, what becomes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from mitmproxy import http

from penumbra.apis import other_paths, recognise, websocket_upgrade
from penumbra.apis.recognise import Api
from penumbra.config.per_request import (
    SWITCH_HEADER,
    THRESHOLD_HEADER,
    OverrideError,
    apply_switch,
    is_observed,
)
from penumbra.config.settings import Settings
from penumbra.conversation import ambiguity, bound_thinking
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.refused import Refused, unsearched
from penumbra.flow import (
    destination,
    llm_hosts,
    refusal,
    request_bodies,
    signing,
    websocket_frames,
)
from penumbra.flow import state as states
from penumbra.flow.current_settings import CurrentSettings
from penumbra.flow.engines import Lease
from penumbra.flow.observation import Observation
from penumbra.flow.other_requests import OtherRequests
from penumbra.flow.other_websockets import SearchedSocket
from penumbra.flow.report import Reports
from penumbra.flow.response import ResponseWay
from penumbra.flow.signing import Signing, headers_of
from penumbra.flow.state import FlowState
from penumbra.flow.websocket_lanes import Socket
from penumbra.metrics.journal import Journal
from penumbra.redaction import TooLarge, Unreadable
from penumbra.wire import content_encoding, own_calls

_log = logging.getLogger(__name__)


class RequestWay:
    """State: none but the figures; what is known of a flow stands in its state."""

    def __init__(
        self,
        current: CurrentSettings,
        lease: Callable[[], Lease],
        response_way: ResponseWay,
        reports: Reports,
        journal: Journal,
        observation: Observation,
    ) -> None:
        """`lease`: what a request that begins now works with."""
        self._current = current
        self._lease = lease
        self._response_way = response_way
        self._reports = reports
        self._journal = journal
        self._observation = observation
        self._signing = Signing(journal)
        self.others = OtherRequests(lease, self._signing, journal)

    async def request(self, flow: http.HTTPFlow) -> None:
        """Whether a request is ours, and of which kind."""
        if own_calls.is_ours(flow.request.headers.get(own_calls.HEADER, "")):
            # A strategy's own call, come back to us over some proxy.
            del flow.request.headers[own_calls.HEADER]
            return
        if (state := states.of(flow)) is not None and state.hidden_request is not None:
            signing.sign_now(flow.request, state.lease.settings)
            return
        state = states.begin(flow, self._lease())
        if not self._is_ours(flow, state.lease.settings):
            return
        api = recognise.by_request_line(flow.request.method, flow.request.path)
        if state.lease.settings.observe:
            await self._observe(flow, state, api)
            return
        if self._is_refused(flow, state, ambiguity.hosts):
            return
        is_switched = SWITCH_HEADER in flow.request.headers
        if not self._switch(flow, state, api) or self._is_websocket(flow, state, is_switched):
            return
        if api is None:
            await self.others.request(flow, state.lease)
        elif not (
            self._is_refused(flow, state, ambiguity.content)
            or self._signing.forbids_changes(flow.request, state.lease.settings)
        ):
            await self._call(flow, state, api)

    async def _observe(self, flow: http.HTTPFlow, state: FlowState, api: Api | None) -> None:
        """The request goes on byte for byte."""
        settings = state.lease.settings
        flow.request.headers.pop(SWITCH_HEADER, None)
        state.is_untouched = api is not None
        if api is None or settings.pause:
            return
        try:
            body = await request_bodies.decoded(flow.request, settings.max_body_bytes)
        except content_encoding.NotDecodable:
            return
        self._observation.begin(flow, described(flow, api, body), settings)

    async def _call(self, flow: http.HTTPFlow, state: FlowState, api: Api) -> None:
        """A call of an LLM. Where anything fails, secrets are not sent."""
        try:
            await self._rewrite(flow, state, api)
        except Exception as error:
            refused = refusal.of_failure(flow, api, error, state.lease.settings)
            if refused is not None:
                refusal.refuse(flow, refused, self._journal)

    async def _rewrite(self, flow: http.HTTPFlow, state: FlowState, api: Api) -> None:
        incoming = await self._incoming(flow, state, api)
        if incoming is None:
            return
        if isinstance(incoming, Refused):
            refusal.refuse(flow, incoming, self._journal)
            return
        if state.observed is not None:
            self._observation.begin(flow, incoming, state.observed)
        outcome = await state.lease.engine.process(incoming, state.lease.settings)
        if isinstance(outcome, Refused):
            refusal.refuse(flow, outcome, self._journal)
        elif isinstance(outcome, Accepted):
            await self._send(flow, state, incoming, outcome)
        else:
            self._journal.passed("unexpected body")
            await self.others.request(flow, state.lease, api)

    async def _incoming(self, flow: http.HTTPFlow, state: FlowState, api: Api) -> Incoming | Refused | None:
        """The request without its content coding; None: it can't be had, and needs no search."""
        request, settings = flow.request, state.lease.settings
        try:
            body = await request_bodies.decoded(request, settings.max_body_bytes)
        except content_encoding.NotDecodable as error:
            says_json = recognise.claims_json(request.headers.get("content-type", ""))
            if settings.must_search and (says_json or llm_hosts.is_provider(flow, settings.hosts)):
                kind = TooLarge if isinstance(error, content_encoding.TooLarge) else Unreadable
                return unsearched(api, kind(f"its body: {error}"))
            self._journal.passed("undecodable body")
            _log.warning(f"Penumbra leaves a request to {destination.shown(flow)} alone: {error}")
            return None
        return described(flow, api, body)

    async def _send(
        self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted
    ) -> None:
        """The request goes on, changed or not."""
        request, body = flow.request, accepted.rewritten.body
        changed = body is not incoming.body
        fields = request.headers.fields
        request.headers.pop(THRESHOLD_HEADER, None)
        if accepted.betas:
            request.headers[bound_thinking.HEADER] = accepted.betas
        if changed:
            await request_bodies.put(request, body)
        self._response_way.sent(flow, state, incoming, accepted)
        if changed or fields != request.headers.fields:
            # Behind everything that may change a header, for headers are signed too.
            signing.sign(request, state.lease.settings)
        self._reports.accepted(flow, state, state.lease, incoming, accepted)

    # WebSockets

    def _is_websocket(self, flow: http.HTTPFlow, state: FlowState, is_switched: bool) -> bool:
        """A WebSocket is rewritten frame by frame, or its client is sent back to HTTP."""
        request, settings = flow.request, state.lease.settings
        if settings.websocket == "pass":
            return False
        if not websocket_upgrade.is_socket(request.method, request.headers):
            return False
        api = websocket_upgrade.asks_for(request.method, request.path, headers_of(request))
        if api is None:
            if settings.redact_secrets:
                is_provider = llm_hosts.is_provider(flow, settings.hosts)
                state.searched_socket = SearchedSocket.at(request.path, is_provider=is_provider)
            return False
        # Values are put back into responses over HTTP only.
        restores = settings.redact_secrets and settings.restore_secrets != "off"
        # What an upgrade says holds for one request, and a WebSocket is many.
        may_change = websocket_frames.can_change() and not is_switched
        if settings.websocket == "rewrite" and may_change and not restores:
            state.socket = Socket(api)
            state.threshold = request.headers.pop(THRESHOLD_HEADER, None)
            return True
        refusal.refuse_websocket(flow)
        return True

    async def frame(
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
                incoming = described(flow, api, frame, socket=True)
                outcome = await lease.engine.process(incoming, settings)
                # On a socket no event says that its response begins.
                await lease.engine.written()
            if isinstance(outcome, Accepted) and (state := states.of(flow)) is not None:
                self._reports.accepted(flow, state, lease, incoming, outcome)
        except Exception as error:
            outcome = refusal.of_failure(flow, api, error, settings)
        if isinstance(outcome, Refused):
            refusal.count(flow, outcome, self._journal)
        return outcome

    async def other_frame(self, flow: http.HTTPFlow, frame: bytes) -> bytes:
        """What goes on of a frame of such a WebSocket that asks for nothing. Raises RedactionError."""
        return await self.others.frame(flow, frame, "", known=True, strict=True)

    # Whose it is

    def _is_ours(self, flow: http.HTTPFlow, settings: Settings) -> bool:
        if flow.response is not None or flow.error is not None or "penumbra" in flow.metadata:
            return False
        return llm_hosts.may_be(flow, settings.hosts) and self._current.select(flow)

    def _switch(self, flow: http.HTTPFlow, state: FlowState, api: Api | None) -> bool:
        """Have the request's own switch hold for it; false: it is refused for a word that nobody knows."""
        word = flow.request.headers.pop(SWITCH_HEADER, None)
        if word is None:
            return True
        try:
            settings = state.lease.settings
            state.lease.settings = apply_switch(settings, word)
            state.observed = settings if is_observed(word) and not settings.pause else None
        except OverrideError as error:
            shape = api.wire.error if api is not None else partial(other_paths.error, flow.request.host)
            refusal.refuse(flow, Refused(400, shape(400, str(error)), str(error)), self._journal)
            return False
        return True

    def _is_refused(self, flow: http.HTTPFlow, state: FlowState, read: refusal.Read) -> bool:
        """Whether a request's head can be read in two ways."""
        refused = refusal.of_ambiguous(flow, read, state.lease.settings)
        if refused is not None:
            refusal.refuse(flow, refused, self._journal)
        return refused is not None


def described(flow: http.HTTPFlow, api: Api, body: bytes, *, socket: bool = False) -> Incoming:
    """A request, or a frame of a WebSocket, as the engine reads it."""
    request, peer, state = flow.request, flow.client_conn.peername, states.of(flow)
    return Incoming(
        api=api,
        body=body,
        socket=socket,
        headers=headers_of(request),
        query=dict(request.query.items()),
        peer=str(peer[0]) if peer else "",
        host=f"{destination.host(flow)}:{request.port}",
        path=request.path,
        threshold=request.headers.get(THRESHOLD_HEADER, state.threshold if state is not None else None),
    )
