"""Requests that are no LLM calls, or do not look like one: their secrets are taken
out, where some can stand there, and nothing else is done.

What is known to need its bytes passes: logins, keys, files and the like. Of a path that nobody knows, the
setting `unknown_paths` says what becomes, and the log says it once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from mitmproxy import http

from penumbra import errors
from penumbra.apis import identity, recognise
from penumbra.apis.recognise import Api
from penumbra.config.settings import Settings
from penumbra.conversation import ambiguity, workers
from penumbra.flow import destination, request_bodies
from penumbra.flow.engines import Lease
from penumbra.flow.refusal import leave
from penumbra.flow.signing import Signing, headers_of, sign
from penumbra.metrics.journal import Journal
from penumbra.redaction import RedactionError, TooLarge, Unreadable
from penumbra.redaction.other_bodies import Body, Searched
from penumbra.wire import content_encoding
from penumbra.wire.request_path import normal

_VARIABLE = re.compile(r"(?!v[0-9]{1,3}[a-z0-9]{0,8}$)[^/]*[0-9][^/]*|[^/]{25,}")
_MOST_WARNINGS = 1_000
_log = logging.getLogger(__name__)


class OtherRequests:
    """State: which paths have been warned of."""

    def __init__(self, lease: Callable[[], Lease], signing: Signing, journal: Journal) -> None:
        """`lease`: what a frame that comes now is searched with."""
        self._lease = lease
        self._signing = signing
        self._journal = journal
        self._warned: set[str] = set()

    async def request(self, flow: http.HTTPFlow, lease: Lease, unfit: Api | None = None) -> None:
        """`unfit`: by its path the request is this API's, but its body is no call of it."""
        path = recognise.by_path(flow.request.path) if unfit is None else None
        settings = lease.settings
        if not settings.redact_secrets or not flow.request.raw_content or (path and path.passes):
            return
        if path is None and not destination.is_provider(flow, settings.hosts):
            return  # What runs locally may be anything.
        if self._signing.forbids_changes(flow, unfit, settings):
            return
        unknown = path is None and unfit is None
        try:
            await self._search(flow, lease, unfit is not None, path is not None and path.files, unknown)
        except Exception as error:
            if not unknown or settings.unknown_paths != "pass":
                raise
            leave(flow, error)

    def must_search(self, flow: http.HTTPFlow, settings: Settings) -> bool:
        """Return whether a request at a host of LLM calls that is none may go on only if it was searched."""
        path = recognise.by_path(flow.request.path)
        if path is not None:
            return not path.passes
        return settings.unknown_paths != "pass" and destination.is_provider(flow, settings.hosts)

    async def frame(
        self, flow: http.HTTPFlow, frame: bytes, kind: str, *, known: bool, strict: bool
    ) -> bytes:
        """A frame of a client's WebSocket as it may be sent. Raises RedactionError.

        `kind`: as a content type; `known`: the socket is; `strict`: nothing but JSON makes sense there.
        """
        with self._lease() as lease:
            return await self._frame(flow, lease, frame, kind, known=known, strict=strict)

    async def _frame(
        self, flow: http.HTTPFlow, lease: Lease, frame: bytes, kind: str, *, known: bool, strict: bool
    ) -> bytes:
        settings = lease.settings
        if not settings.redact_secrets:
            return frame
        passes = not known and settings.unknown_paths == "pass"
        try:
            if len(frame) > settings.max_body_bytes:
                raise TooLarge(f"a frame above {settings.max_body_bytes:,} bytes")
            searched = await self._searched(flow, Body(frame, kind, strict), lease)
        except Exception as error:
            if passes or not settings.must_search:
                return frame
            raise (
                error if isinstance(error, RedactionError) else RedactionError(errors.place(error))
            ) from None
        if not known and (searched.body is not frame or searched.results):
            self._warn(flow, settings.unknown_paths)
            if settings.unknown_paths == "refuse":
                raise Unreadable("its path is not known")
        if passes or searched.body is frame:
            return frame
        self._report(flow, searched)
        return searched.body

    async def _search(
        self, flow: http.HTTPFlow, lease: Lease, strict: bool, files: bool, unknown: bool
    ) -> None:
        settings = lease.settings
        kind = flow.request.headers.get("content-type", "")
        why = ambiguity.content(flow.request.headers.items(multi=True))
        if why and not files:
            raise Unreadable(why)
        try:
            data = await request_bodies.decoded(flow.request, settings.max_body_bytes)
        except content_encoding.NotDecodable as error:
            too_large = isinstance(error, content_encoding.TooLarge)
            if too_large and files:
                return  # As large as any file.
            raise (TooLarge if too_large else Unreadable)(f"its body: {error}") from None
        searched = await self._searched(flow, Body(data, kind, strict, files), lease)
        changed = searched.body is not data
        if unknown and (changed or searched.results):
            self._warn(flow, settings.unknown_paths)
            if settings.unknown_paths == "pass":
                return
            if settings.unknown_paths == "refuse":
                raise Unreadable("its path is not known")
        if changed:
            await request_bodies.put(flow.request, searched.body)
            sign(flow.request, settings)
            self._report(flow, searched)

    async def _searched(self, flow: http.HTTPFlow, body: Body, lease: Lease) -> Searched:
        request, peer = flow.request, flow.client_conn.peername
        address, host = str(peer[0]) if peer else "", f"{destination.host(flow)}:{request.port}"
        scope = identity.scope(b"", host, address, headers_of(request), request.query)
        caller = workers.Caller(address, scope)
        return await lease.engine.search(body, lease.settings, caller)

    def _report(self, flow: http.HTTPFlow, searched: Searched) -> None:
        self._journal.redacted(searched.counts)
        flow.metadata["penumbra"] = {"api": "other", "changed": True}
        flow.comment = "Penumbra: secrets redacted"
        counts = ", ".join(f"{rule} {count}" for rule, count in sorted(searched.counts.items()))
        _log.info(
            f"Penumbra: {destination.shown(flow)}: redacted in another request: {counts or 'as before'}"
        )

    def _warn(self, flow: http.HTTPFlow, policy: str) -> None:
        """Once for each host and kind of path: names that are long or hold digits are taken for ids."""
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
