"""This module decides whether a request declares the injected tool. A small conversation may begin without
the tool.

Every later request repeats the declaration. In a small conversation, the declaration can cost more than the
tool saves. A conversation that begins small therefore gets no tool until the tool saves more than it costs.
Until then, it gets no forms that need the tool. Tools come first in the cached prefix, so after a late
declaration the whole prefix is written to the cache again.

Some APIs can declare a tool after a message (`rules/inline_tools.yaml`), so that the cached prefix stays.
With these APIs, the tool is declared as soon as shortening with loss saves more than the declaration costs.

Without such an API, the first request declares the tool if reasoning is bound to the prefix. The first
request also declares the tool if the provider stores the history, or if the settings need the tool at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial

from msgspec import structs

from penumbra import rules
from penumbra.compress import pipeline, token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.result import Loss, Redacted
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation import adoption, cache_price
from penumbra.conversation.adoption import binds
from penumbra.conversation.decide import Inputs
from penumbra.conversation.incoming import Incoming
from penumbra.conversation.items import Item
from penumbra.conversation.model import Request
from penumbra.conversation.planner import end_of_seen
from penumbra.conversation.result_text import cleaner, tool_output
from penumbra.expand.hidden_exchanges import Conditions
from penumbra.expand.reference import NAMES, SAMPLE, name_for, prefix, tool
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision

LINE = "rewrote the tools: from now on originals can be asked for"
"""The log line for a late declaration."""
_LITTLE = 1_024
"""A prefix of fewer tokens is cheap to write to the cache again."""
table = partial(rules.table, "inline_tools.yaml")


def is_documented(format_name: str, host: str, model: str, betas: str) -> bool:
    """Return whether the provider's documents say that a tool can be declared after a message. `host` has no
    port. `betas` is the value of the client's header `anthropic-beta`."""
    known, named = table(), {beta.strip() for beta in betas.split(",")}
    return (
        format_name in known["formats"]
        and any(host == each or host.endswith(f".{each}") for each in known["hosts"])
        and named.issuperset(known["betas"])
        and any(fnmatchcase(model.lower(), glob) for glob in known["models"])
    )


def is_inline(incoming: Incoming, request: Request) -> bool:
    """Return whether this conversation may get the injected tool by a declaration after a message."""
    host, betas = incoming.host.rpartition(":")[0], incoming.headers.get("anthropic-beta", "")
    is_known = is_documented(request.format, host, request.conversation.model, betas)
    return is_known and not _needs_at_once(incoming, request)


def _needs_at_once(incoming: Incoming, request: Request) -> bool:
    settings = request.settings
    return bool(
        settings.lossy == "on"
        or settings.external_strategy
        or settings.restores_secrets
        # The model can ask for originals of other conversations in the session.
        or settings.session_id
        or incoming.socket
        or request.wire.tools(request.document).threaded
    )


def may_wait(incoming: Incoming, inputs: Inputs) -> bool:
    """Return whether the conversation has no injected tool yet, because no form needs the tool."""
    request, state = inputs.request, inputs.state
    if is_inline(incoming, request):
        return not shows_references(request, inputs.past)
    is_first = request.conversation.last_response < 0
    if not is_first or name_for(request.wire.tools(request.document)) is None:
        # A request without tools, such as for a title, does not begin another conversation.
        return state.waits and not state.tool
    is_bound = binds(request.format, request.conversation.model)
    is_small = len(request.document.text()) < request.settings.expand_from
    return is_small and not is_bound and not _needs_at_once(incoming, request)


