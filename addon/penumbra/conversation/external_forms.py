"""This module gets forms of new results from external compressors, which are off by default."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from penumbra import errors
from penumbra.apis import identity
from penumbra.compress.result import Asked
from penumbra.conversation import cache_price, result_text
from penumbra.conversation.decide import Inputs
from penumbra.conversation.incoming import EngineSettings, Incoming
from penumbra.conversation.model import Request
from penumbra.conversation.rewrite import undecided
from penumbra.errors import RedactionError
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.store.stores import Stores

if TYPE_CHECKING:
    from penumbra.external.compressors import ExternalCompressors, OpenResult
    from penumbra.external.dispatch import Reader, Work


_log = logging.getLogger(__name__)


class AskedCompressors:
    """An `AskedCompressors` makes the external compressors of one engine when they are first used."""

    def __init__(
        self,
        key: bytes,
        stores: Stores,
        settings: EngineSettings,
        metrics: ExternalMetrics | None,
        listening: Callable[[], Collection[int]],
    ) -> None:
        """`metrics` count calls. `listening` returns the ports of this process."""
        self._key, self._stores, self._settings = key, stores, settings
        self._metrics, self._listening = metrics, listening
        self._made: ExternalCompressors | None = None

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    async def forms(self, incoming: Incoming, inputs: Inputs, work: Work) -> dict[bytes, Asked]:
        """Return new results' forms by key; empty without a working compressor. Raises RedactionError."""
        if incoming.api.kind != "messages" or not inputs.request.settings.external_strategy:
            return {}
        try:
            return await self._forms(incoming, inputs, work)
        except RedactionError:
            raise
        except Exception as error:
            _log.warning("Penumbra asks no external compressor about a request: %s", errors.place(error))
            return {}

    async def _forms(self, incoming: Incoming, inputs: Inputs, work: Work) -> dict[bytes, Asked]:
        from penumbra.external.compressors import Asking, OpenResult, question
        from penumbra.external.strategies import Credential

        request, redact, settings = inputs.request, inputs.redact, inputs.request.settings

        def asked() -> str:
            text = question(request.document, request.conversation.messages)
            return redact(text, "").text if text and settings.redact_secrets else text

        def results() -> Iterator[OpenResult]:
            for item in undecided(request, inputs.past):
                output = result_text.tool_output(request, item)
                yield OpenResult(item.key, output, result_text.cleaner(request, item, output, redact))

        credential: Credential | None = None
        headers = identity.credential_headers(incoming.headers)
        if settings.allow_captured_credentials and headers:
            credential = Credential(incoming.host, headers, request.scope)
        reader = _reader(request)
        asking = Asking(
            settings, request.scope, asked, reader, inputs.references, credential, work, inputs.show
        )
        return await self._compressors().forms(asking, results)

    def _compressors(self) -> ExternalCompressors:
        if self._made is None:
            from penumbra.external.compressors import ExternalCompressors
            from penumbra.external.dispatch import PROCESS, Dispatcher
            from penumbra.external.strategies import Http

            dispatcher = Dispatcher(self._key, self._stores.compressed, self._metrics, PROCESS)
            self._made = ExternalCompressors(dispatcher, Http(self._listening))
        return self._made


def _reader(request: Request) -> Reader:
    """Return the model that reads the results, with the prices of the model's cache if known."""
    from penumbra.external.dispatch import Reader

    model = request.conversation.model
    try:
        price = cache_price.of_request(request.api.format, model, request.document)
    except KeyError:
        return Reader(model)
    return Reader(model, price.read, price.write)
