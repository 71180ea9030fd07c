"""This module is the part of the injected tool that needs the database.

`prepare` declares the tool in a request and puts hidden exchanges back. `texts` answers calls of the tool.
`remember` stores a response for later requests. A provider caches a prefix, which begins with the tools, and
binds reasoning to the prefix. So a conversation that has the injected tool keeps the tool. If earlier
responses did not pass through Penumbra, a conversation gets the tool only if nothing depends on the prefix.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Collection, Mapping
from functools import cache, partial

from msgspec import structs

from penumbra.apis import prefix_hash
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Hidden, InjectedCall, Tool, Visible
from penumbra.apis.formats import FORMATS
from penumbra.apis.identity import Caller
from penumbra.apis.parts import is_telling
from penumbra.apis.prefix_hash import Chain
from penumbra.compress.size import size
from penumbra.errors import contained
from penumbra.expand import hidden_exchanges, reference
from penumbra.expand import query as expand
from penumbra.expand.hidden_exchanges import (
    Answered,
    Conditions,
    Find,
    History,
    KnownResponses,
    Original,
    Prepared,
)
from penumbra.expand.loop import Ask, Done
from penumbra.expand.reference import References
from penumbra.store import exchanges
from penumbra.store.exchanges import PastResponse, orphan_key, signature_key, text_hash
from penumbra.store.exchanges import key as exchange_key
from penumbra.store.keyed_values import LATE, SOON, KeyedValues, begun
from penumbra.store.records import Originals, ToolCallCache, key_of_before
from penumbra.wire.document import Document

_DROP_BETA = "thinking-binding-controls"
_log = logging.getLogger(__name__)


@cache
def _say_unread(format_name: str) -> None:
    """Log, once for each API, that its responses can't be read."""
    _log.warning(
        "Penumbra: the model can't ask for originals, because responses of %s can't be read. "
        "That takes botocore, which comes with penumbra-proxy[bedrock].",
        format_name,
    )


