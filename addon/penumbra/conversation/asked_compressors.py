"""External compressors, made when a first request wants one asked: what is off by default is not imported
until it is switched on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from penumbra import errors
from penumbra.apis import identity
from penumbra.compress.result import Asked
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.conversation.incoming import Incoming
from penumbra.conversation.model import Request
from penumbra.errors import RedactionError
from penumbra.expand.reference import References
from penumbra.metrics.totals import ExternalMetrics
from penumbra.redaction.shown_names import ShowName
from penumbra.redaction.unsearchable import Redact
from penumbra.store.decisions import Decision
from penumbra.store.stores import Stores

if TYPE_CHECKING:
    from penumbra.external.dispatch import Work
    from penumbra.external.selection import ExternalCompressors
    from penumbra.external.strategy import Credential

_log = logging.getLogger(__name__)


class AskedCompressors:
    """State: those that were made."""

    def __init__(
        self,
        key: bytes,
        stores: Stores,
        settings: EngineSettings,
        metrics: ExternalMetrics | None,
        listening: Callable[[], Collection[int]],
    ) -> None:
        """`metrics` count what they do; `listening` tells the ports of this process."""
        self._key, self._stores, self._settings = key, stores, settings
        self._metrics, self._listening = metrics, listening
        self._made: ExternalCompressors | None = None

    def close(self) -> None:
        """There will be no more requests."""
        if self._made is not None:
            self._made.close()

    async def forms(
        self,
        incoming: Incoming,
        request: Request,
        past: Mapping[bytes, Decision],
        redact: Redact,
        references: References | None,
        work: Work,
        show: ShowName,
    ) -> dict[bytes, Asked]:
        """What comes of asking about new results, where the settings want that. Raises RedactionError."""
        if incoming.api.kind != "messages" or not request.settings.external_strategy:
            return {}
        try:
            from penumbra.conversation import external_forms

            credential = self._credential(incoming, request)
            return await external_forms.forms(
                self._compressors(), request, past, redact, references, credential, work, show
            )
        except RedactionError:
            raise
        except Exception as error:
            _log.warning("Penumbra asks nobody about a request's results: %s", errors.place(error))
            return {}

    def _credential(self, incoming: Incoming, request: Request) -> Credential | None:
        """What the request is authorised with, where an external compressor may use it."""
        from penumbra.external.strategy import Credential

        if not request.settings.allow_captured_credentials:
            return None
        headers = identity.credential_headers(incoming.headers)
        return Credential(incoming.host, headers, request.scope) if headers else None

    def _compressors(self) -> ExternalCompressors:
        if self._made is None:
            from penumbra.external.dispatch import Dispatcher, of_process
            from penumbra.external.http import Http
            from penumbra.external.selection import ExternalCompressors

            shared = of_process(self._settings.calls_at_once, self._settings.calls_per_second)
            dispatcher = Dispatcher(self._key, self._stores.compressed, self._metrics, shared)
            self._made = ExternalCompressors(dispatcher, Http(self._listening))
        return self._made
