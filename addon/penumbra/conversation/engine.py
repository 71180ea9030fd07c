"""One request from its plain body to what is sent: reading, looking up, rewriting, remembering.

No mitmproxy here. The event loop only waits: the database has a thread of its own, and bodies above
a threshold are read and rewritten in a worker thread. Redaction fails closed, everything else open:
when rewriting fails, the request goes on with redaction alone, and without that not at all.

A request's way (`_send`) leads downwards, over one document that is read once and rendered once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penumbra import errors
from penumbra.apis import session
from penumbra.apis.recognise import claims_json, model_in
from penumbra.compress.result import Mode
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings
from penumbra.conversation import (
    ambiguity,
    bound_thinking,
    callers,
    compose,
    held_results,
    holdout,
    injected_tool,
    message_threads,
    read,
    room,
    shown_texts,
    usage_scale,
    workers,
)
from penumbra.conversation.asked_compressors import AskedCompressors
from penumbra.conversation.call_names import ShownTexts
from penumbra.conversation.carried_originals import Carried
from penumbra.conversation.compiled_rules import CompiledRules
from penumbra.conversation.decide import Inputs
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.model import Plan, Request, Shown
from penumbra.conversation.projects import Projects
from penumbra.conversation.refused import Refused, unsearched
from penumbra.errors import RedactionError, Unreadable
from penumbra.expand.caller import Caller
from penumbra.expand.expansions import Expansions
from penumbra.expand.prepared import Prepared
from penumbra.metrics.external_calls import ExternalMetrics
from penumbra.redaction.other_bodies import Body, OtherBodies, Searched
from penumbra.redaction.outside_results import OutsideResults
from penumbra.redaction.unsearchable import Redact
from penumbra.store import history, trial
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.database import Database
from penumbra.store.decisions import Decision
from penumbra.store.key_file import installation_key
from penumbra.store.stores import Stores
from penumbra.store.tool_calls import ToolCallCache
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson
from penumbra.wire.value_memory import ValueMemory

if TYPE_CHECKING:
    from penumbra.redaction.restore.restoration import Restoration, Restoring
    from penumbra.store.shared_store import SharedStore

T = TypeVar("T")


class StoreAway(Exception):
    """The store can't be reached, and the operator wants no request sent then."""


class _Unsettled:
    """Not all that was decided holds."""


_UNSETTLED = _Unsettled()
_TRIES = 4
_OURS = workers.Caller("", b"")
"""Work that no caller waits for."""
_log = logging.getLogger(__name__)