class Expansions:
    """An `Expansions` serves the injected tool of one engine."""

    def __init__(
        self,
        key: bytes,
        exchanges: KeyedValues[PastResponse],
        originals: Originals,
        tool_calls: ToolCallCache,
        page_bytes: int = expand.PAGE_BYTES,
    ) -> None:
        """`key` is the installation's key. `page_bytes` limits the text that answers one call."""
        self._key = key
        self._tool_calls = tool_calls
        self._exchanges = exchanges
        self._originals = originals
        self._page_bytes = page_bytes

    async def look(
        self, format_name: str, document: Document, caller: Caller, chain: Chain | None = None
    ) -> KnownResponses | None:
        """Look up the responses in a request, before any change of the request. Return None if responses of
        this API can't be read. `chain` has the hashes of the request's messages, if they are known."""
        wire = FORMATS.get(format_name)
        if wire is None:
            _say_unread(format_name)
            return None
        owner, any_orphan = _owner(format_name, caller), orphan_key(caller.owner, "")
        reasoning = wire.reasoning(document)
        history, named = await self._history(wire, document, caller, owner, chain)
        compared = wire.compared_with(document)
        compared_id = document.string(compared) if compared is not None else None
        compared_key = _id_key(caller, compared_id) if compared_id else None
        others = (*history.signed, any_orphan if reasoning else None, compared_key)
        past = await self._exchanges.get([*history.keys, *filter(None, others)])
        orphaned: tuple[int, ...] = ()
        if any_orphan in past:
            keys = {thought.index: orphan_key(caller.owner, thought.known_by) for thought in reasoning}
            orphans = await self._exchanges.get(keys.values())
            orphaned = tuple(index for index, key in keys.items() if key in orphans)
        latest = past.get(compared_key) if compared_key is not None else None
        last_turn = ""
        if latest is not None and latest.scope == caller.scope and latest.hidden is not None:
            last_turn = latest.hidden.response_id
        if named is not None:
            past[history.keys[0]] = named
        return KnownResponses(wire, caller, owner, history, past, named, orphaned, last_turn)

    async def prepare(
        self, known: KnownResponses, document: Document, conditions: Conditions, chain: Chain | None = None
    ) -> Prepared | None:
        """Prepare a request for the injected tool. Return None if the request gets no tool, and the model
        can't know the tool from the history. `known` and `chain` are those of `look`."""
        prepared = await self._prepare(known, document, conditions, chain)
        wire = known.wire
        if known.orphaned:
            # Clients send the reasoning of broken-off responses again, but the provider would refuse it.
            wire.take_out(document, known.orphaned)
        if known.last_turn and (compared := wire.compared_with(document)) is not None:
            # The client knows the id of the first turn, but the provider compares the id of the last turn.
            document.replace(compared, known.last_turn)
        return prepared

    async def _prepare(
        self, known: KnownResponses, document: Document, conditions: Conditions, before: Chain | None
    ) -> Prepared | None:
        """Declare the tool and put hidden exchanges back. Return None as `prepare` does."""
        wire, caller, owner = known.wire, known.caller, known.owner
        history, named, past = known.history, known.named, known.past
        tools = wire.tools(document)
        if reference.name_for(tools) is None and not history.is_elsewhere:
            return None
        name = reference.name_for(tools) or (named.tool if named else "")
        if not name:
            return None
        if reference.name_for(tools) is None and (tools.own or not tools.continuable):
            # The response to this request can't have calls, but hidden calls are in the provider's history.
            hidden_exchanges.put_back(wire, document, history, past, offered=False)
            return None
        newest_first = (past[key] for key in reversed(history.keys) if key in past)
        latest = next((response for response in newest_first if not response.undecided), None)
        begins = latest is not None and not latest.tool and conditions.begins
        latest = None if begins else latest
        if latest is None and conditions.last_tool and conditions.last_tool not in tools.names:
            name = conditions.last_tool
        brought = reference.brought(wire, document, tools)
        is_offered = bool(brought) or await self._belongs(history, past, latest, conditions, caller)
        if brought:
            name = brought
        elif latest is not None and latest.tool and latest.tool not in tools.names:
            name = latest.tool
        elif latest is None and conditions.editing and not conditions.last_tool:
            name = reference.editing_name(name, tools)
        if not is_offered:
            names = (name, *reference.free_names(tools))
            name = next((one for one in names if _may_call(document, one, history, past)), "")
            if not name:
                return None
        # Tools that an earlier request has declared in its input stay declared.
        declared_at = b""
        if is_offered and not brought and not conditions.counting and tools.own:
            chain = before or prefix_hash.of(document)
            declared_at = _declare(wire, document, reference.tool(name), latest, chain, conditions)
        if is_offered and begins and not conditions.counting:
            await self._exchanges.put(_from_now_on(history, caller, name, declared_at), pause=SOON)
        replayed = hidden_exchanges.put_back(wire, document, history, past, _DROP_BETA in conditions.betas)
        # If the provider stores the history, the request does not show its conversation.
        followed = named if named is not None and named.scope == caller.scope else None
        conversation = followed.conversation if followed is not None else b""
        carries_all = not (history.is_elsewhere or tools.threaded)
        references = References(
            self._key, conversation or caller.conversation, name, conditions.hint, carries_all
        )
        renewed = latest if latest is not None and latest.scope != caller.scope else None
        return Prepared(
            wire,
            name,
            caller,
            references,
            history,
            replayed,
            owner,
            threaded=tools.threaded,
            declared_at=declared_at,
            begins=latest is None and bool(history.visible),
            earlier=renewed.conversation if renewed is not None else b"",
            provider_results=followed.held if followed is not None else (),
            is_followed=followed is not None,
            is_offered=is_offered,
        )

    async def _history(
        self, wire: ApiFormat, document: Document, caller: Caller, owner: bytes, before: Chain | None
    ) -> tuple[History, PastResponse | None]:
        """Return the history of a request, and the response that the request names by its id, or None."""
        response_id = wire.continued(document)
        if not response_id:
            return hidden_exchanges.read(wire, document, owner, b"", before or prefix_hash.of(document)), None
        key = _id_key(caller, response_id)
        named = (await self._exchanges.get([key])).get(key)
        if named is not None and named.scope != caller.scope and named.hidden is not None:
            # Another caller must not get the originals, but each hidden call needs a result.
            results = tuple(map(hidden_exchanges.forgotten, named.hidden.results))
            named = structs.replace(named, hidden=structs.replace(named.hidden, results=results))
        chain = prefix_hash.of(document, named.history if named is not None else prefix_hash.START)
        return hidden_exchanges.read(wire, document, owner, caller.elsewhere(response_id), chain), named

    async def _belongs(
        self,
        history: History,
        past: Mapping[bytes, PastResponse],
        latest: PastResponse | None,
        conditions: Conditions,
        caller: Caller,
    ) -> bool:
        """Return whether the conversation has the injected tool, or may get it."""
        if latest is not None:
            return bool(latest.tool)
        if not conditions.wanted:
            return False
        adopted = not all(key in past for key in history.keys)
        lost = history.is_elsewhere and history.keys[0] not in past
        if not adopted or not (conditions.at_stake or lost):
            return True
        if not conditions.counting:
            await self._exchanges.put(_from_now_on(history, caller), pause=SOON)
        return False

    async def leave_undecided(self, caller: Caller, response_id: str) -> None:
        """Record a response to a request without tools, text and history. The tool may still be added
        later."""
        response = PastResponse("", text_hash(""), scope=caller.scope, undecided=True)
        await self._exchanges.put({_id_key(caller, response_id): response})

    async def keep(self, prepared: Prepared | None, originals: Mapping[str, str]) -> None:
        """Store originals for later requests, if the model can ask for them."""
        if prepared is None or not prepared.keeps_originals:
            return
        own, *shared = prepared.scopes
        puts = [begun(self._originals.put(own, originals, carried=not prepared.threaded))]
        puts += [begun(self._originals.put(scope, originals)) for scope in shared]
        for put in puts:
            await put

    async def renew(self, prepared: Prepared, refs: Collection[str]) -> frozenset[str]:
        """Mark the originals of references as used, and return the references whose originals are missing."""
        if not refs or not prepared.keeps_originals:
            return frozenset()
        return frozenset().union(*[await self._originals.renew(scope, refs) for scope in prepared.scopes])

    async def texts(
        self, prepared: Prepared, find: Find, ask: Ask, provided: set[str], limit: int | None = None
    ) -> tuple[list[str], list[Answered]]:
        """Return the texts that answer the calls of an `Ask`. `provided` has the queries that this response
        has already answered. All texts together have at most `limit` bytes; None means no limit."""
        texts: list[str] = []
        answered: list[Answered] = []
        most = min(len(ask.calls), expand.MOST_CALLS)
        for number, call in enumerate(ask.calls):
            if number >= most and not ask.refused:
                texts.append(expand.TOO_MANY)
                answered.append(Answered("", False, size(expand.TOO_MANY), prepared.show(""), ""))
                continue
            calls = max(1, most - number)
            page = self._page_bytes if limit is None else expand.share(self._page_bytes, limit, calls)
            text, original, ref = await self._text(prepared, find, call, ask.refused, provided, page, most)
            texts.append(text)
            sent = len(text.encode("utf-8", "surrogatepass"))
            limit = None if limit is None else max(0, limit - sent)
            tool, family = (original.tool, original.family) if original else ("", "")
            # References are logged, and the model may send any text as a reference.
            ref = ref if reference.is_ref(ref) else ""
            answered.append(Answered(ref, original is not None, sent, prepared.show(tool), family))
        return texts, answered

    async def _text(
        self,
        prepared: Prepared,
        find: Find,
        call: InjectedCall,
        refused: bool,
        provided: set[str],
        page: int,
        calls: int,
    ) -> tuple[str, Original | None, str]:
        if refused:
            return expand.REFUSED, None, ""
        query = expand.parse(call.arguments)
        if isinstance(query, str):
            return query, None, ""
        original = None
        with contained(_log, "penumbra: an original could not be looked up"):
            original = await self.original(prepared, find, query.ref)
        if original is None:
            return expand.unknown(query.ref), None, query.ref
        if query.identity() in provided:
            return expand.PROVIDED, original, query.ref
        most = max(page, expand.LEAST_BYTES)
        seconds = expand.SEARCH_SECONDS / calls
        answer = partial(
            expand.result, original.text, query, prepared.tool, most, seconds=seconds, before=original.before
        )
        text = await asyncio.to_thread(answer)
        if not page and size(text) > size(expand.NO_SPACE):
            return expand.NO_SPACE, original, query.ref
        provided.add(query.identity())
        return text, original, query.ref

    async def original(self, prepared: Prepared, find: Find, ref: str) -> Original | None:
        """Return the original of a reference; None if it is unknown. A whole reference also means an original
        that is stored under its brief form."""
        original = await self._known_by(prepared, find, ref)
        if original is not None or (brief := reference.brief(ref)) == ref:
            return original
        original = await self._known_by(prepared, find, brief)
        is_meant = original is not None and prepared.references.whole(original.text) == ref
        return original if is_meant else None

    async def _known_by(self, prepared: Prepared, find: Find, ref: str) -> Original | None:
        original = await find(ref)
        if original is not None:
            return original
        caller, history = prepared.caller, prepared.history
        if caller.is_open and not (history.is_elsewhere and is_telling(history.visible[0].response_id)):
            return None
        for scope in prepared.scopes:
            if (text := await self._originals.get(scope, ref)) is not None:
                before = await self._originals.get(scope, key_of_before(ref))
                return Original(text, before=int(before or 0))
        return None

    async def remember(self, prepared: Prepared, done: Done) -> None:
        """Store a response under the keys by which later requests find it. Without the tool in its request, a
        response is stored only if it has hidden calls or reasoning that must be removed later."""
        if not prepared.is_offered and done.hidden is None and not done.orphans:
            return
        caller, owner, earlier = prepared.caller, prepared.owner, prepared.replayed.keys
        begun, before = prepared.history.begun, prepared.history.front
        calls = begun.calls + done.calls if begun is not None else done.calls
        text = begun.text + done.text if begun is not None else done.text
        visible = Visible(0, calls, text, "", 0, tokens=done.tokens)
        key, *others = exchanges.keys(owner, structs.replace(visible, item=done.item), before)
        response = PastResponse(
            prepared.declared,
            text_hash(text),
            hidden=done.hidden,
            conversation=prepared.references.scope,
            scope=caller.scope,
            undecided=not (prepared.is_offered or prepared.history.is_elsewhere),
            declared_at=prepared.declared_at,
        )
        # A single write stores all entries.
        entries = dict.fromkeys((key, *others), response)
        if done.orphans:
            orphans = (orphan_key(caller.owner, known_by) for known_by in ("", *done.orphans))
            entries |= dict.fromkeys(orphans, PastResponse("", ""))
        if done.signed_late and done.hidden is not None:
            earlier += (key,)
        if done.signature and earlier:
            entries[signature_key(owner, done.signature)] = PastResponse(prepared.declared, "", earlier)
        if done.ids and (prepared.threaded or done.hidden is not None):
            entries |= _by_ids(prepared, done)
        if done.calls and not done.sound:
            # Clients keep the text of a broken-off response but not its calls.
            words = structs.replace(visible, calls=(), tokens=())
            entries[exchange_key(owner, words, before)] = structs.replace(response, hidden=None)
        pause = SOON if must_be_found(prepared, done) else LATE
        await self._exchanges.put(entries, pause=pause)
        if prepared.threaded and done.ids:
            await self._tool_calls.record(caller.scope, done.made)
        if done.sound and prepared.inherit is not None:
            await self.keep(prepared, await prepared.inherit(prepared))


