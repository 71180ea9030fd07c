"""One request from its plain body to what is sent: reading, looking up, rewriting, remembering.

No mitmproxy here. The event loop only waits: the database has a thread of its own, and bodies above
a threshold are read and rewritten in a worker thread. Redaction fails closed, everything else open:
when rewriting fails, the request goes on with redaction alone, and without that not at all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from penumbra import errors, workers
from penumbra.apis import identity, session
from penumbra.apis.identity import Identity
from penumbra.apis.recognise import Api, claims_json, model_in
from penumbra.compress.result import Mode, Shortened
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings
from penumbra.conversation import adoption, ambiguity, message_threads, recoverer, rewrite
from penumbra.conversation.carried_originals import Carried
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.refused import Refused as Refused
from penumbra.conversation.refused import unsearched as unsearched
from penumbra.conversation.shrunk_request import Plan
from penumbra.conversation.usage_scaling import UsageScale
from penumbra.expand.expansions import Caller, Expansions, Find, Prepared, Terms
from penumbra.expand.room import NOT_KNOWN, Room
from penumbra.external import compressed
from penumbra.external.dispatch import Dispatcher
from penumbra.external.http import Http
from penumbra.external.metrics import StrategyFigures
from penumbra.external.selection import ExternalCompressors
from penumbra.external.strategy import Credential
from penumbra.redaction import RedactionError, Unreadable, ruleset
from penumbra.redaction.engine import Redactor
from penumbra.redaction.failure import Redact, forgiving
from penumbra.redaction.other_bodies import Elsewhere
from penumbra.redaction.outside_results import OutsideResults
from penumbra.redaction.restore.restoration import Restoration, Restoring
from penumbra.retry import thinking_binding
from penumbra.store import conversations
from penumbra.store.database import Database
from penumbra.store.decisions import Decision
from penumbra.store.key_file import installation_key
from penumbra.store.stores import Stores
from penumbra.store.table import Table
from penumbra.store.tool_calls import ToolCallCache
from penumbra.wire.document import Document, NotJson

T = TypeVar("T")
_OURS = workers.Caller("", b"")
"""Work that no caller waits for."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A recognised request as it came in."""

    api: Api
    body: bytes
    """Without content coding."""
    headers: Mapping[str, str]
    """Names in lower case."""
    query: Mapping[str, str]
    peer: str
    """Address of the client: it tells callers without credentials apart."""
    host: str = ""
    """Where its connection leads to: name and port."""
    path: str = ""
    """With its query."""
    threshold: str | None = None
    """Value of an `X-Compression-Threshold` header."""
    socket: bool = False
    """It is a frame of a WebSocket."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that is sent, changed or not."""

    request: rewrite.Request
    rewritten: rewrite.Rewritten
    milliseconds: float
    prepared: Prepared | None = None
    """The model may ask for originals, and the answer has to be watched for that."""
    find: Find | None = None
    conversation: bytes = b""
    """Keyed hash of the conversation."""
    caller: Caller | None = None
    """Whose request it is."""
    decided: Mapping[bytes, Decision] = field(default_factory=dict)
    """The form of every text."""
    line: str = ""
    """What was done about the conversation as a whole, for a log."""
    hidden: Mapping[str, int] = field(default_factory=dict)
    """Secrets newly found outside of tool results, by rule."""
    betas: str = ""
    """What its header `anthropic-beta` has to say; empty: what it says already."""
    restoration: Restoration | None = None
    """What may be put back into its answer."""
    room: Room = NOT_KNOWN
    """What may be put behind its answers."""
    told: UsageScale | None = None
    """What its client is told of its size; None: what the provider says."""
    again: recoverer.Again | None = None
    """Why it is sent instead of a request that was refused; not remembered yet."""


