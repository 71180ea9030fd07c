"""This module reads a request, and the state of its conversation from the store.

With Anthropic's message threads, the provider stores a conversation. Requests then have only the new
messages, and a response can be continued once. If the operator wants whole histories, requests with a thread
get the API's own error for unsupported threads. Clients then send the whole conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from penumbra import errors
from penumbra.apis import session
from penumbra.apis.identity import Caller
from penumbra.apis.recognise import claims_json, model_in
from penumbra.compress.result import Redacted
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings
from penumbra.conversation import cache_price, outside_results, read, rewrite, workers
from penumbra.conversation.compiled_rules import CompiledRules
from penumbra.conversation.decide import Inputs
from penumbra.conversation.incoming import Incoming
from penumbra.conversation.items import OutsideText
from penumbra.conversation.model import Outside, Request
from penumbra.errors import Unreadable
from penumbra.expand.expansions import Expansions
from penumbra.expand.hidden_exchanges import KnownResponses
from penumbra.redaction.redact_calls import Redact
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision
from penumbra.store.keyed_values import begun
from penumbra.store.records import ToolCallCache
from penumbra.store.stores import Stores
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, encode
from penumbra.wire.prefix_memory import Known, PrefixMemory

if TYPE_CHECKING:
    from penumbra.conversation.restored_values import RestoredValues


LONG = 30_000
"""Bodies of fewer bytes are read as a whole, even after a known prefix."""
_THREADS = "Requests with `thread` are not supported here; send the full conversation without `thread`."
_GO_ON_WITHOUT = ("claude-cli/",)
_log = logging.getLogger(__name__)


def _identified(incoming: Incoming, request: Request) -> Request:
    """Return the request with the conversation to which it belongs.

    Secrets that responses may get back are remembered by the session's name before its redaction.
    """
    wanted, caller = request.settings.session_id, request.caller
    named = session.identify(incoming.headers, request.document, request.conversation.opening)
    as_sent, joined = caller.session_as_sent or named, f"session {wanted}" if wanted else ""
    return structs.replace(
        request, caller=structs.replace(caller, session=named, session_as_sent=as_sent, joined=joined)
    )


class ThreadRefused(OverrideError):
    """A `ThreadRefused` is raised for a message thread if the operator wants whole histories."""

    def __init__(self) -> None:
        super().__init__(_THREADS)
        details = {"error_code": "thread_unsupported_request"}
        error = {"type": "invalid_request_error", "message": _THREADS, "details": details}
        self.body = encode({"type": "error", "error": error})


def check(document: Document, policy: str, user_agent: str) -> None:
    """Raise ThreadRefused for a request with a thread if `policy` (`auto`, `pass`, `refuse`) demands it."""
    thread = document.members(document.root).get("thread")
    if policy == "pass" or thread is None or document.plain(thread) is None:
        return
    if policy == "refuse" or user_agent.startswith(_GO_ON_WITHOUT):
        raise ThreadRefused


class Stored(NamedTuple):
    """A `Stored` has the records in the store about a request."""

    state: ConversationState
    keys: Collection[bytes]
    """Keys of past decisions about the request."""
    decisions: Mapping[bytes, Decision]
    responses: KnownResponses | None


class RequestReader:
    """A `RequestReader` reads requests and remembers their messages."""

    def __init__(
        self,
        key: bytes,
        stores: Stores,
        rules: CompiledRules,
        tool_calls: ToolCallCache,
        expansions: Expansions,
        restored: Callable[[], RestoredValues],
    ) -> None:
        """`key` is the installation's key. `restored` returns the values that are put back into responses."""
        self._key, self._stores, self._rules = key, stores, rules
        self._tool_calls, self._expansions, self._restored = tool_calls, expansions, restored
        self.values: PrefixMemory | None = PrefixMemory()
        """The memory of messages; None if every turn reads all messages."""

    async def read(
        self, incoming: Incoming, settings: Settings, turn: workers.Turn, *, is_recorded: bool
    ) -> Inputs | None:
        """Return the request in a body; None if the body is no request of its API. `is_recorded` is true if
        the store can keep decisions. Raises OverrideError, RedactionError, ThreadRefused."""
        size = len(incoming.body)
        scope = incoming.credentials.scope(self._key)
        known = self._known(incoming.body, scope)
        new = size if known is None else size - (known.end - known.start)
        cost = workers.cost(new, size)
        heavy = cost > settings.offload_bytes
        work = partial(turn.do, heavy=heavy, size=cost)
        # An unrecorded decision must be the same in the next turn, so it must not depend on earlier secrets.
        credential = turn.caller.credential if is_recorded else b""
        request = await work(partial(self._read, incoming, settings, scope, known, credential))
        if request is None:
            return None
        restores = request.settings.restores_secrets
        may_have = restores or not await self._stores.restorations.is_empty()
        if may_have and await self._restored().conceal(request):
            is_known = bool(_distinguished(request.caller, credential))
            request = await work(partial(read.again, request, knows_caller=is_known))
            request = _identified(incoming, request)
        caller = _distinguished(request.caller, credential)
        redact = await self._rules.redact(settings.redaction_failure, caller, replaces=not restores)
        stored = await self._look(incoming, request, request.outside)
        whole, outside = request, Outside()
        if request.outside:
            whole, outside = await self._without_secrets(request, stored, caller, turn)
            whole = request if whole is request else _identified(incoming, whole)
        if whole.uncalled:
            calls = await self._tool_calls.of_ids(whole.scope, whole.uncalled)
            whole = read.with_calls(whole, calls) if calls else whole
        if whole is not request:
            stored = await self._look(incoming, whole)
        if restores:
            redact = self._restored().redacting(whole, redact)
        inputs = await self._with_past(incoming, whole, stored, redact, is_recorded=is_recorded, heavy=heavy)
        return structs.replace(inputs, outside=outside)

    def _read(
        self, incoming: Incoming, settings: Settings, scope: bytes, known: Known | None, credential: bytes
    ) -> Request | None:
        """Return the request in a body; None if the body is no request."""
        try:
            document = self._document(incoming, scope, known)
            if incoming.api.format == "anthropic":
                check(document, settings.threads, incoming.headers.get("user-agent", ""))
            metadata = document.members(document.members(document.root).get("metadata"))
            user = document.string(metadata.get("user_id")) or ""
            caller = incoming.credentials.caller(self._key, user, scope)
            is_known = bool(_distinguished(caller, credential))
            threshold, memory = incoming.threshold, self.values
            request = read.read(
                document, incoming.api, settings, caller, threshold, memory, knows_caller=is_known
            )
            if request is None:
                return None
            if request.is_ambiguous:
                raise Unreadable("its body has a repeated member on the path to a tool's result")
            model = request.conversation.model or model_in(incoming.path)
            conversation = structs.replace(request.conversation, model=model)
            request = structs.replace(
                request, conversation=conversation, path=incoming.path, headers=incoming.headers
            )
            return _identified(incoming, request)
        except NotJson:
            # A body without a content type may also be JSON.
            is_call = claims_json(incoming.headers.get("content-type", "")) and bool(incoming.body.strip())
            if is_call and settings.must_search:
                raise Unreadable("its body is no JSON that can be read") from None
            return None

    def _known(self, body: bytes, scope: bytes) -> Known | None:
        """Return the prefix of a body that was read before; None if no such prefix is known."""
        return None if self.values is None or len(body) < LONG else self.values.first(scope, body)

    def _document(self, incoming: Incoming, scope: bytes, known: Known | None) -> Document:
        """Return the document of a body. Only the part after the known prefix is parsed."""
        if known is None or self.values is None:
            return Document(incoming.body)
        return Document.begun(incoming.body, incoming.api.wire.messages, self.values, scope, known)

    async def _look(self, incoming: Incoming, request: Request, texts: Sequence[OutsideText] = ()) -> Stored:
        """Return the stored records about a request and `texts` outside of its results."""
        conversation, decisions = request.caller.conversation, self._stores.decisions
        at_first = rewrite.keys(request, ConversationState())
        others = [text.key for text in texts]
        # All look-ups begin before the first is awaited.
        asked_state = begun(self._stores.conversations.past(conversation, rewrite.start(request)))
        asked_decisions = begun(decisions.get([*at_first, *others]))
        responses = await self._responses(incoming, request)
        state, found = await asked_state, await asked_decisions
        keys = rewrite.keys(request, state) if state.limits.arguments else at_first
        is_dropped = self._stores.follow(conversation, state, keys)
        if is_dropped or len(keys) > len(at_first):
            found = await decisions.get([*keys, *others])
        return Stored(state, keys, found, responses)

    async def _responses(self, incoming: Incoming, request: Request) -> KnownResponses | None:
        """Return stored facts about a request's responses; None if no injected tool is allowed."""
        if incoming.api.kind not in ("messages", "count_tokens"):
            return None
        if request.document.members(request.conversation.messages):
            # The conversation is one message outside of a list, so no message can follow.
            return None
        format_name = incoming.api.format + ("_socket" if incoming.socket else "")
        with errors.contained(_log, "penumbra: no originals can be asked for in a request"):
            return await self._expansions.look(format_name, request.document, request.caller, request.chain)
        return None

    async def _without_secrets(
        self,
        request: Request,
        stored: Stored,
        caller: bytes,
        turn: workers.Turn,
    ) -> tuple[Request, Outside]:
        """Remove the secrets outside of results from a request. Return the request and the new decisions.
        Raises RedactionError."""
        by_rules = await self._rules.redact(request.settings.redaction_failure, caller)
        values = self._rules.values

        def by_values(text: str, hint: str) -> Redacted:
            return values.without(caller, text)

        def search() -> tuple[Request, Outside]:
            found = outside_results.search(request, stored.decisions, by_rules, by_values)
            return read.again(request) if found[0] else request, found[1]

        size = outside_results.undecided(request.outside, stored.decisions)
        return await turn.do(search, heavy=size > request.settings.offload_bytes, size=size)

    async def _with_past(
        self,
        incoming: Incoming,
        request: Request,
        stored: Stored,
        redact: Redact,
        *,
        is_recorded: bool,
        heavy: bool,
    ) -> Inputs:
        """Return the request with its earlier decisions and the state of its conversation."""
        if not is_recorded and await self._stores.lacks(stored.decisions, rewrite.answered(request)):
            stored = await self._look(incoming, request)
        state, keys = stored.state, stored.keys
        past = {key: stored.decisions[key] for key in keys if key in stored.decisions}
        if self._stores.is_recent and state.idle is None:
            # The look-up may have missed the state. Most conversations have had the injected tool since their
            # first request.
            request = structs.replace(request, settings=replace(request.settings, adopt="compress"))
        is_heavy = heavy or rewrite.is_heavy(request, past, state)
        cold = cache_price.of_request(request.format, request.conversation.model, request.document).cold
        if state.idle and any(key not in past for key in rewrite.answered(request)):
            # Some requests did not pass through Penumbra. The time of the last request is therefore unknown.
            state = replace(state, idle=0.0)
        is_cold = (
            is_recorded and incoming.api.kind == "messages" and cache_price.is_cold(request, state, cold)
        )
        return Inputs(
            request,
            past,
            redact,
            references=None,
            responses=stored.responses,
            reopened=cache_price.reopened(request, state, past) if is_cold else frozenset(),
            state=state,
            gaps=self._stores.gaps(state, past, keys, whole=is_recorded),
            is_heavy=is_heavy,
            cold=cold,
            is_cold=is_cold,
            is_recorded=is_recorded,
        )


def _distinguished(caller: Caller, credential: bytes) -> bytes:
    """Return the credential; empty if it does not distinguish the caller from others."""
    return b"" if caller.is_open else credential