class Engine:
    """The state behind all requests of one process: key, database, redactor, workers."""

    def __init__(
        self,
        settings: EngineSettings,
        metrics: ExternalMetrics | None = None,
        listening: Callable[[], Collection[int]] = tuple,
        database: Database | None = None,
        shared: SharedStore | None = None,
    ) -> None:
        """`metrics` count what external compressors do; `listening` tells the ports of this process;
        `database`, `shared`: those that another engine has open at the same places."""
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
        self._stores = stores = Stores(database, *settings.lifetimes, self.shared)
        self.history, self.trial = stores.history, stores.trial
        self.tool_calls = ToolCallCache(stores.tool_calls, self.cleaned)
        self.expansions = Expansions(
            self._key, stores.exchanges, stores.originals, self.tool_calls, settings.page_bytes
        )
        database.begin()
        self._values: ValueMemory | None = ValueMemory()
        """Of messages; None: each is read again in every turn."""
        self._line_indexes = LineIndexes()
        self._shown_texts = ShownTexts()
        self._projects = Projects(self._key)
        self._outside_results = OutsideResults()
        self._other_bodies = OtherBodies()
        self._restoring: Restoring | None = None
        self._workers = workers.Workers()
        self.rules = CompiledRules(self._key, settings, self._workers)
        self._compressors = AskedCompressors(self._key, stores, settings, metrics, listening)

    def close(self) -> None:
        """Finish and close everything."""
        self._compressors.close()
        self._workers.close()
        if self.shared is not None:
            self.shared.close()
        self.database.close()

    def forget(self) -> None:
        """Empty the database, but for what has no content: the history, also of compared conversations."""
        self.database.forget({history.TABLE, trial.TABLE})

    # What others ask

    async def process(self, incoming: Incoming, settings: Settings) -> Accepted | Refused | None:
        """What becomes of a request; None: it is no request of this API after all, leave it alone."""
        started = time.perf_counter()
        try:
            accepted = await self._accept(incoming, settings)
        except message_threads.ThreadRefused as error:
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
        accepted = replace(accepted, restoration=await self._restoration(incoming, accepted))
        return replace(accepted, milliseconds=(time.perf_counter() - started) * 1000)

    async def retry(
        self,
        incoming: Incoming,
        settings: Settings,
        sent: Accepted,
        change: Callable[[Redact], Plan | bytes | None],
    ) -> Accepted | None:
        """Another request instead of one that was refused; None: nothing would help.

        `change` says, away from the event loop, what becomes of it: other forms of its results, or a whole
        body. Raises RedactionError.
        """
        redact = await self.rules.redact(settings.redaction_failure)
        changed = await self._work(callers.whose_turn(incoming), True, partial(change, redact))
        if changed is None:
            return None
        if isinstance(changed, bytes):
            prepared = sent.prepared and replace(sent.prepared, held=())
            cut = replace(sent.rewritten, body=changed, is_cut=True)
            return replace(sent, rewritten=cut, prepared=prepared, plan=None)
        plan = sent.plan.plus(changed) if sent.plan else changed
        accepted = await self._send(incoming, settings, plan)
        return None if accepted is None else replace(accepted, plan=plan)

    async def settle(self, accepted: Accepted) -> None:
        """The provider took the other request: from now on this is the form of its results."""
        if (plan := accepted.plan) is None:
            return
        await self._stores.decisions.put(plan.decisions)
        if accepted.prepared is not None:
            await self.expansions.keep(accepted.prepared, plan.originals)
        await self._stores.conversations.learn(accepted.conversation, plan.limits)

    async def search(self, body: Body, settings: Settings, caller: workers.Caller) -> Searched:
        """A body that is no LLM call, as it may be sent. Raises RedactionError."""
        redact = await self.rules.redact(settings.redaction_failure)
        search = partial(
            self._other_bodies.search,
            body,
            redact,
            said=settings.redact_scope == "all",
            policy=settings.redaction_failure,
            scope=caller.credential or caller.peer.encode(),
        )
        return await self._work(caller, len(body.data) > settings.offload_bytes, search)

    async def shown_texts(self, accepted: Accepted, entry: Shown) -> tuple[str, str]:
        """A result of a request before and after, without secrets. Raises RedactionError."""
        redactor = await self.rules.redactor()
        return await self._workers.run(_OURS, partial(shown_texts.pair, accepted, entry, redactor.redact))

    # A request's way

    async def _accept(self, incoming: Incoming, settings: Settings) -> Accepted | None:
        try:
            return await self._send(incoming, settings)
        except (OverrideError, RedactionError, StoreAway):
            raise
        except Exception as error:
            _log.warning("Penumbra goes on with redaction alone: %s", errors.place(error))
        try:
            return await self._send(
                incoming, replace(settings, mode=Mode.DISABLED, dedup=False, enable_expand_context=False)
            )
        except (OverrideError, RedactionError, StoreAway):
            raise
        except Exception as error:
            if settings.must_search:
                raise RedactionError(errors.place(error)) from None
            return None

    async def _send(
        self, incoming: Incoming, settings: Settings, retry: Plan | None = None
    ) -> Accepted | None:
        """`retry`: the request was refused, and these forms are not to be recorded yet.

        What the store did not say, or what another proxy has decided meanwhile, is looked up again. After
        some times it is sent as if there were no store.
        """
        for turn in range(_TRIES):
            failures, whole = self._stores.failures, self._stores.is_whole and turn < _TRIES - 1
            if settings.store_away == "refuse" and self._stores.is_away:
                raise StoreAway
            accepted = await self._send_once(incoming, settings, retry, whole=whole)
            if isinstance(accepted, Accepted | None) and (not whole or failures == self._stores.failures):
                return accepted
        raise RuntimeError("the store says something else each time")

    async def _send_once(
        self, incoming: Incoming, settings: Settings, retry: Plan | None, *, whole: bool
    ) -> Accepted | _Unsettled | None:
        """`whole`: what is decided can be remembered."""
        settings = settings if whole else settings.recomputable()
        work = partial(self._work, callers.whose_turn(incoming), len(incoming.body) > settings.offload_bytes)
        if (came := await work(partial(self._read, incoming, settings))) is None:
            return None
        redact = await self.rules.redact(settings.redaction_failure)
        came = await self._in_its_arm(incoming, came)
        request = await self._conceal(incoming, came)
        hidden: Mapping[str, int] = {}
        if request.settings.redact_scope == "all" and request.settings.redact_secrets:
            request, hidden = await work(partial(self._redact_outside, request, redact))
        caller = callers.caller(self._key, incoming, request)
        request = await self._with_calls(request, caller)
        conversation = caller.conversation()
        state = await self._stores.conversations.past(conversation)
        keys = compose.keys(request, state)
        self._stores.follow(conversation, state, keys)
        past = await self._stores.decisions.get(keys)
        redact = self._also_known_values(request, caller, redact)
        if self._stores.is_recent and state.idle is None:
            # Most conversations have had the injected tool from their first request on.
            request = replace(request, settings=replace(request.settings, adopt="compress"))
        prepared = await self._prepare(incoming, request, state, caller, past)
        held = held_results.before(request, prepared)
        limits = state.limits if retry is None else state.limits.learned(retry.limits)
        betas = self._without_unbound(incoming, request, prepared) if limits.drop else ""
        references, show = prepared.references if prepared else None, await self.rules.show()
        heavy_work = partial(self._work, callers.whose_turn(incoming), True)
        external = await self._compressors.forms(
            incoming, request, past, redact, references, heavy_work, show
        )
        if external:
            # While they were waited for, another request may have decided.
            past |= await self._stores.decisions.get(external)
        unsaid = self._stores.unsaid(state, past, keys, whole=whole)
        inputs = Inputs(request, past, redact, references, external, held=held, show=show, unsaid=unsaid)
        rewritten, line = await work(
            partial(compose.compose, inputs, state, retry, self._line_indexes, incoming.head)
        )
        learn = partial(self._stores.conversations.learn, conversation)
        accepted = Accepted(
            request,
            rewritten,
            0.0,
            conversation=conversation,
            caller=caller,
            decided={**past, **rewritten.decisions},
            line=line,
            hidden=hidden,
            betas=betas,
            usage_scale=usage_scale.scale(request, rewritten, limits, incoming.head),
            room=room.of_request(request, limits, incoming.head, learn),
            model=show(request.conversation.model),
            project=self._projects.name(conversation, request, show),
        )
        if incoming.api.kind != "messages":
            return accepted
        if prepared is not None:
            # Values that are put back are a matter of the conversation.
            remembered = None if request.settings.restores_secrets else self._shown_texts
            behind = partial(held_results.behind, request, held, rewritten, inputs.clean, show, remembered)
            prepared = replace(prepared, held=await work(behind) if prepared.threaded else (), show=show)
        if not await self._record(accepted, state, past, prepared, retry, whole=whole):
            return _UNSETTLED
        return accepted if prepared is None else await self._watched(incoming, accepted, prepared, redact)

    async def _record(
        self,
        accepted: Accepted,
        state: ConversationState,
        past: Mapping[bytes, Decision],
        prepared: Prepared | None,
        retry: Plan | None,
        *,
        whole: bool,
    ) -> bool:
        """What was decided is final, but for what depends on whether the provider takes it this time. False
        if another proxy was first, or nobody knows."""
        rewritten, planned = accepted.rewritten, retry.decisions if retry is not None else {}
        new = {key: made for key, made in rewritten.decisions.items() if key not in planned}
        over = new.keys() & past.keys()
        if not await self._stores.decisions.settle(new, over, unasked=not whole):
            return False
        tool = prepared.tool if prepared else ""
        await self._stores.conversations.sent(accepted.conversation, tool, revised=bool(over))
        if accepted.request.settings.tool_compaction.arguments and not state.limits.arguments:
            await self._stores.conversations.learn(accepted.conversation, LearnedLimits(arguments=True))
        if prepared is not None:
            await self.expansions.keep(prepared, rewritten.originals)
        return True

    async def _watched(
        self, incoming: Incoming, accepted: Accepted, prepared: Prepared, redact: Redact
    ) -> Accepted:
        """The request, whose model may ask for originals: what it carries itself is found without a store."""
        work = partial(self._work, callers.whose_turn(incoming), True)
        carried = Carried(accepted.request, accepted.rewritten, redact, work)
        missing = await self.expansions.renew(prepared, carried.shown_before)
        if prepared.earlier or missing:
            inherit = partial(carried.inherited, self._stores.conversations, missing)
            prepared = replace(prepared, inherit=inherit)
        return replace(accepted, prepared=prepared, find=carried.find)

    # Steps of it

    def _read(self, incoming: Incoming, settings: Settings) -> Request | None:
        try:
            document = Document(incoming.body)
            if incoming.api.format == "anthropic":
                message_threads.check(document, settings.threads, incoming.headers.get("user-agent", ""))
            who = callers.identified(self._key, incoming, document)
            request = read.read(
                document,
                incoming.api,
                settings,
                who.scope,
                incoming.threshold,
                who.possession,
                self._values,
            )
            if request and ambiguity.says_twice(request):
                raise Unreadable("its body says something twice on the way to a tool's result")
            return request and read.with_model(request, model_in(incoming.path))
        except NotJson:
            # What says that it is no JSON is no call; what is empty says nothing.
            is_call = claims_json(incoming.headers.get("content-type", "")) and bool(incoming.body.strip())
            if is_call and settings.must_search:
                raise Unreadable("its body is no JSON that can be read") from None
            return None

    async def _in_its_arm(self, incoming: Incoming, request: Request) -> Request:
        """The request by the settings of the arm that its conversation is in."""
        if not request.settings.holdout and await self._stores.arms.is_empty():
            return request
        together = session.together(incoming.headers, request.document, request.conversation.opening)
        caller = callers.caller(self._key, incoming, request)
        stores = self._stores
        tables = (stores.arms, stores.conversations)
        request = await holdout.in_its_arm(
            request, caller, together, self._key, *tables, is_whole=stores.is_whole
        )
        if not request.arm.is_held_out:
            return request
        heavy = len(incoming.body) > request.settings.offload_bytes
        return await self._work(callers.whose_turn(incoming), heavy, partial(holdout.as_it_came, request))

    async def _conceal(self, incoming: Incoming, request: Request) -> Request:
        """The request with placeholders where values were put back into earlier responses."""
        on = request.settings.restores_secrets
        if not on and await self._stores.restorations.is_empty():
            return request
        scan = await self.rules.scan() if on else None
        conversation = callers.caller(self._key, incoming, request).possessed()
        if not await self._restored().conceal(request, conversation, scan):
            return request
        heavy = len(incoming.body) > request.settings.offload_bytes
        return await self._work(callers.whose_turn(incoming), heavy, partial(read.again, request))

    def _redact_outside(self, request: Request, redact: Redact) -> tuple[Request, Mapping[str, int]]:
        """The request without the secrets that stand outside of tool results, and how many were new. Raises
        RedactionError."""
        document = request.document
        texts = list(request.api.wire.outside_results(document))
        found = self._outside_results.redact(document, texts, redact, request.scope)
        return read.again(request) if found.amended else request, found.counts

    async def _with_calls(self, request: Request, caller: Caller) -> Request:
        """The request, in which results know the calls that only the provider has."""
        if not (missing := read.missing_calls(request)):
            return request
        calls = await self.tool_calls.of_ids(caller.scope, missing)
        return read.with_calls(request, calls) if calls else request

    def _also_known_values(self, request: Request, caller: Caller, redact: Redact) -> Redact:
        """`redact`, after which values that are put back are gone everywhere else."""
        if not request.settings.restores_secrets:
            return redact
        return self._restored().redacting(request, caller.possessed(), redact)

    async def _prepare(
        self,
        incoming: Incoming,
        request: Request,
        state: ConversationState,
        caller: Caller,
        past: Mapping[bytes, Decision],
    ) -> Prepared | None:
        """The injected tool and hidden exchanges, where the request may have them."""
        if (terms := injected_tool.terms(incoming, request, state, past)) is None:
            return None
        format_name = incoming.api.format + ("_socket" if incoming.socket else "")
        saved = request.document.saved()
        try:
            return await self.expansions.prepare(format_name, request.document, caller, terms, request.chain)
        except Exception as error:
            _log.error("penumbra: no originals can be asked for in a request: %s", errors.place(error))
            request.document.restore(saved)
            return None

    def _without_unbound(self, incoming: Incoming, request: Request, prepared: Prepared | None) -> str:
        """Give up reasoning that is bound to another prefix; the betas that takes, empty: no others."""
        if not bound_thinking.may_drop(incoming.api.format, request.document):
            return ""
        dropped = prepared is not None and prepared.replayed.dropped
        host = incoming.host.rpartition(":")[0]
        return bound_thinking.drop(request.document, incoming.headers, host, dropped)

    async def _restoration(self, incoming: Incoming, accepted: Accepted) -> Restoration | None:
        """What may be put back into the response to a request."""
        request = accepted.request
        if incoming.api.kind != "messages" or not request.settings.restores_secrets:
            return None
        try:
            restoring = self._restored()
            decided = [(shown.item, shown.facts) for shown in accepted.rewritten.shown]
            conversation = callers.caller(self._key, incoming, request).possessed()
            restoring.learn(request, conversation, decided, await self.rules.scan())
            return restoring.of_response(request, conversation)
        except Exception as error:
            _log.warning("Penumbra puts nothing back into a response: %s", errors.place(error))
            return None

    # What they use

    async def cleaned(self, text: str) -> str:
        """A text to be kept. Raises RedactionError."""
        redact = await self.rules.redact(self.settings.redaction_failure)
        heavy = len(text) > self.settings.offload_bytes
        return (await self._work(_OURS, heavy, lambda: redact(text, ""))).text

    async def _work(self, caller: workers.Caller, heavy: bool, work: Callable[[], T]) -> T:
        return await self._workers.run(caller, work) if heavy else work()

    # What is off by default is not imported until it is switched on.

    def _restored(self) -> Restoring:
        if self._restoring is None:
            from penumbra.redaction.restore.restoration import Restoring

            self._restoring = Restoring(self._stores.restorations, self._stores.decisions)
        return self._restoring


def _shared(settings: EngineSettings, there: SharedStore | None) -> SharedStore | None:
    """The store that several proxies have in common; None: there is none."""
    if there is not None:
        there.share()
        return there
    if settings.shared is None:
        return None
    from penumbra.store.shared_store import SharedStore

    made = SharedStore(settings.shared)
    made.begin()
    return made
