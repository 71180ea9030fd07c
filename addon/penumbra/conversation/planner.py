"""This module plans smaller forms for results and arguments of calls that were sent before.

`superseded` plans for texts that a later call has made useless, if this saves more than the rewritten cache
costs. Arguments of calls change only if the settings say so. Arguments are planned after results, because
everything after the first changed result is written to the cache again in any case. `to_fit` plans for the
results of a request that is too large: after a refusal, over a budget, or over a learned limit. Plans are
made before the request is rewritten, and are final.

A superseded text stays if it is unread, if no decision about it is known, or if another result refers to it.
Calls in signed messages stay. Calls to which later reasoning is bound also stay.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

from msgspec import Raw, Struct, structs

from penumbra import errors
from penumbra.apis import parts, prefix_hash
from penumbra.compress import token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.result import Loss
from penumbra.compress.size import size
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.config.settings import Settings
from penumbra.conversation import (
    adoption,
    back_references,
    cache_price,
    result_text,
    smaller_texts,
    superseding,
)
from penumbra.conversation.cache_price import Change, Gain, Prices
from penumbra.conversation.call_names import call_key
from penumbra.conversation.decide import Inputs, measured
from penumbra.conversation.items import Item
from penumbra.conversation.model import Plan, Request
from penumbra.conversation.superseding import Newer
from penumbra.errors import RedactionError
from penumbra.expand.reference import References
from penumbra.redaction.redact_calls import Redact
from penumbra.store.conversations import LearnedLimits
from penumbra.store.decisions import Decision, Facts, referents

SLACK = 0.85
"""A request above a limit is shrunk to this fraction of the limit, so that texts don't change every turn."""
_LEAST = 400
"""A superseded result of fewer bytes is not shortened."""
_SMALL = 300
"""A result of at most this number of UTF-8 bytes is not shortened to make a request fit."""
_ALONE = 400
"""A text that loses its references may have at least this number of bytes."""
_RUNS = ("bash", "other")
_SIGNED = (b"thoughtSignature", b"thought_signature")
"""The members of signed messages."""
_HEAD_BYTES = 40_000
"""Only this number of bytes of a body is read to find out whether it is long enough for a cache."""
_log = logging.getLogger(__name__)


class Need(Struct, frozen=True):
    """A `Need` is the amount by which a request has to shrink."""

    tokens: int = 0
    """Estimated tokens to save."""
    bytes: int = 0
    """UTF-8 bytes to save."""
    most: int = 0
    """The greatest number of characters of a result; 0 if there is no limit."""


class SentText(Struct, frozen=True):
    """A `SentText` is one result text of the request: its redacted original, and the form that was sent."""

    index: int
    """Index among the request's texts."""
    original: str
    sent: str
    prefix: str = ""
    """The text with the reference. Every lossy form begins with this text."""
    unread: bool = False
    superseded: bool = False
    referred: bool = False
    """True if a later result refers to this one."""

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int]:
        """Return the sort key of the texts to shorten. Superseded texts come first, then answered texts, then
        texts to which others refer. Unread texts come last. Larger texts come before smaller texts."""
        referred = self.referred and not self.superseded
        return self.unread, not self.superseded, referred, -len(self.sent), self.index

    def within(self, limit: int) -> str | None:
        """Return the text in at most `limit` bytes with its prefix; None if there is no smaller form."""
        form = smaller_texts.shorten(self.original, limit - size(self.prefix))
        return None if form is None else self.prefix + form


class _Step(NamedTuple):
    """A `_Step` is a limit: for the unread texts if `unread` is true, otherwise for the other texts."""

    unread: bool
    limit: int
    """The greatest size of a text in bytes."""
    only_superseded: bool = False


_STEPS = (
    _Step(False, 400, only_superseded=True),
    _Step(False, 4_000),
    _Step(False, 1_000),
    _Step(True, 16_000),
    _Step(False, 400),
    _Step(True, 4_000),
    _Step(True, 1_500),
)


