"""The engine of a process turns the plain body of a request into the body that is sent.

`process` handles failures. `_accept` tries again with redaction alone, and `_send` tries again if the
store has changed. `_send_once` lists the steps.

If rewriting fails, secrets are removed and nothing else changes. If redaction raises, the request is not
sent. Large bodies are read and rewritten in a worker thread.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from cachetools import LRUCache
from msgspec import structs

from penumbra import errors
from penumbra.apis import session
from penumbra.compress.result import Mode, Redacted
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings
from penumbra.conversation import (
    adoption,
    cache_price,
    context_windows,
    late_declaration,
    provider_history,
    request_reader,
    result_text,
    rewrite,
    workers,
)
from penumbra.conversation.call_names import ShownTexts, call_name
from penumbra.conversation.compiled_rules import CompiledRules
from penumbra.conversation.decide import Inputs
from penumbra.conversation.incoming import Accepted, EngineSettings, Incoming, Refused, unsearched
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.model import Plan, Request, Rewritten, Shown
from penumbra.conversation.request_reader import RequestReader
from penumbra.conversation.result_text import Carried, comparing
from penumbra.conversation.workers import Turn
from penumbra.errors import RedactionError
from penumbra.expand.expansions import Expansions
from penumbra.expand.hidden_exchanges import Prepared
from penumbra.linear import utf8
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.redaction.other_bodies import Body, OtherBodies, Searched
from penumbra.redaction.redact_calls import Redact, ShowName
from penumbra.store import history
from penumbra.store.conversations import LearnedLimits
from penumbra.store.database import Database
from penumbra.store.exchanges import ProviderResult
from penumbra.store.key_file import installation_key
from penumbra.store.keyed_values import begun
from penumbra.store.records import ToolCallCache
from penumbra.store.stores import Stores

if TYPE_CHECKING:
    from penumbra.conversation.external_forms import ExternalForms
    from penumbra.conversation.restored_values import RestoredValues
    from penumbra.store.shared_store import SharedStore

_TRIES = 4
_BACKGROUND = workers.WorkOwner("", b"")
"""The owner of background work, for which no request waits."""
_PROJECTS = 4_096
_PROJECT_CHARACTERS = 32
_SEPARATORS = re.compile(r"[\\/]+")
_log = logging.getLogger(__name__)


class StoreAway(Exception):
    """A `StoreAway` is raised if the settings forbid requests without the store, which can't be reached."""


class _Unsettled(Exception):
    """An `_Unsettled` is raised if another proxy has decided about a text first, or if the store may have
    lost a decision."""