def must_be_found(prepared: Prepared, done: Done) -> bool:
    """Return whether a later request can't be understood without the stored response."""
    return done.hidden is not None or bool(done.orphans) or (done.sound and prepared.threaded)


def _by_ids(prepared: Prepared, done: Done) -> dict[bytes, PastResponse]:
    """Return a response by the ids that the client may know: in a stream the id of the first turn, in a
    document the id of the last turn."""
    results, caller = done.pending or (done.hidden.results if done.hidden else ()), prepared.caller
    history = prepared.history.before
    if prepared.history.responses:
        calls = [prefix_hash.call(call.name, call.arguments) for call in done.made]
        history = prefix_hash.answered(history, prefix_hash.plain(done.text), calls)
    entries: dict[bytes, PastResponse] = {}
    for response_id in dict.fromkeys((done.ids[0], done.ids[-1])):
        hidden = Hidden((), None, results, response_id=done.ids[-1])
        needed = bool(results) or response_id != done.ids[-1]
        entries[_id_key(caller, response_id)] = PastResponse(
            prepared.declared,
            text_hash(""),
            hidden=hidden if needed else None,
            conversation=prepared.references.scope,
            scope=caller.scope,
            history=history,
            held=prepared.provider_results,
        )
    return entries


def _id_key(caller: Caller, response_id: str) -> bytes:
    """Return the key under which a response with this id is stored."""
    visible = Visible(-1, (), "", "", 0, response_id=response_id)
    return exchange_key(caller.elsewhere(response_id), visible)


