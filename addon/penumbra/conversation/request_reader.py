"""Reads a request for decisions: its caller, its parts, concealed values, the calls that its results answer,
and what is remembered of its conversation.

Anthropic's message threads keep a conversation at the provider: only new messages travel, and responses can
be continued once. Where the operator wants whole histories, such requests are refused with the API's own
error for unsupported threads, after which a client sends the full conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from penumbra import errors
from penumbra.apis import identity, session
from penumbra.apis.identity import Identity
from penumbra.apis.recognise import claims_json, model_in
from penumbra.compress.result import Redacted
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings
from penumbra.conversation import adoption, ambiguity, cache_price, outside_results, read, rewrite, workers
from penumbra.conversation.compiled_rules import CompiledRules
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.model import Request
from penumbra.errors import Unreadable
from penumbra.expand.reference import Caller
from penumbra.redaction.redact_calls import Redact
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.decisions import Decision
from penumbra.store.records import ToolCallCache
from penumbra.store.stores import Stores
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, encode
from penumbra.wire.prefix_memory import Known, PrefixMemory

if TYPE_CHECKING:
    from penumbra.redaction.restore.restoration import Restoration, Restoring


T = TypeVar("T")
_LONG = 30_000
"""Bytes of a body; smaller ones are read whole, larger ones from the end of their known beginning."""
_THREADS = "Requests with `thread` are not supported here; send the full conversation without `thread`."
_GO_ON_WITHOUT = ("claude-cli/",)
_log = logging.getLogger(__name__)


def whose_turn(incoming: Incoming) -> workers.Caller:
    """The caller that work for a request counts for, which no other caller can pose as."""
    scope = identity.scope(b"", incoming.host, incoming.peer, incoming.headers, incoming.query)
    return workers.Caller(incoming.peer, scope)


def identified(key: bytes, incoming: Incoming, document: Document) -> Identity:
    """Identifies the caller. `key`: the installation's."""
    metadata = document.members(document.members(document.root).get("metadata"))
    user = document.string(metadata.get("user_id")) or ""
    return identity.identify(key, incoming.host, incoming.peer, incoming.headers, incoming.query, user)


def caller_of(incoming: Incoming, request: Request) -> Caller:
    """The caller, with the conversation."""
    wanted = request.settings.session_id
    named = session.identify(incoming.headers, request.document, request.conversation.opening)
    renewable = request.possession if request.possession != request.scope else b""
    joined = f"session {wanted}" if wanted else ""
    return Caller(request.scope, named, renewable, request.is_open, joined)


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
        conversation = caller_of(incoming, request).possessed()
        return await self._restoring().conceal(request, conversation, scan)

    def redacting(self, request: Request, caller: Caller, redact: Redact) -> Redact:
        """`redact`, after which values that are put back are gone everywhere else."""
        if not request.settings.restores_secrets:
            return redact
        return self._restoring().redacting(request, caller.possessed(), redact)

    async def of_response(self, incoming: Incoming, accepted: Accepted) -> Restoration | None:
        """Values that may be put back into the response to a request."""
        request = accepted.request
        if incoming.api.kind != "messages" or not request.settings.restores_secrets:
            return None
        try:
            restoring = self._restoring()
            decided = [(shown.item, shown.facts) for shown in accepted.rewritten.shown]
            conversation = caller_of(incoming, request).possessed()
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


class ThreadRefused(OverrideError):
    """A request that is to be sent again with its whole history."""

    def __init__(self) -> None:
        super().__init__(_THREADS)
        details = {"error_code": "thread_unsupported_request"}
        error = {"type": "invalid_request_error", "message": _THREADS, "details": details}
        self.body = encode({"type": "error", "error": error})


def check(document: Document, policy: str, user_agent: str) -> None:
    """Raises ThreadRefused for a request that the policy (`auto`, `pass`, `refuse`) does not let pass."""
    thread = document.members(document.root).get("thread")
    if policy == "pass" or thread is None or document.plain(thread) is None:
        return
    if policy == "refuse" or user_agent.startswith(_GO_ON_WITHOUT):
        raise ThreadRefused


