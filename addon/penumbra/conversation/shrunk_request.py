"""Smaller results for a request that is too large: after a refusal, or over a budget or a learned limit.

The forms are decisions, which are remembered like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penumbra.apis import parts
from penumbra.compress import token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.result import Loss, Redacted
from penumbra.compress.size import size
from penumbra.config.parsers import ToolCompaction
from penumbra.config.settings import Settings
from penumbra.conversation import result_text, shrink_to_fit, superseded
from penumbra.conversation.decide import Inputs
from penumbra.conversation.dedup import BACK_REFERENCES
from penumbra.conversation.items import Item
from penumbra.conversation.model import Plan, Request
from penumbra.conversation.shrink_to_fit import SLACK, Need
from penumbra.expand.reference import References
from penumbra.redaction import RedactionError
from penumbra.store.conversations import LearnedLimits
from penumbra.store.decisions import Decision, Facts, referents

_SMALL = 300
"""Results up to this size (UTF-8 bytes) give nothing worth having."""
_ALONE = 400
"""Bytes that a text may have at least which says by reference what is no longer there."""


def smaller(
    request: Request,
    decided: Mapping[bytes, Decision],
    needed: shrink_to_fit.Need,
    redact: Callable[[str, str], Redacted],
    references: References | None,
) -> Plan:
    """Smaller forms for as many results as it takes, old ones first.

    `decided`: the form of every text as it was sent. Tools that the operator excluded stay as they are.
    Raises RedactionError.
    """
    reader = _Reader(request, decided, redact, references)
    texts = _texts(reader, needed.most)
    planned = shrink_to_fit.plan(texts, needed)
    chosen = {text.index: (text.original, planned[text.index]) for text in texts if text.index in planned}
    chosen |= _followers(reader, chosen)
    decisions: dict[bytes, Decision] = {}
    originals: dict[str, str] = {}
    for index, (original, form) in chosen.items():
        item = request.items[index]
        ref = references.ref(original) if references is not None and form != original else ""
        if ref:
            originals[ref] = original
        loss = Loss.NONE if form == original else Loss.LOSSY
        decisions[item.key] = decision("recovered", item.text, form, ref, request_facts(decided, item), loss)
    return Plan(decisions, originals)


def _followers(reader: _Reader, chosen: Mapping[int, tuple[str, str]]) -> dict[int, tuple[str, str]]:
    """Original and new form of the texts that say a part of themselves by reference to a chosen one.

    Their references would lose their targets, so each gets a form that stands for itself.
    """
    gone = {reader.request.items[index].key for index in chosen}
    followers: dict[int, tuple[str, str]] = {}
    for index, item in enumerate(reader.request.items):
        facts = request_facts(reader.decided, item)
        if item.key in gone or BACK_REFERENCES not in facts.stages:
            continue
        if any(bytes.fromhex(key) in gone for key in facts.referents):
            followers[index] = reader.alone(item)
            gone.add(item.key)
    return followers


@dataclass(frozen=True, slots=True)
class _Reader:
    """A request's texts as they came, as they were sent, and as they could be."""

    request: Request
    decided: Mapping[bytes, Decision]
    redact: Callable[[str, str], Redacted]
    references: References | None

    def forwarded(self, item: Item) -> str:
        """The text as it was sent."""
        past = self.decided.get(item.key)
        return item.text if past is None or past.text is None else past.text

    def original(self, item: Item) -> str:
        """The whole text without secrets. Raises RedactionError."""
        try:
            return result_text.original(self.request, item, self.redact)
        except RedactionError:
            raise
        except Exception:
            output = result_text.tool_output(self.request, item)
            return result_text.cleaner(self.request, item, output, self.redact)(item.text).text

    def prefix(self, original: str) -> str:
        """Beginning of a form that leaves something out."""
        return self.references.prefix(self.references.ref(original)) if self.references is not None else ""

    def alone(self, item: Item) -> tuple[str, str]:
        """The original, and a form about as large as what was sent that refers to nothing."""
        original, forwarded = self.original(item), self.forwarded(item)
        room = max(size(forwarded), _ALONE)
        if size(original) <= room:
            return original, original
        prefix = self.prefix(original)
        form = shrink_to_fit.shorten(original, room - size(prefix))
        return original, prefix + (forwarded if form is None else form)


