"""A request as the journal has it: what was done, what it costs, where it stands in the provider's cache."""

from __future__ import annotations

import hashlib
import re
import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

from cachetools import LRUCache
from msgspec import Raw

from penumbra.apis import prompt_head
from penumbra.apis.formats import FORMATS
from penumbra.apis.prompt import declarations
from penumbra.conversation import cache_price
from penumbra.conversation.cache_price import Prices
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.model import Request, Shown
from penumbra.expand import reference
from penumbra.metrics import amounts, events
from penumbra.metrics.cache_miss import ComparedPrompt, Prompt
from penumbra.metrics.events import Totals
from penumbra.metrics.journal import NewResult, SentRequest
from penumbra.metrics.sessions import Rates
from penumbra.metrics.tool_use import DeclaredTool
from penumbra.wire.document import Document

_AGENT = re.compile(r"[A-Za-z][\w.-]{0,39}", re.ASCII)
_BREAKPOINT = re.compile(rb',? ?"cache_control": ?\{[^{}]{0,100}\}')
_TOOLS: LRUCache[bytes, tuple[DeclaredTool, ...]] = LRUCache(64)
"""Declared tools by a hash of all declarations."""
_MOST_TOOLS = 400
_BYTES_A_TOKEN = 4
_ON_REQUEST = ("anthropic", "bedrock", "bedrock_invoke")
"""Formats in which the client says what is to be cached."""