class Work(Protocol):
    """Does a caller's work, away from the event loop where it is heavy."""

    async def __call__(
        self, incoming: Incoming, heavy: bool, work: Callable[[], T], /, *, size: int = 0
    ) -> T: ...


class KnownRequest(NamedTuple):
    """A request that was read, with what the store has of its conversation."""

    request: Request
    caller: Caller
    conversation: bytes
    state: ConversationState
    keys: Collection[bytes]
    """Keys of the request's results."""
    past: dict[bytes, Decision]
    """Decisions of the past about the results."""
    redact: Redact
    is_heavy: bool
    """Deciding takes long, and is done away from the event loop."""
    cold: float
    """Seconds without a request after which nothing of it is in the provider's cache."""
    is_cold: bool
    """The pause was certainly longer than `cold`."""
    hidden: Mapping[str, int]
    """New secrets outside of tool results, counted by kind."""
    decisions: Mapping[bytes, Decision]
    """New decisions about texts outside of tool results."""

    @property
    def reopened(self) -> frozenset[bytes]:
        """The keys of its answered results that may get another form."""
        return adoption.reopened(self.request, self.state, self.past) if self.is_cold else frozenset()

    def learned(self, limits: LearnedLimits) -> KnownRequest:
        """Return the request with what a refusal has just told of its conversation."""
        return self._replace(state=replace(self.state, limits=self.state.limits.learned(limits)))