def _declare(
    wire: ApiFormat,
    document: Document,
    tool: Tool,
    latest: PastResponse | None,
    chain: Chain,
    conditions: Conditions,
) -> bytes:
    """Declare the injected tool after a message if the API allows that, otherwise with the other tools.
    Return the hash of the prefix up to the message; empty without such a message."""
    if conditions.inline and (latest is None or latest.declared_at):
        places = [latest.declared_at] if latest is not None else []
        for place in (*places, chain.history[-1]):
            if place in chain.history and wire.declare_after(document, tool, chain.history.index(place)):
                return place
    wire.declare(document, tool)
    return b""


def _may_call(document: Document, tool: str, history: History, past: Mapping[bytes, PastResponse]) -> bool:
    """Return whether a model may call the tool although the request does not declare the tool. The model may
    know the tool from a text of the request, from the provider's history, or from earlier calls. A JSON
    string that is only the name belongs to a tool or call of the client's own."""
    if history.is_elsewhere or any(response.hidden is not None for response in past.values()):
        return True
    name = tool.encode()
    return document.contains(name) and not document.contains(b'"%b"' % name)


def _from_now_on(
    history: History, caller: Caller, tool: str = "", declared_at: bytes = b""
) -> dict[bytes, PastResponse]:
    """Return an entry by which the conversation keeps its tool, or no tool, even if this response is lost."""
    text = text_hash(history.visible[-1].text)
    return {history.keys[-1]: PastResponse(tool, text, scope=caller.scope, declared_at=declared_at)}


def _owner(format_name: str, caller: Caller) -> bytes:
    """Return the owner of stored responses, which differs for each API."""
    name = format_name.removesuffix("_socket").encode()
    return hashlib.blake2b(name, key=caller.owner, digest_size=32, person=b"penumbra format").digest()