def fitted(texts: Sequence[SentText], needed: Need) -> dict[int, str]:
    """Make texts smaller until enough is saved or no text can become smaller. Return the new forms by the
    index of their text."""
    if needed.most:
        capped = ((text, text.within(needed.most)) for text in texts if len(text.sent) > needed.most)
        return {text.index: form for text, form in capped if form and size(form) < size(text.sent)}
    measure: Callable[[str], int] = size if needed.bytes else token_estimate.estimate
    missing = needed.bytes or needed.tokens
    forms: dict[int, str] = {}
    ranked = sorted(texts, key=attrgetter("rank"))
    for step in _STEPS:
        for text in ranked:
            if text.unread != step.unread or (step.only_superseded and not text.superseded):
                continue
            if missing <= 0:
                return forms
            current, form = forms.get(text.index, text.sent), text.within(step.limit)
            if form is not None and size(form) < size(current) and measure(form) < measure(current):
                missing -= measure(current) - measure(form)
                forms[text.index] = form
    return forms


def may_shorten(settings: Settings) -> bool:
    """Return whether the settings allow results to be shortened so that a request fits."""
    return settings.recover == "auto" and settings.lossy != "off" and settings.shortens


_UNPRICED = Change(0, 0, 0)


class Candidate(Struct, frozen=True):
    """A `Candidate` is a smaller form of a result or of the arguments of a call."""

    key: bytes
    decision: Decision
    original: str
    place: tuple[int, int] = (0, 0)
    """The offsets of the text in the original body. The price of the change depends on them."""
    change: Change = _UNPRICED


def _plan(chosen: Sequence[Candidate], line: str = "") -> Plan:
    made = ((candidate.decision.facts.ref, candidate.original) for candidate in chosen)
    decisions = {candidate.key: candidate.decision for candidate in chosen}
    return Plan(decisions, {ref: original for ref, original in made if ref}, line)


def _decision(how: str, before: str, form: str, ref: str, past: Facts, loss: Loss = Loss.LOSSY) -> Decision:
    own = {"family": past.family, "redactions": dict(past.redactions)}
    return Decision(form, measured(how, before, form, loss=int(loss), stages=(how,), ref=ref, **own))