def is_due(
    request: Request,
    state: ConversationState,
    past: Mapping[bytes, Decision],
    redact: Callable[[str, str], Redacted],
    *,
    is_inline: bool = False,
    reopened: frozenset[bytes] = frozenset(),
) -> bool:
    """Return whether this request gives the tool to a conversation without the tool. `past` has the earlier
    decisions. Forms of results with keys in `reopened` may change. Raises RedactionError."""
    conversation = request.conversation
    last = conversation.last_response
    if is_inline:
        if state.limits.tools_first or not request.wire.may_declare_after(request.document):
            return False
        new = [item for item in request.items if item.result.turn > last]
        if any(past[item.key].facts.ref for item in new if item.key in past):
            # An unread result has a reference, so this request was sent before, and its response was lost.
            return True
        unread = [item for item in new if item.key not in past]
        unread += [item for item in request.items if item.key in reopened]
        return _saves_more(request, unread, redact, _declaration())
    if last < 0:
        return False
    if binds(request.format, conversation.model) and conversation.last_thinking >= 0:
        return False
    price = cache_price.of_request(request.format, conversation.model, request.document)
    if state.idle is not None and state.idle > price.cold:
        return True
    *_, newest = request.document.items(conversation.messages)
    unseen = (request.document.place(newest)[1] - end_of_seen(request)) / BYTES_PER_TOKEN
    sent = [past[item.key].facts for item in request.items if item.result.turn <= last and item.key in past]
    gone = sum(facts.tokens_before - facts.tokens_after for facts in sent)
    seen = len(request.document.text()) / BYTES_PER_TOKEN - unseen - gone
    least_cached = max(price.minimum, _LITTLE)
    if seen < least_cached:
        # No prefix is cached yet. The tool is declared with the first request that is long enough.
        return seen + unseen >= least_cached
    once = seen * (price.write - price.read) + _declaration() * price.write
    unread = [item for item in request.items if item.result.turn > last and item.key not in past]
    return _saves_more(request, unread, redact, cache_price.table()["margin"] * once / price.write)


def shows_references(request: Request, past: Mapping[bytes, Decision]) -> bool:
    """Return whether the model has already read a reference in this request."""
    last = request.conversation.last_response
    unread = {item.key for item in request.items if item.result.turn > last}
    return not unread.issuperset([key for key, decision in past.items() if decision.facts.ref])


@cache
def _declaration() -> int:
    """Return the estimated tokens of the declaration."""
    made = tool(NAMES[0])
    return token_estimate.estimate(f"{made.name} {made.description} {made.parameters.decode()}")


def _saves_more(
    request: Request, items: Sequence[Item], redact: Callable[[str, str], Redacted], least: float
) -> bool:
    """Return whether the tool would save more than `least` tokens in these items. Raises RedactionError."""
    if sum(len(item.text) for item in items) <= least:
        return False
    settings = request.settings
    overhead = prefix(SAMPLE, NAMES[0], settings.include_expand_hint)
    without, by_asking = (settings.policy(can_expand=can_expand) for can_expand in (False, True))
    by_asking = structs.replace(by_asking, overhead=overhead)
    saved = 0
    for item in items:
        if tools.skips(item.tool, settings.skip_tools):
            continue
        output = tool_output(request, item)
        clean = cleaner(request, item, output, redact)
        whole, smaller = (
            pipeline.shorten(output, policy, clean, lambda original: "") for policy in (without, by_asking)
        )
        sent = f"{overhead if smaller.loss is Loss.LOSSY else ''}{smaller.text}"
        saved += max(0, token_estimate.estimate(whole.text) - token_estimate.estimate(sent))
    return saved > least


def conditions(incoming: Incoming, inputs: Inputs) -> Conditions:
    """Return the conditions for the injected tool in a request. Raises RedactionError."""
    request, state, past = inputs.request, inputs.state, inputs.past
    settings, conversation = request.settings, request.conversation
    inline = is_inline(incoming, request)
    may_have = settings.enable_expand_context and settings.shortens
    if may_have and inputs.waits:
        may_have = is_due(request, state, past, inputs.redact, is_inline=inline, reopened=inputs.reopened)
    shows = shows_references(request, past)
    thinks = conversation.last_thinking >= 0
    is_bound = thinks and binds(request.format, conversation.model)
    # If the last request declared the tool, the provider has cached the declaration, even if the response was
    # lost.
    at_stake = (settings.adopt == "auto" and not (state.tool or shows)) and (
        is_bound if inputs.is_cold else thinks or adoption.may_be_cached(request.document, request.api.cache)
    )
    # The cached prefix begins with the tool. The tool therefore stays while Penumbra is paused.
    stays = settings.pause and bool(state.tool) and conversation.last_response >= 0
    return Conditions(
        wanted=may_have or shows or stays,
        at_stake=not inputs.waits and (settings.adopt == "raw" or at_stake),
        hint=settings.include_expand_hint,
        betas=incoming.headers.get("anthropic-beta", ""),
        counting=incoming.api.kind == "count_tokens",
        editing=settings.restores_secrets,
        inline=inline and not state.limits.tools_first,
        last_tool=state.tool,
        begins=shows or (inputs.is_cold and not is_bound),
    )