def of(
    host: str,
    incoming: Incoming,
    accepted: Accepted,
    totals: Totals,
    new: Sequence[Shown],
    *,
    changed: bool,
    most: int | None = None,
) -> SentRequest:
    """The entry of a request that is sent on, with at most so many of its `new` results. `host`: as it is
    shown; `totals`: of its results."""
    request = accepted.request
    model = request.conversation.model
    prices = cache_price.of_request(incoming.api.format, model, request.document)
    rates = _rates(amounts.price(model), prices)
    prepared = accepted.prepared
    return SentRequest(
        conversation=accepted.conversation,
        model=accepted.model,
        agent=agent(incoming.headers.get("user-agent", "")),
        is_turn=incoming.api.kind == "messages",
        project=accepted.project,
        host=host,
        api=incoming.api.id,
        note=accepted.line,
        totals=totals,
        new=new_results(request, new[:most]),
        secrets=accepted.hidden,
        changed=changed,
        body=(len(incoming.body), len(accepted.rewritten.body)),
        milliseconds=accepted.milliseconds,
        prompt=_prompt(incoming, accepted, prices),
        rates=rates,
        dollars_saved=_dollars(
            incoming, totals, Totals.of(new), rates.at(len(accepted.rewritten.body) // _BYTES_A_TOKEN)
        ),
        declared=_declared(prepared.tool) if prepared is not None else 0,
        put_back=_put_back(accepted),
        tools=_tools(incoming, request),
        called=frozenset(call.name for call in request.conversation.calls.values()),
    )


def agent(user_agent: str) -> str:
    """The program that a request comes from, by what it says first of itself."""
    found = _AGENT.match(user_agent)
    return found[0] if found else ""


def new_results(request: Request, shown: Sequence[Shown]) -> list[NewResult]:
    """Results that got their form in this request, as the journal counts them."""
    return [_new(request, entry) for entry in shown]


def _new(request: Request, entry: Shown) -> NewResult:
    call = entry.item.result.call
    said = request.document.source(call.arguments) if call and call.arguments is not None else b""
    digest = hashlib.blake2b(entry.item.digest + entry.tool.encode("utf-8", "replace"), digest_size=16)
    digest.update(b"\0" + said)
    kept = events.reason(entry.tool, entry.facts, request.settings)
    return NewResult(entry, digest.digest(), kept)


def _prompt(incoming: Incoming, accepted: Accepted, prices: Prices) -> Prompt:
    request = accepted.request
    return Prompt(
        time=time.time(),
        model=request.conversation.model,
        head=prompt_head.read(request.document),
        messages=request.chain.history if incoming.api.kind == "messages" else (),
        least=prices.minimum,
        life=prices.life,
        is_automatic=incoming.api.format not in _ON_REQUEST,
        rewrote=accepted.line,
        compared=_compared(incoming, request),
        cold_turn=accepted.cold_turn,
    )


def _tools(incoming: Incoming, request: Request) -> tuple[DeclaredTool, ...]:
    """Return the client's tools; requests of a conversation declare the same ones, which are read once."""
    arrays = tuple(FORMATS[incoming.api.format].prompt(request.document).tools)
    source = hashlib.blake2b(digest_size=16)
    for array in arrays:
        source.update(memoryview(array))
    key = source.digest()
    if (found := _TOOLS.get(key)) is None:
        found = _TOOLS[key] = tuple(
            DeclaredTool(name, len(declaration) // _BYTES_A_TOKEN)
            for name, declaration in islice(declarations(request.document, arrays), _MOST_TOOLS)
        )
    return found


def _compared(incoming: Incoming, request: Request) -> ComparedPrompt | None:
    """Digest a prompt that the provider is asked to compare, message by message."""
    document, wire = request.document, FORMATS[incoming.api.format]
    if (named := wire.compared_with(document)) is None:
        return None
    messages = document.items(wire.prompt(document).place)
    places = [document.place(message) for message in messages]
    digests = [hashlib.blake2b(digest_size=8) for _ in (*messages, None)]
    is_edited = [False] * len(digests)
    for edit in sorted(document.edits, key=lambda edit: (edit.start, edit.end)):
        # An insertion after a message, such as a hidden exchange, belongs to the message before it.
        index = bisect_right(places, (edit.start, len(document.data))) - 1
        if index < 0 or edit.start > places[index][1] + 1:
            index = len(messages)
        relative = edit.start - places[index][0] if index < len(messages) else 0
        digests[index].update(b"%d %d " % (relative, len(edit.data)) + edit.data)
        is_edited[index] = True
    written = tuple(document.about(message, _without_breakpoints) for message in messages)
    edits = (digest.digest() if one else b"" for digest, one in zip(digests, is_edited, strict=True))
    return ComparedPrompt(document.string(named) or "", written, tuple(edits))


def _without_breakpoints(_: Document, message: Raw) -> bytes:
    """Digest a message without `cache_control`, which clients move and providers don't compare."""
    source = _BREAKPOINT.sub(b"", memoryview(message))
    return hashlib.blake2b(source, digest_size=8).digest()


def _rates(known: amounts.Price | None, prices: Prices) -> Rates:
    if known is None:
        return Rates()
    once = known.input / amounts.MILLION
    return Rates(
        once,
        once * prices.read,
        once * prices.write,
        known.output / amounts.MILLION,
        _rates(known.long, prices) if known.long is not None else None,
        known.above,
    )


def _dollars(incoming: Incoming, totals: Totals, new: Totals, rates: Rates) -> float | None:
    """What the request costs less by what its results are smaller; None: the model's price is not known."""
    if incoming.api.kind != "messages":
        return 0.0
    if not rates.input:
        return None
    saved = totals.tokens_before - totals.tokens_after
    if saved <= 0:
        return 0.0
    saved_new = new.tokens_before - new.tokens_after
    return saved_new * rates.written + (saved - saved_new) * rates.cached


def _declared(name: str) -> int:
    declared = reference.tool(name)
    return len(declared.name) + len(declared.description) + len(declared.parameters)


def _put_back(accepted: Accepted) -> int:
    exchanges = accepted.prepared.replayed.exchanges if accepted.prepared is not None else ()
    # What stands last in an exchange is the client's own, too.
    return sum(len(part) for hidden in exchanges for part in (*hidden.before, *hidden.results))
