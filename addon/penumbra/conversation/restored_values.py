"""Values that are put back into edits, in a request and its response: off by default, and not imported until
it is switched on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penumbra import errors
from penumbra.conversation import callers
from penumbra.conversation.compiled_rules import CompiledRules
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.model import Request
from penumbra.expand.reference import Caller
from penumbra.redaction.unsearchable import Redact
from penumbra.store.stores import Stores

if TYPE_CHECKING:
    from penumbra.redaction.restore.restoration import Restoration, Restoring

_log = logging.getLogger(__name__)


class RestoredValues:
    """State: what is remembered of them in one process."""

    def __init__(self, stores: Stores, rules: CompiledRules) -> None:
        self._stores, self._rules = stores, rules
        self._made: Restoring | None = None

    async def conceal(self, incoming: Incoming, request: Request) -> bool:
        """Put placeholders where values were put back into earlier responses; whether there were any."""
        on = request.settings.restores_secrets
        if not on and await self._stores.restorations.is_empty():
            return False
        scan = await self._rules.scan() if on else None
        conversation = callers.caller(incoming, request).possessed()
        return await self._restoring().conceal(request, conversation, scan)

    def redacting(self, request: Request, caller: Caller, redact: Redact) -> Redact:
        """`redact`, after which values that are put back are gone everywhere else."""
        if not request.settings.restores_secrets:
            return redact
        return self._restoring().redacting(request, caller.possessed(), redact)

    async def of_response(self, incoming: Incoming, accepted: Accepted) -> Restoration | None:
        """What may be put back into the response to a request."""
        request = accepted.request
        if incoming.api.kind != "messages" or not request.settings.restores_secrets:
            return None
        try:
            restoring = self._restoring()
            decided = [(shown.item, shown.facts) for shown in accepted.rewritten.shown]
            conversation = callers.caller(incoming, request).possessed()
            restoring.learn(request, conversation, decided, await self._rules.scan())
            return restoring.of_response(request, conversation)
        except Exception as error:
            _log.warning("Penumbra puts nothing back into a response: %s", errors.place(error))
            return None

    def _restoring(self) -> Restoring:
        if self._made is None:
            from penumbra.redaction.restore.restoration import Restoring

            self._made = Restoring(self._stores.restorations, self._stores.decisions)
        return self._made