class Engine:
    """The state behind all requests of one process: key, database, redactor, workers."""

    def __init__(
        self,
        settings: EngineSettings,
        figures: StrategyFigures | None = None,
        listening: Callable[[], Collection[int]] = tuple,
        database: Database | None = None,
    ) -> None:
        """`figures` count what strategies do; `listening` tells the ports of this process; `database`: the
        one that another engine has open at the same place."""
        path = settings.database
        self.settings = settings
        if database is None:
            key = installation_key(path.with_suffix(".key") if path else None)
            database = Database(path, settings.database_max_bytes, key)
        else:
            database.share(settings.database_max_bytes)
        self.database, self.key = database, database.key
        self.stores = stores = Stores(database, settings.ledger_ttl, settings.originals_ttl)
        self.restoring = Restoring(stores.restorations, stores.decisions)
        self.tool_calls = ToolCallCache(stores.tool_calls, self._cleaned)
        self.expansions = Expansions(
            self.key,
            stores.exchanges,
            stores.originals,
            self.tool_calls,
            settings.page_bytes,
        )
        self.conversations = stores.conversations
        answers = Table(database, compressed.SCHEMA, compressed.TTL)
        dispatcher = Dispatcher(self.key, answers, figures)
        database.begin()
        self._outside = ExternalCompressors(dispatcher, Http(listening))
        self._line_indexes = LineIndexes()
        self._outside_results = OutsideResults()
        self.elsewhere = Elsewhere(self._redact, self._work)
        self._workers = workers.Workers()
        # Compiled while the proxy starts; the first request waits for what is missing.
        compiled = partial(_compiled, self.key, settings)
        self._redactor: Future[Redactor] = self._workers.submit(compiled)
        self._redactor.add_done_callback(_report_broken_rules)

    def close(self) -> None:
        """Finish and close everything."""
        self._outside.close()
        self._workers.close()
        self.database.close()

    async def process(self, incoming: Incoming, settings: Settings) -> Accepted | Refused | None:
        """What becomes of a request; None: it is no request of this API after all, leave it alone."""
        started = time.perf_counter()
        wire = incoming.api.wire
        try:
            accepted = await self._accept(incoming, settings)
        except message_threads.ThreadRefused as error:
            return Refused(400, error.body, str(error))
        except OverrideError as error:
            return Refused(400, wire.error(400, str(error)), str(error))
        except RedactionError as error:
            return unsearched(incoming.api, error)
        if accepted is None:
            return None
        accepted = replace(accepted, restoration=await self._restoration(incoming, accepted))
        return replace(accepted, milliseconds=(time.perf_counter() - started) * 1000)

    async def _accept(self, incoming: Incoming, settings: Settings) -> Accepted | None:
        try:
            return await self._rewrite(incoming, settings)
        except (OverrideError, RedactionError):
            raise
        except Exception as error:
            _log.warning("Penumbra goes on with redaction alone: %s", errors.place(error))
        try:
            return await self._rewrite(
                incoming, replace(settings, mode=Mode.DISABLED, dedup=False, enable_expand_context=False)
            )
        except (OverrideError, RedactionError):
            raise
        except Exception as error:
            if settings.must_search:
                raise RedactionError(errors.place(error)) from None
            return None

    async def again(
        self, incoming: Incoming, settings: Settings, sent: Accepted, count: int, status: int, answer: bytes
    ) -> Accepted | None:
        """Another request instead of one that was refused; None: the answer goes to the client.

        `count`: how often a request was sent again already; `answer`: the body, or the data of an event.
        """
        body = sent.rewritten.body
        record = recoverer.Sent(body, incoming.path, incoming.headers, incoming.host, sent.decided)
        refusal = recoverer.refused(status, answer, record)
        if refusal is None:
            return None
        redact = await self._redact(settings)
        shadows = sent.prepared.shadows if sent.prepared else None
        work = partial(recoverer.again, refusal, count, sent.request, record, redact, shadows)
        again = await self._work(_whose(incoming), True, work)
        if again is None:
            return None
        if again.body is not None:
            made: Accepted | None = replace(sent, rewritten=replace(sent.rewritten, body=again.body))
        else:
            again = sent.again.then(again) if sent.again else again
            made = await self._rewrite(incoming, settings, again.given)
        if made is None or not again.helps(body, made.rewritten.body):
            return None
        return replace(made, again=again)

    async def settle(self, accepted: Accepted) -> None:
        """The provider took the other request: from now on this is the form of its results."""
        if (again := accepted.again) is None or again.body is not None:
            return
        await self.stores.decisions.put(again.given.decisions)
        if accepted.prepared is not None:
            await self.expansions.keep(accepted.prepared, again.given.originals)
        await self.conversations.learn(accepted.conversation, again.given.lesson)

    async def _rewrite(
        self, incoming: Incoming, settings: Settings, given: Plan | None = None
    ) -> Accepted | None:
        """`given`: the request was refused, and these forms are not to be recorded yet."""
        heavy = len(incoming.body) > settings.offload_bytes
        whose = _whose(incoming)
        request = await self._work(whose, heavy, lambda: self._read(incoming, settings))
        if request is None:
            return None
        incoming, request = await self._concealed(incoming, settings, request)
        request, hidden = await self._clean_outside_results(incoming, settings, request)
        caller = self._caller(incoming, request)
        if missing := rewrite.calls_elsewhere(request):
            cached = await self.tool_calls.known(caller.scope, missing)
            request = rewrite.with_calls(request, cached, caller.owner) if cached else request
        key = caller.conversation()
        past = await self.conversations.past(key)
        known = await self.stores.decisions.get(recoverer.keys(request, past))
        redact = await self._redact(settings)
        if _restores(request.settings):
            redact = self.restoring.redacting(request, caller.possessed(), redact)
        prepared = await self._prepare(incoming, request, past, caller)
        lesson = past.lesson if given is None else past.lesson.learned(given.lesson)
        betas = self._without_unbound(incoming, request, prepared) if lesson.drop else ""
        shadows = prepared.shadows if prepared else None
        forms = await self._forms(incoming, request, known, redact, shadows)
        if forms:
            # While they were waited for, another request may have decided.
            known |= await self.stores.decisions.get(forms)
        head = recoverer.Head(incoming.path, incoming.headers)
        work = partial(recoverer.rewritten, request, known, forms, past, redact, shadows, given, sent=head)
        rewritten, line = await self._work(whose, heavy, partial(work, self._line_indexes))
        decided = {**known, **rewritten.decisions}
        accepted = Accepted(
            request,
            rewritten,
            0.0,
            conversation=key,
            caller=caller,
            decided=decided,
            line=line,
            hidden=hidden,
            betas=betas,
            told=recoverer.usage_scale(request, rewritten, lesson, head),
            room=recoverer.room_of(request, lesson, head, partial(self.conversations.learn, key)),
        )
        if incoming.api.kind != "messages":
            return accepted
        held = given.decisions if given is not None else {}
        new = {one: made for one, made in rewritten.decisions.items() if one not in held}
        await self.stores.decisions.put(new)
        await self.conversations.sent(key, prepared.tool if prepared else "")
        if request.settings.tool_compaction.arguments and not past.lesson.arguments:
            await self.conversations.learn(key, conversations.LearnedLimits(arguments=True))
        if prepared is None:
            return accepted
        await self.expansions.keep(prepared, rewritten.originals)
        found = Carried(request, rewritten, redact, partial(self._work, whose, True))
        if prepared.earlier:
            prepared = replace(prepared, inherit=partial(found.inherited, self.conversations))
        return replace(accepted, prepared=prepared, find=found.find)

    async def _redact(self, settings: Settings | EngineSettings) -> Redact:
        """How texts are redacted; waits until the rules are compiled."""
        redactor = await asyncio.wrap_future(self._redactor)
        return forgiving(redactor.redact, settings.redaction_failure)

    async def _concealed(
        self, incoming: Incoming, settings: Settings, request: rewrite.Request
    ) -> tuple[Incoming, rewrite.Request]:
        """The request with placeholders where values were put back into earlier answers."""
        on = _restores(request.settings)
        if not on and not await self.restoring.any():
            return incoming, request
        scan = (await asyncio.wrap_future(self._redactor)).scan if on else None
        key = self._caller(incoming, request).possessed()
        edits = await self.restoring.conceal(request, key, scan)
        if not edits:
            return incoming, request

        def work() -> tuple[Incoming, rewrite.Request]:
            concealed = replace(incoming, body=Document(incoming.body, edits).render())
            clean = self._read(concealed, settings)
            if clean is None:
                raise RedactionError("a concealed request is none any more")
            return concealed, clean

        return await self._work(_whose(incoming), len(incoming.body) > settings.offload_bytes, work)

    async def _restoration(self, incoming: Incoming, accepted: Accepted) -> Restoration | None:
        request = accepted.request
        if incoming.api.kind != "messages" or not _restores(request.settings):
            return None
        try:
            scan = (await asyncio.wrap_future(self._redactor)).scan
            decided = [(shown.item, shown.facts) for shown in accepted.rewritten.shown]
            key = self._caller(incoming, request).possessed()
            self.restoring.learn(request, key, decided, scan)
            return self.restoring.answer(request, key)
        except Exception as error:
            _log.warning("Penumbra puts nothing back into an answer: %s", errors.place(error))
            return None

    async def _cleaned(self, text: str) -> str:
        """A text to be kept. Raises RedactionError."""
        redact = await self._redact(self.settings)
        heavy = len(text) > self.settings.offload_bytes
        return (await self._work(_OURS, heavy, lambda: redact(text, ""))).text

    async def _clean_outside_results(
        self, incoming: Incoming, settings: Settings, request: rewrite.Request
    ) -> tuple[rewrite.Request, Mapping[str, int]]:
        """The request without the secrets that stand outside of tool results, where that is wanted, and
        how many were new. Raises RedactionError."""
        if request.settings.redact_scope != "all" or not request.settings.redact_secrets:
            return request, {}
        redact = await self._redact(settings)

        def work() -> tuple[rewrite.Request, Mapping[str, int]]:
            document = request.document
            others = len(document.edits)
            counts = self._outside_results.redact(
                document, incoming.api.wire.outside_results(document), redact, request.scope
            )
            found = document.edits[others:]
            del document.edits[others:]
            if not found:
                return request, counts
            body = Document(incoming.body, found).render()
            clean = self._read(replace(incoming, body=body), settings)
            if clean is None:
                raise RedactionError("a redacted request is none any more")
            return clean, counts

        return await self._work(_whose(incoming), len(incoming.body) > settings.offload_bytes, work)

    async def _prepare(
        self,
        incoming: Incoming,
        request: rewrite.Request,
        past: conversations.ConversationState,
        caller: Caller,
    ) -> Prepared | None:
        """The injected tool and hidden exchanges, where the request may have them."""
        settings, conversation = request.settings, request.conversation
        if incoming.api.kind not in ("messages", "count_tokens"):
            return None
        if request.document.members(conversation.messages):
            # One message that is no list of them: nothing could be put behind it.
            return None
        # What the last request declared is what the provider holds, whatever became of its answer.
        at_stake = (settings.adopt == "auto" and not past.tool) and (
            conversation.last_thinking >= 0 or adoption.may_be_cached(request.document, request.api.cache)
        )
        terms = Terms(
            wanted=settings.enable_expand_context and settings.mode is not Mode.DISABLED,
            at_stake=settings.adopt == "raw" or at_stake,
            hint=settings.include_expand_hint,
            betas=incoming.headers.get("anthropic-beta", ""),
            counting=incoming.api.kind == "count_tokens",
            editing=_restores(settings),
            held=past.tool,
        )
        format_name = incoming.api.format + ("_socket" if incoming.socket else "")
        edits = list(request.document.edits)
        try:
            return await self.expansions.prepare(format_name, request.document, caller, terms, request.chain)
        except Exception as error:
            _log.error("penumbra: no originals can be asked for in a request: %s", errors.place(error))
            request.document.edits[:] = edits
            return None

    def _without_unbound(
        self, incoming: Incoming, request: rewrite.Request, prepared: Prepared | None
    ) -> str:
        """Give up reasoning that is bound to another prefix; the betas that takes, empty: no others."""
        if not thinking_binding.may_drop(incoming.api.format, request.document):
            return ""
        dropped = prepared is not None and prepared.replayed.dropped
        return thinking_binding.drop(
            request.document, incoming.headers, incoming.host.rpartition(":")[0], dropped
        )

    def _caller(self, incoming: Incoming, request: rewrite.Request) -> Caller:
        named = session.identify(incoming.headers, request.document, request.conversation.opening)
        who = self.identity(incoming, request.document)
        renewable = who.possession if who.possession != who.scope else b""
        return Caller(who.scope, named, renewable, who.open)

    async def _forms(
        self,
        incoming: Incoming,
        request: rewrite.Request,
        known: Mapping[bytes, Decision],
        redact: Redact,
        shadows: rewrite.Shadows | None,
    ) -> dict[bytes, Shortened]:
        """What somebody else makes of new results, where the settings want that. Raises RedactionError."""
        if incoming.api.kind != "messages" or not request.settings.outside:
            return {}
        credential = self._credential(incoming, request)
        try:
            return await self._outside.forms(request, known, redact, shadows, credential)
        except RedactionError:
            raise
        except Exception as error:
            _log.warning("Penumbra asks nobody about a request's results: %s", errors.place(error))
            return {}

    def _credential(self, incoming: Incoming, request: rewrite.Request) -> Credential | None:
        """What the request is authorised with, where a strategy may use it."""
        if not request.settings.allow_captured_credentials:
            return None
        headers = identity.credential_headers(incoming.headers)
        owner = self.identity(incoming, request.document).scope
        return Credential(incoming.host, headers, owner) if headers else None

    async def _work(self, caller: workers.Caller, heavy: bool, work: Callable[[], T]) -> T:
        return await self._workers.run(caller, work) if heavy else work()

    def _read(self, incoming: Incoming, settings: Settings) -> rewrite.Request | None:
        try:
            document = Document(incoming.body)
            if incoming.api.format == "anthropic":
                message_threads.check(document, settings.threads, incoming.headers.get("user-agent", ""))
            who = self.identity(incoming, document)
            request = rewrite.read(
                document, incoming.api, settings, who.scope, incoming.threshold, who.possession
            )
            if request and ambiguity.says_twice(request):
                raise Unreadable("its body says something twice on the way to a tool's result")
            return request and rewrite.with_model(request, model_in(incoming.path))
        except NotJson:
            # What says that it is no JSON is no call; what is empty says nothing.
            is_call = claims_json(incoming.headers.get("content-type", "")) and bool(incoming.body.strip())
            if is_call and settings.must_search:
                raise Unreadable("its body is no JSON that can be read") from None
            return None

    def identity(self, incoming: Incoming, document: Document) -> Identity:
        """Who is asking."""
        metadata = document.members(document.members(document.root).get("metadata"))
        user = document.string(metadata.get("user_id")) or ""
        headers, query = incoming.headers, incoming.query
        return identity.identify(self.key, incoming.host, incoming.peer, headers, query, user)


def _whose(incoming: Incoming) -> workers.Caller:
    """Whose turn the work for a request takes: nobody can take that of somebody else."""
    who = identity.identify(b"", incoming.host, incoming.peer, incoming.headers, incoming.query)
    return workers.Caller(incoming.peer, who.scope)


def _restores(settings: Settings) -> bool:
    return settings.restore_secrets == "edits" and settings.redact_secrets


def _compiled(key: bytes, settings: EngineSettings) -> Redactor:
    rules = ruleset.rules(settings.user_rules, only=settings.gitleaks_only)
    return Redactor(key, rules, limit=settings.redaction_max_bytes)


def _report_broken_rules(redactor: Future[Redactor]) -> None:
    """A rule that can't be used ends the start: no request could be sent."""
    if (error := redactor.exception()) is not None:
        _log.error("rules/secrets: %s", error)