class Planner(Struct, frozen=True, dict=True):
    """A `Planner` makes the plans for one request. `decided` has the decisions about sent texts."""

    request: Request
    decided: Mapping[bytes, Decision]
    redact: Redact
    references: References | None
    idle: float | None = None
    """Seconds since the conversation's last request; None if unknown."""

    @classmethod
    def of(cls, inputs: Inputs) -> Planner:
        return cls(inputs.request, inputs.past, inputs.redact, inputs.references, inputs.state.idle)

    # Texts of a request

    @cached_property
    def _newer(self) -> Mapping[int, Newer]:
        """Return the superseding calls, by the index of the superseded result."""
        request, last = self.request, self.request.conversation.last_response
        results = [
            superseding.Result(
                call_id=item.result.call_id,
                tool=item.tool,
                arguments=parts.decoded_arguments(request.document, item.result.call),
                is_error=item.result.is_error,
                unread=item.result.turn > last,
            )
            for item in request.items
        ]
        return superseding.newer_calls(results, request.settings.tool_compaction)

    @cached_property
    def _price(self) -> Prices:
        request = self.request
        return cache_price.of_request(request.format, request.conversation.model, request.document)

    @cached_property
    def _seen(self) -> int:
        return end_of_seen(self.request)

    @cached_property
    def _referred(self) -> frozenset[bytes]:
        return referents(self.decided)

    def _facts(self, item: Item) -> Facts:
        return self.decided[item.key].facts if item.key in self.decided else Facts()

    def _sent(self, item: Item) -> str:
        past = self.decided.get(item.key)
        return item.text if past is None or past.text is None else past.text

    def _original(self, item: Item) -> str:
        """Return the whole text without secrets. Raises RedactionError."""
        try:
            return result_text.original(self.request, item, self.redact)
        except RedactionError:
            raise
        except Exception:
            output = result_text.tool_output(self.request, item)
            return result_text.cleaner(self.request, item, output, self.redact)(item.text).text

    def _ref(self, original: str) -> str:
        return self.references.ref(original) if self.references is not None else ""

    def _prefix(self, original: str) -> str:
        """Return the text with the reference; empty if the model can't ask for originals."""
        return self.references.prefix(self._ref(original)) if self.references is not None else ""

    def _skips(self, item: Item) -> bool:
        return tools.skips(item.tool, self.request.settings.skip_tools)

    # Changes that pay

    def superseded(self) -> tuple[Plan, Plan]:
        """Return the plans for superseded results and for superseded arguments. Raises RedactionError."""
        settings = self.request.settings
        allowed = self.references is not None or settings.lossy == "on"
        asked_for = settings.supersede != "off" and settings.lossy != "off"
        if not (allowed and asked_for and settings.rewrites_history and self.decided) or self._waits:
            return Plan(), Plan()
        results = self._or_nothing(self.superseded_results)
        return results, self._or_nothing(partial(self.superseded_arguments, results))

    @property
    def _waits(self) -> bool:
        """Return whether changes wait for a pause after which no part of the request is cached."""
        is_priced = self.request.settings.supersede == "priced"
        return not is_priced and (self.idle is None or self.idle <= self._price.cold)

    @staticmethod
    def _or_nothing(plan: Callable[[], Plan]) -> Plan:
        words = "Penumbra leaves superseded texts as they are"
        with errors.contained(_log, words, logging.WARNING, (RedactionError,)):
            return plan()
        return Plan()

    def superseded_results(self) -> Plan:
        """Return a plan for the superseded results whose change pays. Raises RedactionError."""
        replaceable = [
            (item, newer)
            for index, newer in sorted(self._newer.items())
            if newer.of_result and self._is_replaceable(item := self.request.items[index])
        ]
        if not replaceable:
            return Plan()
        decide = self._chooser(bound=self._is_bound(min(item.result.turn for item, _ in replaceable)))
        # Making forms takes time, so they are made only if even empty results would pay.
        best = decide([self._change(item, 0) for item, _ in replaceable])
        if not best.count:
            return Plan(line=best.line)
        made = (self._smaller_result(item, newer) for item, newer in replaceable)
        candidates = [candidate for candidate in made if candidate is not None]
        verdict = decide([candidate.change for candidate in candidates])
        return _plan(candidates[len(candidates) - verdict.count :], verdict.line)

    def _is_replaceable(self, item: Item) -> bool:
        facts = self._facts(item)
        return (
            item.key in self.decided
            and facts.how not in ("superseded", "recovered", "duplicate")
            and item.key not in self._referred
            and facts.bytes_after >= _LEAST
            and not self._skips(item)
        )

    def _smaller_result(self, item: Item, newer: Newer) -> Candidate | None:
        original, facts = self._original(item), self._facts(item)
        form = smaller_texts.superseded(
            original,
            f"tool={item.tool}, callId={item.result.call_id}",
            newer.call_id,
            self.request.settings.tool_compaction.output_trim_bytes,
            written=newer.writes and newer.category == "read",
            runs=newer.category in _RUNS,
        )
        if form is None:
            return None
        text = self._prefix(original) + form
        made = _decision("superseded", item.text, text, self._ref(original), facts)
        if made.facts.tokens_after >= facts.tokens_after:
            return None
        place, change = self.request.document.place(item.result.value), made.facts.tokens_after
        return Candidate(item.key, made, original, place, self._change(item, change))

    def _change(self, item: Item, after: int) -> Change:
        """Return the change of a result to a form of `after` tokens."""
        end = self.request.document.place(item.result.value)[1]
        cached = max(0, int((self._seen - end) / BYTES_PER_TOKEN) - self._saved_after(end))
        return Change(self._facts(item).tokens_after, after, cached)

    @cached_property
    def _saved_after(self) -> Callable[[int], int]:
        """Return a function that takes an offset in the body, and returns the tokens saved by the sent forms
        after it."""
        places: list[int] = []
        sums = [0]
        for item in self.request.items:
            facts = self._facts(item)
            places.append(self.request.document.place(item.result.value)[0])
            sums.append(sums[-1] + facts.tokens_before - facts.tokens_after)
        return lambda start: sums[-1] - sums[bisect_right(places, start)]

    def _chooser(self, *, bound: bool) -> Callable[[Sequence[Change]], Gain]:
        """Return the function that decides how many changes pay. `bound` is as in `cache_price.decide`."""
        request, price = self.request, self._price
        made = len(request.document.items(request.conversation.messages)) // 2
        is_cold = self.idle is not None and self.idle > price.cold
        if not is_cold:
            # A prefix without cache breakpoints counts as cached, because gateways set breakpoints
            # themselves.
            head = request.document.text()[:_HEAD_BYTES].decode("utf-8", "replace")
            is_cold = token_estimate.estimate(head) < price.minimum
        turns = cache_price.remaining_turns(made)
        return partial(cache_price.decide, price=price, turns=turns, cold=is_cold, bound=bound)

    def _is_bound(self, turn: int) -> bool:
        """Return whether later reasoning is bound to this message and may not be dropped."""
        request = self.request
        if not adoption.binds(request.format, request.conversation.model):
            return False
        drops = request.settings.bound_thinking == "drop" and b'"drop_block"' in request.document.text()
        return request.conversation.last_thinking > turn and not drops

    def superseded_arguments(self, results: Plan) -> Plan:
        """Return a plan for superseded arguments. `results` is the plan for results. Raises
        RedactionError."""
        if not self.request.settings.tool_compaction.arguments:
            return Plan()
        # The first of a call's results represents the call.
        first = {
            self.request.items[index].result.call_id: index
            for index in sorted(self._newer, reverse=True)
            if self._newer[index].repeats
        }
        made = (self._smaller_arguments(self.request.items[index]) for index in sorted(first.values()))
        candidates = [candidate for candidate in made if candidate is not None]
        if not candidates:
            return Plan()
        place = self.request.document.place
        changed = [item.result.value for item in self.request.items if item.key in results.decisions]
        anew = min((place(value)[0] for value in changed), default=self._seen)
        free = [one for one in candidates if results.decisions and one.place[0] >= anew]
        others = [one for one in candidates if one not in free]
        seen = min(anew, self._seen)
        changes = [
            replace(one.change, cached=max(0, int((seen - one.place[1]) / BYTES_PER_TOKEN))) for one in others
        ]
        verdict = self._chooser(bound=False)(changes)
        chosen = [*others[len(others) - verdict.count :], *free]
        return _plan(chosen, f"left out arguments of {len(chosen)} older calls" if chosen else "")

    def _smaller_arguments(self, item: Item) -> Candidate | None:
        """Return a smaller form of the arguments of an item's call; None if the arguments stay."""
        document, settings = self.request.document, self.request.settings
        value, parameters = _arguments(item), settings.tool_compaction
        if value is None or item.key not in self.decided or not self._may_change(item, value):
            return None
        source, text = document.source(value), document.string(value)
        before = source.decode("utf-8", "surrogatepass") if text is None else text
        original = self.redact(before, "").text if settings.redact_secrets else before
        ref, key = self._ref(original), _key(item, source)
        trimmed = smaller_texts.trimmed(
            before.encode("utf-8", "surrogatepass"),
            parameters.input_trim_bytes,
            parameters.tool_identifier_fields.get(item.tool, ()),
            ref,
        )
        if trimmed is None or key in self.decided:
            return None
        made = _decision("superseded", before, trimmed.decode("utf-8", "surrogatepass"), ref, Facts())
        change = Change(made.facts.tokens_before, made.facts.tokens_after, 0)
        if change.saved <= 0:
            return None
        return Candidate(key, made, original, document.place(value), change)

    def _may_change(self, item: Item, value: Raw) -> bool:
        """Return whether the arguments of a call may change. The call must be unsigned, its tool must not
        be excluded, and no text or reasoning may depend on the arguments."""
        document = self.request.document
        if self._skips(item) or _is_edited(self.request, value):
            return False
        if call_key(item.result.call_id, prefix_hash.arguments_hash(document, value)) in self._referred:
            return False
        messages = document.items(self.request.conversation.messages)
        places = [document.place(message) for message in messages]
        at = bisect_right([start for start, _ in places], document.place(value)[0]) - 1
        message = document.data[slice(*places[at])] if at >= 0 else b""
        return not any(mark in message for mark in _SIGNED) and not self._is_bound(at - 1)

    # Changes that make a request fit

    def needs(self, body: bytes, limits: LearnedLimits) -> list[Need]:
        """Return the savings that a body needs to meet the learned limits and the operator's budget."""
        needs: list[Need] = []
        if limits.most:
            needs.append(Need(most=limits.most))
        if limits.bytes and len(body) > limits.bytes:
            needs.append(Need(bytes=len(body) - int(limits.bytes * SLACK)))
        # Most tokens have more than two bytes, so most requests need no count.
        if limits.tokens and len(body) > 2 * limits.tokens:
            estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
            if estimated > limits.tokens:
                needs.append(Need(tokens=estimated - int(limits.tokens * SLACK)))
        limit = self.request.settings.aggregate_budget_bytes
        if 0 < limit < (total := sum(self._facts(item).bytes_after for item in self.request.items)):
            needs.append(Need(bytes=total - int(limit * SLACK)))
        return needs

    def to_fit(self, *needs: Need) -> Plan:
        """Return a plan of smaller forms for as many results as needed, beginning with answered results.
        Results of excluded tools stay. Raises RedactionError."""
        planned = Plan()
        for needed in needs:
            now = structs.replace(self, decided={**self.decided, **planned.decisions})
            planned = planned.plus(now._to_fit(needed))
        return planned

    def _to_fit(self, needed: Need) -> Plan:
        texts = self._texts(needed.most)
        forms = fitted(texts, needed)
        chosen = {text.index: (text.original, forms[text.index]) for text in texts if text.index in forms}
        candidates: list[Candidate] = []
        for index, (original, form) in {**chosen, **self._followers(chosen)}.items():
            item = self.request.items[index]
            ref, loss = ("", Loss.NONE) if form == original else (self._ref(original), Loss.LOSSY)
            made = _decision("recovered", item.text, form, ref, self._facts(item), loss)
            candidates.append(Candidate(item.key, made, original))
        return _plan(candidates)

    def _texts(self, most: int) -> list[SentText]:
        """Return the results that may be cut, without repetitions. If `most` is not 0, return only results of
        more than `most` characters."""
        last = self.request.conversation.last_response
        texts: dict[bytes, SentText] = {}
        for index, item in enumerate(self.request.items):
            sent = self._sent(item)
            if item.key in texts or size(sent) <= _SMALL or (most and len(sent) <= most) or self._skips(item):
                continue
            original = self._original(item)
            texts[item.key] = SentText(
                index,
                original,
                sent,
                self._prefix(original),
                unread=item.result.turn > last,
                superseded=(newer := self._newer.get(index)) is not None and newer.of_result,
                referred=item.key in self._referred,
            )
        return list(texts.values())

    def _followers(self, chosen: Mapping[int, tuple[str, str]]) -> dict[int, tuple[str, str]]:
        """Return the original and a new form of each text that refers to a chosen text. The new form has no
        references, because the chosen texts lose the lines to which they referred."""
        gone = {self.request.items[index].key for index in chosen}
        followers: dict[int, tuple[str, str]] = {}
        for index, item in enumerate(self.request.items):
            facts = self._facts(item)
            if item.key in gone or back_references.STAGE not in facts.stages:
                continue
            if any(bytes.fromhex(key) in gone for key in facts.referents):
                followers[index] = self._alone(item)
                gone.add(item.key)
        return followers

    def _alone(self, item: Item) -> tuple[str, str]:
        """Return the original of a text and a form of about the sent size, without references."""
        original, sent = self._original(item), self._sent(item)
        space = max(size(sent), _ALONE)
        if size(original) <= space:
            return original, original
        prefix = self._prefix(original)
        form = smaller_texts.shorten(original, space - size(prefix))
        return original, prefix + (sent if form is None else form)


