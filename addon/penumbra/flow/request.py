"""This module has the steps of a request on its way to the provider, from mitmproxy's hook to the sent bytes.

`request` undoes all changes after a failure. `_decide` checks whether the request concerns Penumbra, has an
unambiguous head, switches Penumbra off, opens a WebSocket or calls an LLM. `_call` decodes the body and lets
the engine rewrite it. `_send` puts the new body into the request and signs the request. `OtherRequests`
searches other requests to LLM hosts for secrets. `Signing` knows Amazon's signatures.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial

from penumbra import errors
from penumbra.apis import recognise
from penumbra.apis.identity import Credentials
from penumbra.apis.recognise import Api
from penumbra.config.per_request import (
    SWITCH_HEADER,
    THRESHOLD_HEADER,
    OverrideError,
    apply_switch,
    is_observed,
)
from penumbra.config.settings import Settings
from penumbra.conversation import adoption, ambiguity, workers
from penumbra.conversation.incoming import Accepted, Incoming, Refused
from penumbra.errors import one_line
from penumbra.flow import bodies, destination, guarded, refusal, websocket_streams
from penumbra.flow import state as states
from penumbra.flow.current_settings import CurrentSettings, EngineHandle
from penumbra.flow.destination import headers_of, query_of
from penumbra.flow.hidden_requests import HiddenRequest
from penumbra.flow.mitm import Flow, Headers, HttpRequest
from penumbra.flow.refusal import leave
from penumbra.flow.report import Observation, Reports
from penumbra.flow.response import ResponseWay
from penumbra.flow.state import FlowState
from penumbra.flow.websocket_streams import SearchedSocket, Socket
from penumbra.metrics.journal import Journal
from penumbra.redaction import RedactionError, TooLarge, Unreadable
from penumbra.redaction.other_bodies import Body, Searched
from penumbra.wire import content_encoding, request_path, sigv4
from penumbra.wire.request_path import normal

_log = logging.getLogger(__name__)


@dataclass
class RequestWay:
    """A `RequestWay` takes requests through these steps. The state of each flow is in its `FlowState`."""

    _current: CurrentSettings
    _handle: Callable[[], EngineHandle]
    """The function that returns a handle on the settings and the engine for a request that begins now."""
    _response_way: ResponseWay
    _reports: Reports
    journal: Journal
    _observation: Observation

    def __post_init__(self) -> None:
        self._signing = Signing(self.journal)
        self.others = OtherRequests(self._handle, self._signing, self.journal)

    def begins(self, flow: Flow) -> None:
        """Limit the body of a request that must be searched. A larger body is dropped as it arrives."""
        request, settings = flow.request, self._current.settings
        api = recognise.by_request_line(request.method, request.path)
        if api is None:
            return
        headers = headers_of(request)
        says_json = recognise.claims_json(headers.get("content-type", ""))
        # With one of these headers, the request may be exempt from the search or from changes.
        if SWITCH_HEADER in headers or request_path.HEADER in headers or sigv4.covers_body(headers):
            return
        is_ours = self._must_search(flow, api, settings) and self._is_at_ours(flow, settings)
        if is_ours and (says_json or destination.is_provider(flow, settings.hosts)):
            most = settings.max_body_bytes
            bodies.BOUNDS[flow] = bodies.Bound(most, partial(self._refuse_large, api, most))

    def _refuse_large(self, api: Api, most: int, flow: Flow) -> None:
        error = TooLarge(f"its body: more than {most:,} bytes")
        refusal.refuse(flow, refusal.of_failure(flow, api, error), self.journal)

    async def request(self, flow: Flow) -> None:
        """Rewrite, search or refuse a request that concerns Penumbra. An exception undoes all changes."""
        # Looking a header up in mitmproxy's headers takes longer than looking it up in a dict.
        fields = destination.fields_of(flow.request)
        headers = destination.joined(fields)
        if request_path.is_ours(headers.get(request_path.HEADER, "")):
            # The request is a call to an external compressor, and another proxy sent the call back here.
            del flow.request.headers[request_path.HEADER]
            return
        if (state := states.of(flow)) is not None and state.get(HiddenRequest) is not None:
            sign_now(flow.request, state.handle.settings)
            return
        before = copy(flow.request.data)
        before.headers = Headers(flow.request.headers.fields)
        state = states.begin(flow, self._handle())
        try:
            await self._decide(flow, state, fields, headers)
        except BaseException:
            # A half-changed request must not be sent.
            flow.request.data = before
            states.forget(flow)
            raise

    async def _decide(
        self, flow: Flow, state: FlowState, fields: list[tuple[str, str]], headers: dict[str, str]
    ) -> None:
        """Choose the next step by a request's destination, head and path. `headers` are the `fields` by
        name. Raises RedactionError."""
        if not self._is_ours(flow, state.handle.settings):
            return
        api = recognise.by_request_line(flow.request.method, flow.request.path)
        if state.handle.settings.observe:
            await self._observe(flow, state, api)
            return
        state.is_searched = self._must_search(flow, api, state.handle.settings)
        if state.is_searched and flow.request.trailers:
            raise Unreadable("it has trailers after its body")
        _check(state, ambiguity.hosts(fields))
        is_switched = headers.pop(SWITCH_HEADER, None) is not None
        if is_switched and not self._switch(flow, state, api):
            return
        if self._is_websocket(flow, state, is_switched):
            return
        if api is None:
            await self.others.request(flow, state.handle)
            return
        _check(state, ambiguity.content(fields))
        if not self._signing.forbids_changes(flow, headers, api, state.handle.settings):
            await self._call(flow, state, api, headers)

    def _is_ours(self, flow: Flow, settings: Settings) -> bool:
        if flow.response is not None or flow.error is not None or "penumbra" in flow.metadata:
            return False
        return self._is_at_ours(flow, settings)

    def _is_at_ours(self, flow: Flow, settings: Settings) -> bool:
        return destination.is_llm_host(flow, settings.hosts) and self._current.select(flow)

    def _switch(self, flow: Flow, state: FlowState, api: Api | None) -> bool:
        """Apply the request's own switch. Return False if the request is refused for an unknown word."""
        word = flow.request.headers.pop(SWITCH_HEADER)
        try:
            settings = state.handle.settings
            state.handle.settings = apply_switch(settings, word)
            state.observed = settings if is_observed(word) and not settings.pause else None
        except OverrideError as error:
            shape = api.wire.error if api is not None else partial(recognise.error_body, flow.request.host)
            refusal.refuse(flow, Refused(400, shape(400, str(error)), str(error)), self.journal)
            return False
        return True

    def _is_websocket(self, flow: Flow, state: FlowState, is_switched: bool) -> bool:
        """Prepare a WebSocket, or send its client back to HTTP. Return True if no further step is needed."""
        request, settings = flow.request, state.handle.settings
        if settings.websocket == "pass":
            return False
        if not recognise.is_socket(request.method, request.headers):
            return False
        api = recognise.asks_for(request.method, request.path, headers_of(request))
        if api is None:
            if settings.redact_secrets:
                is_provider = destination.is_provider(flow, settings.hosts)
                socket = SearchedSocket.at(request.path, is_provider=is_provider)
                if socket is not None:
                    state.put(socket)
            return False
        # Secrets are restored only over HTTP, so a client that needs restored secrets is sent back to HTTP.
        restores = settings.redact_secrets and settings.restore_secrets != "off"
        # A switch in the upgrade's header is for one request, so a switched client is sent back to HTTP.
        may_change = websocket_streams.can_change() and not is_switched
        if state.is_searched and request.raw_content:
            raise Unreadable("it opens a WebSocket and has a body")
        if settings.websocket == "rewrite" and may_change and not restores:
            state.put(Socket(api))
            state.threshold = request.headers.pop(THRESHOLD_HEADER, None)
            return True
        refusal.refuse_websocket(flow)
        return True

    async def _call(self, flow: Flow, state: FlowState, api: Api, headers: Mapping[str, str]) -> None:
        incoming = await self._incoming(flow, state, api, headers)
        if incoming is None:
            return
        if state.observed is not None:
            self._observation.begin(flow, incoming, state.observed)
        outcome = await state.handle.engine.process(incoming, state.handle.settings)
        if isinstance(outcome, Refused):
            refusal.refuse(flow, outcome, self.journal)
        elif isinstance(outcome, Accepted):
            await self._send(flow, state, incoming, outcome)
        else:
            self.journal.passed("unexpected body")
            await self.others.request(flow, state.handle, api)

    async def _incoming(
        self, flow: Flow, state: FlowState, api: Api, headers: Mapping[str, str]
    ) -> Incoming | None:
        """Return the decoded request; None if it is undecodable and needs no search. Raises
        RedactionError."""
        request, settings = flow.request, state.handle.settings
        try:
            body = await bodies.decoded(request, settings.max_body_bytes)
        except content_encoding.NotDecodable as error:
            says_json = recognise.claims_json(headers.get("content-type", ""))
            if settings.must_search and (says_json or destination.is_provider(flow, settings.hosts)):
                kind = TooLarge if isinstance(error, content_encoding.OverLimit) else Unreadable
                raise kind(f"its body: {error}") from None
            self.journal.passed("undecodable body")
            _log.warning(f"Penumbra leaves a request to {destination.shown(flow)} alone: {error}")
            return None
        return described(flow, api, body, headers)

    async def _send(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        request, body = flow.request, accepted.rewritten.body
        changed = body is not incoming.body
        fields = request.headers.fields
        if incoming.threshold is not None:
            request.headers.pop(THRESHOLD_HEADER, None)
        if accepted.betas:
            request.headers[adoption.HEADER] = accepted.betas
        if changed:
            await bodies.put(request, body)
        self._response_way.sent(flow, state, incoming, accepted)
        if changed or fields != request.headers.fields:
            # The signature comes last, because it also covers headers.
            sign(request, state.handle.settings)
        self._reports.accepted(flow, state, state.handle, incoming, accepted)

    # Requests that are forwarded unchanged

    async def _observe(self, flow: Flow, state: FlowState, api: Api | None) -> None:
        settings = state.handle.settings
        flow.request.headers.pop(SWITCH_HEADER, None)
        state.is_untouched = api is not None
        if api is None or settings.pause:
            return
        try:
            body = await bodies.decoded(flow.request, settings.max_body_bytes)
        except content_encoding.NotDecodable:
            return
        self._observation.begin(flow, described(flow, api, body), settings)

    # Frames of a WebSocket

    async def frame(
        self, flow: Flow, api: Api, frame: bytes, handle: EngineHandle
    ) -> Accepted | Refused | None:
        """Return the outcome for a request that is a frame of a WebSocket; None if the frame stays."""
        settings = handle.settings
        outcome: Accepted | Refused | None
        try:
            if len(frame) > settings.max_body_bytes:
                raise TooLarge(f"a frame above {settings.max_body_bytes:,} bytes")
            incoming = described(flow, api, frame, socket=True)
            outcome = await handle.engine.process(incoming, settings)
            # On a socket, no hook announces the beginning of a response.
            await handle.engine.stores.written()
            if isinstance(outcome, Accepted) and (state := states.of(flow)) is not None:
                self._reports.accepted(flow, state, handle, incoming, outcome)
        except Exception as error:
            outcome = refusal.of_failure(flow, api, error) if settings.must_search else None
            if outcome is None:
                refusal.leave(flow, error)
        if isinstance(outcome, Refused):
            refusal.count(flow, outcome, self.journal)
        return outcome

    def must_search(self, flow: Flow) -> bool:
        """Return whether a request may be sent only after a search for secrets."""
        settings = self._current.settings
        api = recognise.by_request_line(flow.request.method, flow.request.path)
        return self._must_search(flow, api, settings) and self._is_at_ours(flow, settings)

    def _must_search(self, flow: Flow, api: Api | None, settings: Settings) -> bool:
        """Return whether a request to an LLM host may be sent only after a search. `api` is None if the
        request is no LLM call."""
        return settings.must_search and (api is not None or self.others.must_search(flow, settings))

    def must_search_frame(self, flow: Flow) -> bool:
        """Return whether a frame of a client's WebSocket may be sent only after a search for secrets."""
        state = states.of(flow)
        is_read = state is not None and websocket_streams.is_read(state)
        return (is_read and self._current.settings.must_search) or self.must_search(flow)

    def failed(self, flow: Flow, error: BaseException) -> bool:
        """Refuse a request whose hook raised, if the request had to be searched. Return whether the exception
        has been logged."""
        settings = self._current.settings
        if flow.response is not None or flow.error is not None:
            return False
        meant = isinstance(error, RedactionError) and settings.must_search
        if not meant and not self.must_search(flow):
            refusal.leave(flow, error)
            return True
        # The request stays refused even if the code below fails.
        guarded.stop(flow)
        api = recognise.by_request_line(flow.request.method, flow.request.path)
        refusal.refuse(flow, refusal.of_failure(flow, api, error), self.journal)
        return True


def _check(state: FlowState, reason: str) -> None:
    """Raise Unreadable if `reason` says why a request is ambiguous and the request must be searched."""
    if reason and state.handle.settings.must_search:
        raise Unreadable(reason)


def described(
    flow: Flow, api: Api, body: bytes, headers: Mapping[str, str] | None = None, *, socket: bool = False
) -> Incoming:
    """Return a request, or a frame of a WebSocket, in the form that the engine takes. `headers` are the
    request's headers by name, if they were read before."""
    headers = headers_of(flow.request) if headers is None else headers
    request, peer, state = flow.request, flow.client_conn.peername, states.of(flow)
    return Incoming(
        api=api,
        body=body,
        socket=socket,
        headers=headers,
        query=query_of(request),
        peer=str(peer[0]) if peer else "",
        host=f"{destination.host(flow)}:{request.port}",
        path=request.path,
        threshold=headers.get(THRESHOLD_HEADER, state.threshold if state is not None else None),
    )


_VARIABLE = re.compile(r"(?!v[0-9]{1,3}[a-z0-9]{0,8}$)[^/]*[0-9][^/]*|[^/]{25,}")
_MOST_WARNINGS = 1_000


@dataclass(frozen=True)
class OtherRequests:
    """An `OtherRequests` removes secrets from a request to an LLM host if the path names no LLM call, or if
    the body is no LLM call. The setting `unknown_paths` decides about unknown paths."""

    _handle: Callable[[], EngineHandle]
    """The function that returns a handle on the rules for a frame that arrives now."""
    _signing: Signing
    _journal: Journal
    _warned: set[str] = field(default_factory=set)

    async def request(self, flow: Flow, handle: EngineHandle, unfit: Api | None = None) -> None:
        """Search a request. `unfit` is the path's API if the body is no call of this API, otherwise None."""
        path = recognise.by_path(flow.request.path) if unfit is None else None
        settings = handle.settings
        if not settings.redact_secrets or not flow.request.raw_content or (path and path.passes):
            return
        if path is None and not destination.is_provider(flow, settings.hosts):
            return  # Local services may speak any protocol.
        if self._signing.forbids_changes(flow, flow.request.headers, unfit, settings):
            return
        unknown = path is None and unfit is None
        try:
            await self._search(flow, handle, unfit is not None, path is not None and path.files, unknown)
        except Exception as error:
            if not unknown or settings.unknown_paths != "pass":
                raise
            leave(flow, error)

    def must_search(self, flow: Flow, settings: Settings) -> bool:
        """Return whether a request that is no LLM call may be sent to an LLM host only after a search."""
        path = recognise.by_path(flow.request.path)
        if path is not None:
            return not path.passes
        return settings.unknown_paths != "pass" and destination.is_provider(flow, settings.hosts)

    async def frame(self, flow: Flow, frame: bytes, kind: str, *, known: bool, strict: bool) -> bytes:
        """Return a frame of a client's WebSocket without its secrets. Raises RedactionError. `kind` is the
        content type of the frame. `known` is true if the socket's path is known. `strict` is true if the
        socket accepts only JSON."""
        with self._handle() as handle:
            return await self._frame(flow, handle, frame, kind, known=known, strict=strict)

    async def _frame(
        self, flow: Flow, handle: EngineHandle, frame: bytes, kind: str, *, known: bool, strict: bool
    ) -> bytes:
        settings = handle.settings
        if not settings.redact_secrets:
            return frame
        try:
            if len(frame) > settings.max_body_bytes:
                raise TooLarge(f"a frame above {settings.max_body_bytes:,} bytes")
            searched = await self._searched(flow, Body(frame, kind, strict), handle)
        except Exception as error:
            if not settings.must_search or (not known and settings.unknown_paths == "pass"):
                return frame
            raise (
                error if isinstance(error, RedactionError) else RedactionError(errors.place(error))
            ) from None
        return self._to_send(flow, frame, searched, settings, known=known)

    async def _search(
        self, flow: Flow, handle: EngineHandle, strict: bool, files: bool, unknown: bool
    ) -> None:
        settings = handle.settings
        kind = flow.request.headers.get("content-type", "")
        why = ambiguity.content(flow.request.headers.items(multi=True))
        if why and not files:
            raise Unreadable(why)
        try:
            data = await bodies.decoded(flow.request, settings.max_body_bytes)
        except content_encoding.NotDecodable as error:
            too_large = isinstance(error, content_encoding.OverLimit)
            if too_large and files:
                return  # The body is a file, and a file may have any size, so the request is sent on.
            raise (TooLarge if too_large else Unreadable)(f"its body: {error}") from None
        searched = await self._searched(flow, Body(data, kind, strict, files), handle)
        body = self._to_send(flow, data, searched, settings, known=not unknown)
        if body is not data:
            await bodies.put(flow.request, body)
            sign(flow.request, settings)

    def _to_send(
        self, flow: Flow, data: bytes, searched: Searched, settings: Settings, *, known: bool
    ) -> bytes:
        """Return the body after a search. Raises Unreadable for an unknown path that the settings refuse."""
        changed, policy = searched.body is not data, settings.unknown_paths
        if not known and (changed or searched.results):
            self._warn(flow, policy)
            if policy == "refuse":
                raise Unreadable("its path is not known")
            if policy == "pass":
                return data
        if changed:
            self._report(flow, searched)
        return searched.body

    async def _searched(self, flow: Flow, body: Body, handle: EngineHandle) -> Searched:
        request, peer = flow.request, flow.client_conn.peername
        address, host = str(peer[0]) if peer else "", f"{destination.host(flow)}:{request.port}"
        scope = Credentials.of(host, address, headers_of(request), query_of(request)).scope(b"")
        caller = workers.WorkOwner(address, scope)
        return await handle.engine.search(body, handle.settings, caller)

    def _report(self, flow: Flow, searched: Searched) -> None:
        self._journal.redacted(searched.counts)
        flow.metadata["penumbra"] = {"api": "other", "changed": True}
        flow.comment = "Penumbra: secrets redacted"
        counts = ", ".join(f"{rule} {count}" for rule, count in sorted(searched.counts.items()))
        _log.info(
            f"Penumbra: {destination.shown(flow)}: redacted in a request that is no LLM call: "
            f"{counts or 'as before'}"
        )

    def _warn(self, flow: Flow, policy: str) -> None:
        """Warn about an unknown path, once for each host and kind of path. A kind of path has `*` in place of
        ids: parts that are long or contain digits, except versions such as `v1`."""
        pattern = "/".join(
            "*" if _VARIABLE.fullmatch(part) else part for part in normal(flow.request.path).split("/")
        )
        where = f"{destination.shown(flow)}{pattern}"[:200]
        if where in self._warned or len(self._warned) >= _MOST_WARNINGS:
            return
        self._warned.add(where)
        _log.warning(
            f"Penumbra does not know {where!r}, whose requests carry results of tools or secrets: "
            f"penumbra_unknown_paths={policy}."
        )


# Signed requests to Amazon: they stay unchanged, or are signed again with the client's own keys.

_MOST_HOSTS = 1_000
"""The greatest number of hosts with a warning."""


class Signing:
    """A `Signing` finds requests to Amazon that can't be changed because they are signed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._warned: set[str] = set()

    def forbids_changes(
        self, flow: Flow, headers: Mapping[str, str], api: Api | None, settings: Settings
    ) -> bool:
        """Return whether a signature forbids every change. If so, warn once for each host. Only Amazon reads
        such signatures."""
        request = flow.request
        if not sigv4.covers_body(headers) or not recognise.is_signed(destination.host(flow), api):
            return False
        keys = _keys(settings)
        if keys is not None and keys.made(_signable(request)):
            return False
        self._journal.passed("signed")
        host = one_line(request.host)
        if host not in self._warned and len(self._warned) < _MOST_HOSTS:
            self._warned.add(host)
            _log.warning(
                f"Penumbra leaves requests to {host} alone: they are signed. Use an API key, "
                "or penumbra_aws_signing=environment and the client's own keys."
            )
        return True


def sign(request: HttpRequest, settings: Settings, date: str = "") -> None:
    """Sign a changed request again, if the client signed the body and the keys are known. An empty `date`
    keeps the old date."""
    if sigv4.covers_body(request.headers) and (keys := _keys(settings)) is not None:
        request.headers.update(keys.sign(_signable(request), date))


def sign_now(request: HttpRequest, settings: Settings) -> None:
    """Sign a hidden request with the present date. The client's signature may be too old."""
    sign(request, settings, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))


def _keys(settings: Settings) -> sigv4.AwsKeys | None:
    key_id, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if settings.aws_signing != "environment" or not key_id or not secret:
        return None
    return sigv4.AwsKeys(key_id, secret)


def _signable(request: HttpRequest) -> sigv4.Signable:
    headers = {"host": request.pretty_host, **headers_of(request)}
    return sigv4.Signable(request.method, request.path, headers, request.raw_content or b"")