class RequestReader:
    """State: what was read of messages before."""

    def __init__(
        self,
        key: bytes,
        stores: Stores,
        rules: CompiledRules,
        tool_calls: ToolCallCache,
        restored: RestoredValues,
    ) -> None:
        """`key`: the installation's."""
        self._key, self._stores, self._rules = key, stores, rules
        self._tool_calls, self._restored = tool_calls, restored
        self.values: PrefixMemory | None = PrefixMemory()
        """Memory of messages that were read; None: all are read again in every turn."""

    async def read(
        self, incoming: Incoming, settings: Settings, work: Work, *, whole: bool
    ) -> KnownRequest | None:
        """The request in a body; None: it is no request of its API. `whole`: what is decided can be
        remembered. Raises OverrideError, RedactionError, ThreadRefused."""
        size = len(incoming.body)
        scope = identity.scope(self._key, incoming.host, incoming.peer, incoming.headers, incoming.query)
        known = self._known(incoming.body, scope)
        new = size if known is None else size - (known.end - known.start)
        heavy = workers.is_heavy(new, size, settings.offload_bytes)
        reading = partial(self._read, incoming, settings, scope, known)
        request = await work(incoming, heavy, reading, size=workers.cost(new, size))
        if request is None:
            return None
        if await self._restored.conceal(incoming, request):
            is_large = size > request.settings.offload_bytes
            request = await work(incoming, is_large, partial(read.again, request))
        # Nothing is remembered for those whom no credential tells apart, and nothing that depends on it is
        # done where it can't be recorded.
        caller = b"" if request.is_open or not whole else whose_turn(incoming).credential
        redact = await self._rules.redact(
            settings.redaction_failure, caller, replaces=not request.settings.restores_secrets
        )
        hidden: Mapping[str, int] = {}
        decisions: Mapping[bytes, Decision] = {}
        if request.settings.redact_secrets:
            found = await self._without_secrets(incoming, request, caller, work, heavy=heavy)
            request, hidden, decisions = found.request, found.counts, found.decisions
        request = await self._with_calls(request)
        return await self._known_request(incoming, request, redact, hidden, decisions, whole=whole)

    def _read(
        self, incoming: Incoming, settings: Settings, scope: bytes, known: Known | None
    ) -> Request | None:
        try:
            document = self._document(incoming, scope, known)
            if incoming.api.format == "anthropic":
                check(document, settings.threads, incoming.headers.get("user-agent", ""))
            who = identified(self._key, incoming, document)
            request = read.read(
                document,
                incoming.api,
                settings,
                who.scope,
                incoming.threshold,
                who.possession,
                self.values,
            )
            if request and ambiguity.says_twice(request):
                raise Unreadable("its body says something twice on the way to a tool's result")
            return request and replace(read.with_model(request, model_in(incoming.path)), is_open=who.open)
        except NotJson:
            # A body whose content type is not JSON is no call; a missing type means nothing.
            is_call = claims_json(incoming.headers.get("content-type", "")) and bool(incoming.body.strip())
            if is_call and settings.must_search:
                raise Unreadable("its body is no JSON that can be read") from None
            return None

    def _known(self, body: bytes, scope: bytes) -> Known | None:
        """The beginning of a body that is known already."""
        return None if self.values is None or len(body) < _LONG else self.values.first(scope, body)

    def _document(self, incoming: Incoming, scope: bytes, known: Known | None) -> Document:
        """The body, of which only what is new is read."""
        if known is None or self.values is None:
            return Document(incoming.body)
        return Document.begun(incoming.body, incoming.api.wire.messages, self.values, scope, known)

    async def _without_secrets(
        self, incoming: Incoming, request: Request, caller: bytes, work: Work, *, heavy: bool
    ) -> outside_results.Searched:
        """Return the request without the secrets that stand outside of tool results. Raises
        RedactionError."""
        listed = partial(outside_results.texts, request, knows_caller=bool(caller))
        texts = await work(incoming, heavy, listed)
        past = await self._stores.decisions.get([text.key for text in texts])
        by_rules = await self._rules.redact(request.settings.redaction_failure, caller)
        values = self._rules.values

        def by_values(text: str, hint: str) -> Redacted:
            return values.without(caller, text)

        search = partial(outside_results.search, request, texts, past, by_rules, by_values)
        size = outside_results.undecided(texts, past)
        return await work(incoming, size > request.settings.offload_bytes, search, size=size)

    async def _with_calls(self, request: Request) -> Request:
        """The request, in which results know the calls that only the provider has."""
        if not request.uncalled:
            return request
        calls = await self._tool_calls.of_ids(request.scope, request.uncalled)
        return read.with_calls(request, calls) if calls else request

    async def _known_request(
        self,
        incoming: Incoming,
        request: Request,
        redact: Redact,
        hidden: Mapping[str, int],
        decisions: Mapping[bytes, Decision],
        *,
        whole: bool,
    ) -> KnownRequest:
        """The request with what the store has of its conversation."""
        caller = caller_of(incoming, request)
        conversation = caller.conversation()
        state, keys, past = await _remembered(self._stores, request, conversation)
        if not whole and await self._stores.lacks(past, rewrite.answered(request)):
            state, keys, past = await _remembered(self._stores, request, conversation)
        redact = self._restored.redacting(request, caller, redact)
        if self._stores.is_recent and state.idle is None:
            # Most conversations have had the injected tool from their first request on.
            request = replace(request, settings=replace(request.settings, adopt="compress"))
        heavy = rewrite.is_heavy(request, past, state)
        cold = cache_price.of_request(request.format, request.conversation.model, request.document).cold
        if state.idle and any(key not in past for key in rewrite.answered(request)):
            # Some turns went another way: the time of the last request is unknown.
            state = replace(state, idle=0.0)
        asks = whole and incoming.api.kind == "messages"
        is_cold = asks and adoption.is_cold(request, state, cold)
        return KnownRequest(
            *(request, caller, conversation, state, keys, past, redact, heavy, cold, is_cold),
            hidden=hidden,
            decisions=decisions,
        )


async def _remembered(
    stores: Stores, request: Request, conversation: bytes
) -> tuple[ConversationState, Collection[bytes], dict[bytes, Decision]]:
    """The state of a conversation, the keys of a request's results, and the decisions about these."""
    state = await stores.conversations.past(conversation, rewrite.start(request))
    keys = rewrite.keys(request, state)
    stores.follow(conversation, state, keys)
    return state, keys, await stores.decisions.get(keys)