def end_of_seen(request: Request) -> int:
    """Return the offset of the end of the messages that the provider has seen before."""
    items = request.document.items(request.conversation.messages)
    last = min(max(request.conversation.last_response - 1, 0), len(items) - 1)
    return request.document.place(items[last])[1] if items else 0


# Arguments of calls


def argument_keys(request: Request) -> dict[bytes, Item]:
    """Return one item for each call with arguments. The keys are those of the decisions about the
    arguments."""
    items: dict[bytes, Item] = {}
    seen: set[int] = set()
    for item in request.items:
        value = _arguments(item)
        if value is not None and id(value) not in seen:
            seen.add(id(value))
            items[_key(item, request.document.source(value))] = item
    return items


def put_arguments(request: Request, decided: Mapping[bytes, Decision]) -> frozenset[str]:
    """Put the decided forms of arguments into the request, and return the ids of the edited calls."""
    document = request.document
    edited: set[str] = set()
    for key, item in argument_keys(request).items():
        decision, value = decided.get(key), _arguments(item)
        if decision is None or decision.text is None or value is None or _is_edited(request, value):
            continue
        if document.is_string(value):
            document.replace(value, decision.text)
        else:
            document.rewrite(value, decision.text.encode("utf-8", "surrogatepass"))
        edited.add(item.result.call_id)
    return frozenset(edited)


def _key(item: Item, source: bytes) -> bytes:
    return hashlib.blake2b(b"arguments\0" + item.key + b"\0" + source, digest_size=16).digest()


def _arguments(item: Item) -> Raw | None:
    return item.result.call.arguments if item.result.call is not None else None


def _is_edited(request: Request, value: Raw) -> bool:
    return request.document.is_edited(*request.document.place(value))