class Engine:
    """An `Engine` has the parts that the requests of a process share, such as the database and workers."""

    def __init__(
        self,
        settings: EngineSettings,
        metrics: ExternalMetrics | None = None,
        listening: Callable[[], Collection[int]] = tuple,
        database: Database | None = None,
        shared: SharedStore | None = None,
    ) -> None:
        """`metrics` count calls of external compressors. `listening` returns the ports of this process.
        `database` and `shared` are stores that another engine has already opened."""
        path = settings.database
        self.settings = settings
        if database is None:
            key = installation_key(path.with_suffix(".key") if path else None)
            database = Database(path, settings.database_max_bytes, key)
        else:
            database.share(settings.database_max_bytes)
        self.database = database
        self.shared = _shared(settings, shared)
        self._key = database.key if self.shared is None else self.shared.key
        self.stores = stores = Stores(database, settings.ledger_ttl, settings.originals_ttl, self.shared)
        self.history = stores.history
        self.tool_calls = ToolCallCache(stores.tool_calls, self.cleaned)
        self.expansions = Expansions(
            self._key, stores.exchanges, stores.originals, self.tool_calls, settings.page_bytes
        )
        database.begin()
        self._line_indexes = LineIndexes()
        self._shown_texts = ShownTexts()
        self._projects: LRUCache[bytes, str] = LRUCache(_PROJECTS)
        self._other_bodies = OtherBodies()
        self.workers = workers.Workers()
        self.rules = CompiledRules(self._key, settings, self.workers)
        self._external: ExternalForms | None = None
        self._metrics, self._listening = metrics, listening
        self.reader = RequestReader(
            self._key, stores, self.rules, self.tool_calls, self.expansions, lambda: self._restored
        )

    @cached_property
    def _restored(self) -> RestoredValues:
        from penumbra.conversation.restored_values import RestoredValues

        return RestoredValues(self.stores, self.rules.redactor)

    def close(self) -> None:
        """Finish the work in progress, and close the workers and stores."""
        if self._external is not None:
            self._external.close()
        self.workers.close()
        if self.shared is not None:
            self.shared.close()
        self.database.close()

    def forget(self) -> None:
        """Empty the database except for the history, which has no content."""
        self.database.forget({history.TABLE})

    # The steps of a request, in order

    async def process(self, incoming: Incoming, settings: Settings) -> Accepted | Refused | None:
        """Return the request that is sent, or its refusal; None if the body is sent unchanged."""
        started = time.perf_counter()
        try:
            accepted = await self._accept(incoming, settings, self._turn(incoming))
        except request_reader.ThreadRefused as error:
            return Refused(400, error.body, str(error))
        except OverrideError as error:
            return Refused(400, incoming.api.wire.error(400, str(error)), str(error))
        except StoreAway:
            reason = "Penumbra can't reach its store"
            return Refused(503, incoming.api.wire.error(503, reason), reason)
        except RedactionError as error:
            return unsearched(incoming.api, error)
        if accepted is None:
            return None
        request, restoration = accepted.request, None
        if incoming.api.kind == "messages" and request.settings.restores_secrets:
            restoration = await self._restored.of_response(request, accepted.rewritten.shown)
        request.document.release()
        milliseconds = (time.perf_counter() - started) * 1000
        return structs.replace(accepted, restoration=restoration, milliseconds=milliseconds)

    async def _accept(self, incoming: Incoming, settings: Settings, turn: Turn) -> Accepted | None:
        failure = ""
        for redacts_only in (False, True):
            if redacts_only:
                _log.warning("Penumbra goes on with redaction alone: %s", failure)
                settings = replace(settings, mode=Mode.DISABLED, dedup=False, enable_expand_context=False)
            try:
                return await self._send(incoming, settings, turn)
            except (OverrideError, RedactionError, StoreAway):
                raise
            except Exception as error:
                failure = errors.place(error)
        if settings.must_search:
            raise RedactionError(failure)
        return None

    async def _send(
        self, incoming: Incoming, settings: Settings, turn: Turn, retry: Plan | None = None
    ) -> Accepted | None:
        """Take a request through the steps. Repeat the steps if the store failed or another proxy decided
        first. The last repetition uses the forms that the request would get without a store. `retry` has the
        new forms for a refused request. Raises StoreAway, RuntimeError if all repetitions fail, and the
        exceptions of the steps."""
        refuses = settings.store_away == "refuse"
        for attempt in range(_TRIES):
            failures, whole = self.stores.failures, self.stores.is_whole and attempt < _TRIES - 1
            if refuses and self.stores.is_away:
                raise StoreAway
            usable = settings if whole else settings.recomputable()
            try:
                accepted = await self._send_once(incoming, usable, turn, retry, is_recorded=whole)
            except _Unsettled:
                continue
            if failures == self.stores.failures or not (whole or refuses):
                return accepted
        if refuses:
            raise StoreAway
        raise RuntimeError("the store says something else each time")

    async def _send_once(
        self, incoming: Incoming, settings: Settings, turn: Turn, retry: Plan | None, *, is_recorded: bool
    ) -> Accepted | None:
        """Take the steps of a request once. `is_recorded` is true if decisions are kept. Raises
        _Unsettled, and the exceptions of the steps."""
        inputs = await self.reader.read(incoming, settings, turn, is_recorded=is_recorded)
        if inputs is None:
            return None
        inputs = inputs.learned(retry.limits) if retry is not None else inputs
        inputs = structs.replace(inputs, waits=late_declaration.may_wait(incoming, inputs))
        watched = await self._prepare(incoming, inputs, turn)
        prepared = watched if watched is not None and watched.is_offered else None
        betas = self._without_unbound(incoming, inputs, watched)
        inputs = await self._completed(incoming, inputs, prepared, turn)
        if retry is not None and retry.limits.tools_first and prepared is None:
            inputs = structs.replace(inputs, is_withdrawn=True)
        compose = partial(rewrite.compose, inputs, retry, self._line_indexes)
        rewritten, line = await turn.go_on(compose, heavy=inputs.is_heavy)
        accepted = self._accepted(inputs, rewritten, prepared, betas, line)
        if incoming.api.kind != "messages":
            return accepted
        if watched is not None:
            accepted = await self._watched(accepted, inputs, watched, turn)
        await self._record(accepted, inputs, prepared, retry)
        return accepted

    async def _prepare(self, incoming: Incoming, inputs: Inputs, turn: Turn) -> Prepared | None:
        """Put the injected tool and hidden exchanges into the request. Return None if the model can't call
        the tool."""
        request, responses = inputs.request, inputs.responses
        if responses is None:
            return None
        conditions = await turn.go_on(
            partial(late_declaration.conditions, incoming, inputs), heavy=inputs.is_heavy and inputs.waits
        )
        saved = request.document.saved()
        try:
            return await self.expansions.prepare(responses, request.document, conditions, request.chain)
        except Exception as error:
            _log.error("penumbra: no originals can be asked for in a request: %s", errors.place(error))
            request.document.restore(saved)
            return None

    def _without_unbound(self, incoming: Incoming, inputs: Inputs, prepared: Prepared | None) -> str:
        """If `limits.drop` is true, drop reasoning whose prefix has changed. Return the new value of the
        header `anthropic-beta`; empty if the header stays."""
        document = inputs.request.document
        if not (inputs.state.limits.drop and adoption.may_drop(incoming.api.format, document)):
            return ""
        dropped = prepared is not None and prepared.replayed.dropped
        return adoption.drop(document, incoming.headers, incoming.host.rpartition(":")[0], dropped)

    async def _completed(
        self, incoming: Incoming, inputs: Inputs, prepared: Prepared | None, turn: Turn
    ) -> Inputs:
        """Return the inputs with the provider's history and the forms that external compressors give. Raises
        OverrideError, RedactionError."""
        request, past = inputs.request, inputs.past
        credential = b"" if request.caller.is_open else turn.caller.credential
        scope = self.rules.values.version(credential) if inputs.is_recorded else b""
        inputs = structs.replace(
            inputs,
            provider_results=provider_history.results_before(request, prepared),
            references=comparing(prepared.references, request, past, inputs.redact) if prepared else None,
            show=await self.rules.show(),
            # If secret values are put back, names depend on the conversation.
            shown=None if request.settings.restores_secrets else partial(self._shown_texts.shown, scope),
            is_ours=partial(self.rules.values.has_made, credential) if inputs.is_recorded else None,
        )
        if incoming.api.kind != "messages" or not request.settings.external_strategy:
            return inputs
        if self._external is None:
            from penumbra.conversation.external_forms import ExternalForms

            self._external = ExternalForms(self._key, self.stores, self._metrics, self._listening)
        external = await self._external.forms(incoming, inputs, turn.do)
        if external:
            # Another request may have decided while the compressors were at work.
            past = {**past, **await self.stores.decisions.get(external)}
        return structs.replace(inputs, past=past, external=external)

    def _accepted(
        self, inputs: Inputs, rewritten: Rewritten, prepared: Prepared | None, betas: str, line: str
    ) -> Accepted:
        """Return the request that is sent, with the facts that are needed to read the response."""
        request, conversation = inputs.request, inputs.request.caller.conversation
        limits = inputs.state.limits
        new, outside = rewritten.decisions, inputs.outside.decisions
        declares = prepared is not None and not prepared.declared_at and prepared.begins
        declares = declares and (inputs.waits or inputs.is_cold)
        cold_turn = None
        if inputs.is_cold:
            cold_turn = cache_price.cold_turn(request, new.keys() & inputs.past.keys(), declares=declares)
        return Accepted(
            request,
            structs.replace(rewritten, decisions={**outside, **new}) if outside else rewritten,
            0.0,
            decided={**inputs.past, **outside, **new},
            line="; ".join(filter(None, (late_declaration.LINE if declares else "", line))),
            cold_turn=cold_turn,
            hidden=inputs.outside.counts,
            betas=betas,
            usage_scale=context_windows.usage_scale_of_request(request, rewritten, limits),
            bounds=context_windows.bounds(
                limits,
                context_windows.of_request(request),
                again=request.settings.recover == "auto",
                learn=partial(self.stores.conversations.learn, conversation),
            ),
            model=inputs.show(request.conversation.model),
            show=inputs.show,
            project=self._project(conversation, request, inputs.show),
        )

    def _project(self, conversation: bytes, request: Request, show: ShowName) -> str:
        """Return a name for the conversation's folder, such as `shop (3f2a)`; empty if no request has
        named a folder."""
        if folder := session.stated(request.wire.prompt(request.document), request.document):
            last = _SEPARATORS.split(folder.rstrip("\\/"))[-1]
            digest = hashlib.blake2b(utf8(folder), key=self._key[:64], digest_size=2, person=b"project")
            name = f"{show(last)[:_PROJECT_CHARACTERS] or '/'} ({digest.hexdigest()})"
            self._projects[conversation] = name
        return self._projects.get(conversation, "")

    async def _watched(self, accepted: Accepted, inputs: Inputs, prepared: Prepared, turn: Turn) -> Accepted:
        """Return the request with functions that find the originals for which the model asks. Originals in
        the request itself are found without the store."""
        request, rewritten = accepted.request, accepted.rewritten
        results: tuple[ProviderResult, ...] = ()
        if prepared.threaded:
            name = partial(call_name, clean=inputs.clean, show=inputs.show, remembered=inputs.shown)
            before = inputs.provider_results
            after = partial(provider_history.results_after, request, rewritten, before, name)
            results = await turn.go_on(after, heavy=inputs.is_heavy)
        carried = Carried(request, rewritten, inputs.redact, turn.do)
        inherit = None
        if prepared.earlier or carried.shows_earlier:
            inherit = partial(carried.inherited, self.stores.conversations, self.expansions.renew)
        prepared = structs.replace(prepared, provider_results=results, show=inputs.show, inherit=inherit)
        return structs.replace(accepted, prepared=prepared, find=carried.find)

    async def _record(
        self, accepted: Accepted, inputs: Inputs, prepared: Prepared | None, retry: Plan | None
    ) -> None:
        """Record decisions as final. Decisions of a retry are recorded later, when the provider has accepted
        the retry. Raises _Unsettled."""
        conversations, request = self.stores.conversations, accepted.request
        planned = retry.decisions if retry is not None else {}
        new = {key: made for key, made in accepted.rewritten.decisions.items() if key not in planned}
        over = new.keys() & inputs.past.keys()
        tool = prepared.tool if prepared else ""
        # All writes take one round trip. If another proxy has decided first, `_send` repeats them all.
        settled = begun(self.stores.decisions.settle(new, over, unasked=not inputs.is_recorded))
        sent = conversations.sent(
            accepted.conversation,
            tool,
            start=rewrite.start(request),
            is_new=inputs.state.idle is None,
            waits=inputs.waits and not tool,
            revised=bool(over),
            life=inputs.cold,
        )
        for write in (begun(sent), begun(self.expansions.keep(prepared, accepted.rewritten.originals))):
            await write
        if not await settled:
            raise _Unsettled
        if request.settings.tool_compaction.arguments and not inputs.state.limits.arguments:
            await conversations.learn(accepted.conversation, LearnedLimits(arguments=True))

    # After a response

    async def retry(
        self,
        incoming: Incoming,
        settings: Settings,
        sent: Accepted,
        change: Callable[[Redact], Plan | bytes | None],
    ) -> Accepted | None:
        """Return a request that replaces a refused request; None if no other request would help. `change`
        runs outside of the event loop, and returns new forms of results, a whole body, or None. Raises
        RedactionError and the exceptions of `_send`."""
        redact = await self.rules.redact(settings.redaction_failure)
        turn = self._turn(incoming)
        changed = await turn.do(partial(change, redact))
        if changed is None:
            return None
        if isinstance(changed, bytes):
            prepared = sent.prepared and structs.replace(sent.prepared, provider_results=())
            cut = structs.replace(sent.rewritten, body=changed, is_cut=True)
            return structs.replace(sent, rewritten=cut, prepared=prepared, plan=None)
        plan = sent.plan.plus(changed) if sent.plan else changed
        accepted = await self._send(incoming, settings, turn, plan)
        return None if accepted is None else structs.replace(accepted, plan=plan)

    async def settle(self, accepted: Accepted) -> None:
        """Record the forms of a retry's results, after the provider has accepted the retry."""
        if (plan := accepted.plan) is None:
            return
        sent = accepted.rewritten.decisions
        await self.stores.decisions.put({key: sent.get(key, made) for key, made in plan.decisions.items()})
        await self.expansions.keep(accepted.prepared, plan.originals)
        await self.stores.conversations.learn(accepted.conversation, plan.limits)

    # Other texts

    async def search(self, body: Body, settings: Settings, caller: workers.WorkOwner) -> Searched:
        """Return a body without its secrets, for a request that is not an LLM call. Raises RedactionError."""
        by_rules, values = await self.rules.redact(settings.redaction_failure), self.rules.values

        def redact(text: str, hint: str) -> Redacted:
            found = by_rules(text, hint)
            return values.without(caller.credential, found.text, found.counts)

        search = partial(
            self._other_bodies.search,
            body,
            redact,
            with_calls=settings.redact_scope == "all",
            policy=settings.redaction_failure,
            scope=caller.credential or utf8(caller.peer),
        )
        size = len(body.data)
        return await Turn(self.workers, caller, size).do(search, heavy=size > settings.offload_bytes)

    async def shown_texts(self, accepted: Accepted, entry: Shown) -> tuple[str, str]:
        """Return the original and the sent form of a result, without secrets. Raises RedactionError."""
        redact = (await self.rules.redactor()).redact
        pair = partial(result_text.pair, accepted.request, entry.item, accepted.sent(entry), redact)
        return await self.workers.run(_BACKGROUND, pair)

    async def cleaned(self, text: str) -> str:
        """Return a text without secrets, for the store. Raises RedactionError."""
        redact = await self.rules.redact(self.settings.redaction_failure)
        turn = Turn(self.workers, _BACKGROUND, len(text))
        return (await turn.do(lambda: redact(text, ""), heavy=len(text) > self.settings.offload_bytes)).text

    def _turn(self, incoming: Incoming) -> Turn:
        """Return the `Turn` of a request. Requests with the same address and credentials share a queue."""
        owner = workers.WorkOwner(incoming.peer, incoming.credentials.scope(b""))
        return Turn(self.workers, owner, len(incoming.body))


def _shared(settings: EngineSettings, there: SharedStore | None) -> SharedStore | None:
    """Return the store that several proxies share, or None. `there` is that store if it is already open."""
    if there is not None:
        there.share()
        return there
    if settings.shared is None:
        return None
    from penumbra.store.shared_store import SharedStore

    made = SharedStore(settings.shared)
    made.begin()
    return made