def decision(how: str, before: str, form: str, ref: str, past: Facts, loss: Loss = Loss.LOSSY) -> Decision:
    """The decision for a text whose form changes."""
    facts = Facts(
        how=how,
        loss=int(loss),
        stages=(how,),
        family=past.family,
        ref=ref,
        bytes_before=size(before),
        bytes_after=size(form),
        tokens_before=token_estimate.estimate(before),
        tokens_after=token_estimate.estimate(form),
        redactions=dict(past.redactions),
    )
    return Decision(form, facts)


def request_facts(decided: Mapping[bytes, Decision], item: Item) -> Facts:
    """Facts of a text's current form."""
    return decided[item.key].facts if item.key in decided else Facts()


def calls(request: Request, parameters: ToolCompaction) -> list[superseded.Result]:
    """The request's results, each with its call."""
    last = request.conversation.last_response
    return [
        superseded.Result(
            index=index,
            call_id=item.result.call_id,
            tool=item.tool,
            arguments=parts.decoded_arguments(request.document, item.result.call),
            is_error=item.result.is_error,
            unread=item.result.turn > last,
        )
        for index, item in enumerate(request.items)
    ]


def _texts(reader: _Reader, most: int) -> list[shrink_to_fit.Text]:
    request, parameters = reader.request, reader.request.settings.tool_compaction
    given_up = superseded.find(calls(request, parameters), parameters)
    referred = referents(reader.decided)
    last = request.conversation.last_response
    texts: list[shrink_to_fit.Text] = []
    seen: set[bytes] = set()
    for index, item in enumerate(request.items):
        forwarded = reader.forwarded(item)
        if item.key in seen or size(forwarded) <= _SMALL or (most and len(forwarded) <= most):
            continue
        if tools.skips(item.tool, request.settings.skip_tools):
            continue
        seen.add(item.key)
        original = reader.original(item)
        texts.append(
            shrink_to_fit.Text(
                index,
                original,
                forwarded,
                reader.prefix(original),
                unread=item.result.turn > last,
                superseded=index in given_up,
                referred=item.key in referred,
            )
        )
    return texts


def may_shorten(settings: Settings) -> bool:
    """True if the operator lets results be left out to make a request fit."""
    return settings.recover == "auto" and settings.lossy != "off" and settings.shortens


def plan(inputs: Inputs, decided: Mapping[bytes, Decision], body: bytes) -> Plan:
    """The smaller forms; nothing if the request fits.

    `decided`: the form of every text; `body`: as it would be sent. Raises RedactionError.
    """
    request = inputs.request
    if not request.items or not may_shorten(request.settings):
        return Plan()
    planned = Plan()
    for needed in _needs(request, decided, body, inputs.state.limits):
        current = {**decided, **planned.decisions}
        planned = planned.plus(smaller(request, current, needed, inputs.redact, inputs.references))
    return planned


def _needs(
    request: Request, decided: Mapping[bytes, Decision], body: bytes, limits: LearnedLimits
) -> list[Need]:
    needs: list[Need] = []
    if limits.most:
        needs.append(Need(most=limits.most))
    if limits.bytes and len(body) > limits.bytes:
        needs.append(Need(bytes=len(body) - int(limits.bytes * SLACK)))
    # Three bytes a token is less than any text has: most requests need no counting.
    if limits.tokens and len(body) > 2 * limits.tokens:
        estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
        if estimated > limits.tokens:
            needs.append(Need(tokens=estimated - int(limits.tokens * SLACK)))
    if limit := request.settings.aggregate_budget_bytes:
        sizes = [request_facts(decided, item).bytes_after for item in request.items]
        if missing := shrink_to_fit.excess(sizes, limit):
            needs.append(Need(bytes=missing))
    return needs
