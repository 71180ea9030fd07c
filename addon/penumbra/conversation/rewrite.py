"""A request's body, read and rewritten: bytes and past decisions in, bytes and new decisions out.

`read` finds the tool results and gives each a key; whoever does I/O looks the keys up; `rewrite`
decides about the rest and edits the document. Both may run outside of the event loop.

What a result becomes is decided in this order: a decision of the past (the first forwarded form is
final); a form that the provider has already seen without us stays; the pipeline shortens it; if the
same text stands earlier in the request, a reference replaces it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from penumbra import errors
from penumbra.apis import arguments
from penumbra.apis.base import MadeCall
from penumbra.apis.parts import Conversation, ResultText, ToolCall
from penumbra.apis.recognise import Api
from penumbra.compress import pipeline, time_budget, token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.calls.hint import hint
from penumbra.compress.result import Loss, Mode, Policy, Redact, Redacted, Shortened, ToolOutput
from penumbra.compress.size import size
from penumbra.config import per_request
from penumbra.config.settings import Settings
from penumbra.conversation import adoption, dedup, items, mentioned_names, searched
from penumbra.conversation import prefix_hash as chain
from penumbra.conversation.back_references import LineIndex, referenced
from penumbra.conversation.items import Item as Item
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.prefix_hash import Chain
from penumbra.conversation.searched import Searched
from penumbra.redaction import RedactionError
from penumbra.redaction.structured import Structured
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document

# Shorter texts (characters) can't say anything again that is worth a reference.
_RESTATABLE = 250
_log = logging.getLogger(__name__)


class Shadows(Protocol):
    """How the model can be told of, and given, what was left out."""

    def ref(self, original: str) -> str:
        """The reference of a redacted original."""
        ...

    def prefix(self, ref: str) -> str:
        """What stands in front of a text that lost something."""
        ...

    def overhead(self) -> str:
        """A prefix as long as every one of them."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """A recognised request, read. `chain`: what stands in front of each message."""

    api: Api
    settings: Settings
    document: Document
    conversation: Conversation
    items: tuple[Item, ...]
    searched: tuple[Searched, ...] = ()
    structured: Structured = field(default_factory=Structured)
    mentions: mentioned_names.Mentions = field(default_factory=mentioned_names.Mentions)
    scope: bytes = b""
    """Keyed hash of who is asking."""
    chain: Chain = field(default_factory=Chain)


@dataclass(frozen=True, slots=True)
class Shown:
    """One result text and what became of it, for logs and figures."""

    item: Item
    facts: Facts
    new: bool


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What is to be sent, and what is to be remembered."""

    body: bytes
    shown: tuple[Shown, ...]
    decisions: Mapping[bytes, Decision]
    """New ones only."""
    originals: Mapping[str, str]
    """Redacted originals of newly shortened results that lost something, by reference."""


def read(
    document: Document,
    api: Api,
    settings: Settings,
    scope: bytes,
    threshold: str | None = None,
    possession: bytes | None = None,
) -> Request | None:
    """The request in a document; None if it is not what the API's bodies look like.

    `scope`: who is asking. `possession` keys every hash of an item: the same text of another caller has
    another key; None: as `scope`. `threshold`: of the header. Raises OverrideError, NotJson.
    """
    if not api.fits(document):
        return None
    conversation, passages = searched.with_said(document, api.wire.read(document))
    settings = _overridden(document, conversation, settings, threshold)
    whose = scope if possession is None else possession
    others = searched.read(document, conversation, passages, whose) if settings.redact_secrets else ()
    before = chain.read(document, conversation.messages, scope)
    found = tuple(items.read(document, conversation, whose, before))
    return Request(api, settings, document, conversation, found, others, scope=scope, chain=before)


def with_model(request: Request, model: str) -> Request:
    """The same request, of this model if its body names none."""
    if request.conversation.model or not model:
        return request
    return replace(request, conversation=replace(request.conversation, model=model))


def calls_elsewhere(request: Request) -> set[str]:
    """Ids of the calls that results answer and the request does not show."""
    calls = ((result.call_id, result.call) for result in request.conversation.results)
    return {one for one, call in calls if call is None or (call.arguments is None and call.cached is None)}


def with_calls(request: Request, cached: Mapping[str, MadeCall], possession: bytes) -> Request:
    """The same request, in which results know the calls that are not in it."""
    calls = {one: ToolCall(one, call.name, cached=call.arguments) for one, call in cached.items()}
    results = tuple(
        replace(result, call=calls.get(result.call_id, result.call))
        for result in request.conversation.results
    )
    conversation = replace(request.conversation, results=results)
    found = tuple(items.read(request.document, conversation, possession, request.chain))
    return replace(request, conversation=conversation, items=found)


def _overridden(
    document: Document, conversation: Conversation, settings: Settings, threshold: str | None
) -> Settings:
    """The request's own settings; its `_forge` members are taken out."""
    if threshold is not None:
        settings = per_request.apply_threshold(settings, threshold)
    top = document.members(document.root)
    if per_request.FIELD in top:
        # Not orjson: a number of any size must be seen as what it is.
        settings = per_request.apply(settings, json.loads(document.source(top[per_request.FIELD])))
        document.remove_member(top[per_request.FIELD])
    # A look at the bytes spares most requests the walk.
    marked = b'"_forge"' in document.data
    for message in document.items(conversation.messages) if marked else ():
        members = document.members(message)
        if per_request.FIELD in members:
            document.remove_member(members[per_request.FIELD])
    return settings


def rewrite(
    request: Request,
    known: Mapping[bytes, Decision],
    redact: Callable[[str, str], Redacted],
    shadows: Shadows | None,
    line_indexes: LineIndexes,
    forms: Mapping[bytes, Shortened] = MappingProxyType({}),
    given: Mapping[bytes, Decision] = MappingProxyType({}),
    trimmed: frozenset[str] = frozenset(),
) -> Rewritten:
    """The request as it is to be sent.

    `known`: decisions of the past about this request's items. `redact` takes a text and a hint (path
    or command of the call). `shadows` None: the model can't ask for originals. `line_indexes` keep what was
    learned of conversations under way. `forms`: what has become, outside, of items that are not decided
    about, by their keys. `given`: decisions about the whole conversation, which come before all others.
    `trimmed`: ids of calls whose arguments are not all there.

    Raises RedactionError; on any other failure of a stage the text stays as it came.
    """
    writer = _Writer(request, known, redact, shadows, forms, given, trimmed)
    for item in request.items:
        writer.write(item, line_indexes)
    for other in request.searched:
        writer.search(other)
    writer.shelve(line_indexes)
    return Rewritten(request.document.render(), tuple(writer.shown), writer.decisions, writer.originals)


def undecided(request: Request, known: Mapping[bytes, Decision]) -> list[Item]:
    """The items that `rewrite` would decide about."""
    writer = _Writer(request, known, lambda text, hint: Redacted(text), None)
    found: list[Item] = []
    for item in request.items:
        writer.note_call(item.result)
        past = known.get(item.key)
        if not (writer.adopts(item) if past is None else writer.seen.holds(past.facts)):
            found.append(item)
        facts = Facts() if past is None else past.facts
        writer.seen.note(item.digest, item.key, item.result.call_id, item.tool, facts)
    return found


def original(request: Request, item: Item, redact: Callable[[str, str], Redacted]) -> str:
    """The redacted original of a text, as `rewrite` gives it in `originals`. Raises RedactionError."""
    output = tool_output(request, item)
    clean = cleaner(request, item, output, redact)
    return pipeline.shorten(output, Policy(mode=Mode.SAFE), clean, lambda text: "").original


def cleaner(
    request: Request, item: Item, output: ToolOutput, redact: Callable[[str, str], Redacted]
) -> Redact:
    """How the secrets of an item's text are taken out, and those of the forms that are made of it."""
    if not request.settings.redact_secrets:
        return Redacted
    place, container = hint(output.arguments), item.result.container

    def clean(text: str) -> Redacted:
        if container is None or text != item.text:
            return redact(text, place)
        return request.structured.redact(request.document, container, text, lambda one: redact(one, place))

    return clean


def tool_output(request: Request, item: Item) -> ToolOutput:
    """A text with what is known about its call."""
    return ToolOutput(
        text=item.text,
        tool=item.tool,
        arguments=arguments.decoded(request.document, item.result.call),
        call_id=item.result.call_id,
        is_error=item.result.is_error,
        mentioned=partial(
            request.mentions.before, request.document, request.api.wire, request.conversation, item.result
        ),
    )


@dataclass(frozen=True, slots=True)
class _Referable:
    """A text so far that later ones may refer to: a result as it was forwarded, or a call's arguments."""

    key: bytes
    mark: bytes
    """Of the text: another form of the result has another mark."""
    name: str
    size: int
    """Characters or bytes, roughly."""
    text: str | None
    """None: the arguments of the result's call."""
    result: ResultText
    original: str | None = None
    """What the text was made of, where something was left out."""


@dataclass(slots=True)
class _Writer:
    """The request on its way, text by text."""

    request: Request
    known: Mapping[bytes, Decision]
    redact: Callable[[str, str], Redacted]
    shadows: Shadows | None
    forms: Mapping[bytes, Shortened] = field(default_factory=dict)
    given: Mapping[bytes, Decision] = field(default_factory=dict)
    trimmed: frozenset[str] = frozenset()
    shown: list[Shown] = field(default_factory=list)
    decisions: dict[bytes, Decision] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    seen: dedup.Seen = field(init=False)
    policy: Policy = field(init=False)
    cached: bool = field(init=False)
    is_late: time_budget.IsLate = field(init=False)
    """Whether what is not decided yet is only redacted, so that nobody waits for one request."""
    last_known: int = field(init=False)
    """Message index of the last result that we decided about in the past; -1 if there is none."""
    referable: list[_Referable] = field(default_factory=list)
    keys_by_name: dict[str, set[bytes]] = field(default_factory=dict)
    """Of what later texts may refer to."""
    line_index: LineIndex | None = None
    noted: int = 0
    """How many of `referable` the library has noted."""

    def __post_init__(self) -> None:
        request = self.request
        self.seen = dedup.Seen.of(item.result.call_id for item in request.items)
        self.is_late = time_budget.of_request(request.settings.request_budget)
        self.policy = request.settings.policy(can_expand=self.shadows is not None)
        if self.shadows is not None:
            self.policy = replace(self.policy, overhead=self.shadows.overhead())
        self.cached = adoption.may_be_cached(request.document, request.api.cache)
        turns = [item.result.turn for item in request.items if item.key in self.known]
        self.last_known = max(turns, default=-1)

    def write(self, item: Item, line_indexes: LineIndexes) -> None:
        self.note_call(item.result)
        decision, new = self._decision(item, line_indexes)
        text = item.text if decision.text is None else decision.text
        if text != item.text:
            self._replace(item.result, text)
        if new:
            self.decisions[item.key] = decision
        facts = decision.facts
        self.seen.note(item.digest, item.key, item.result.call_id, item.tool, facts, new)
        if self.seen.is_referable(item.key):
            original = item.text if facts.loss >= Loss.LOSSY else None
            mark = item.key + facts.bytes_after.to_bytes(8, "big")
            if original is not None:
                mark += hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            name = f"result {self.seen.name(item.result.call_id)}"
            self._refer(_Referable(item.key, mark, name, len(text), text, item.result, original))
        self.shown.append(Shown(item, facts, new))

    def _replace(self, result: ResultText, text: str) -> None:
        document = self.request.document
        if result.part is None:
            document.replace(result.value, text)
        else:
            document.edits.append(searched.part_edit(document, result.value, result.part, text))

    def search(self, other: Searched) -> None:
        """Take the secrets out of what is not shortened."""
        request = self.request
        decision = self.known.get(other.key) or self.decisions.get(other.key)
        new = decision is None
        if decision is None:
            seen = other.turn >= self.last_known
            if seen and other.keeps_secrets(request.settings.adopt, request.conversation, request.api.format):
                return
            decision = self.decisions[other.key] = other.redacted(request.document, self.redact)
        request.document.edits += other.edits(request.document, decision)
        if decision.text is not None:
            self.shown.append(Shown(_item(other), decision.facts, new))

    def shelve(self, line_indexes: LineIndexes) -> None:
        """Give the library back for the next turn."""
        if self.line_index is not None:
            noted = self.referable[: self.noted]
            marks = [one.mark for one in noted]
            line_indexes.give(self.request.scope, marks, self.line_index, sum(one.size for one in noted))

    def note_call(self, result: ResultText) -> None:
        """What the call said can be referred to, from its own result on."""
        if result.call is None or result.call.arguments is None or result.call_id in self.trimmed:
            return
        size = len(memoryview(result.call.arguments))
        if size < _RESTATABLE:
            return
        said = chain.said_by(self.request.document, result.call.arguments, self.request.scope)
        if key := self.seen.note_call(result.call_id, said):
            name = f"call {self.seen.name(result.call_id)}"
            self._refer(_Referable(key, key, name, size, None, result))

    def _refer(self, one: _Referable) -> None:
        self.referable.append(one)
        self.keys_by_name.setdefault(one.name, set()).add(one.key)

    def _decision(self, item: Item, line_indexes: LineIndexes) -> tuple[Decision, bool]:
        if item.key in self.given:
            return self.given[item.key], True
        past = self.known.get(item.key) or self.decisions.get(item.key)
        # A reference holds only while its referents stand earlier in the request.
        if past is not None and self.seen.holds(past.facts):
            return past, False
        if past is None and self.adopts(item):
            return self._adopt(item), True
        return self._decide(item, line_indexes), True

    def adopts(self, item: Item) -> bool:
        """Whether an unknown text keeps the form in which the provider has seen it without us."""
        conversation = self.request.conversation
        turn = item.result.turn
        if turn > conversation.last_answer:
            return False
        # Had the provider seen this text in this place, we would have decided about it when we
        # decided about the results behind it: the client has changed it since.
        if turn < self.last_known:
            return False
        return adoption.stays_raw(self.request.settings.adopt, turn, conversation, self.cached)

    def _adopt(self, item: Item) -> Decision:
        """The form that the provider has seen, without the secrets that may be new to it."""
        request, text = self.request, item.text
        counts: Mapping[str, int] = {}
        if not adoption.keeps_secrets(
            request.settings.adopt, item.result.turn, request.conversation, request.api.format
        ):
            output = tool_output(request, item)
            clean = cleaner(request, item, output, self.redact)(text)
            text, counts = clean.text, clean.counts
        facts = _facts(
            "adopted" if text == item.text else "shortened", item.text, text, redactions=dict(counts)
        )
        return Decision(None if text == item.text else text, facts)

    def _decide(self, item: Item, line_indexes: LineIndexes) -> Decision:
        settings = self.request.settings
        output = tool_output(self.request, item)
        policy = self.policy
        # Where somebody else shortens results, the pipeline does nothing about the others.
        whole = policy.mode is Mode.DISABLED and not (settings.outside and settings.mode is not Mode.DISABLED)
        late = self.is_late()
        if late or tools.skips(item.tool, settings.skip_tools):
            policy, whole = Policy(mode=Mode.DISABLED), True
        shortened = self.forms.get(item.key) or self._shorten(item, output, policy)
        referents: tuple[str, ...] = ()
        if settings.dedup and not whole:
            if (duplicate := self._duplicate(item, shortened)) is not None:
                return duplicate
            shortened, referents = self._restated(shortened, policy, line_indexes)
        text, ref = shortened.text, ""
        if shortened.loss is Loss.LOSSY and self.shadows is not None:
            ref = self.shadows.ref(shortened.original)
            text = self.shadows.prefix(ref) + text
            self.originals[ref] = shortened.original
        facts = _facts(
            "kept" if text == item.text else "shortened",
            item.text,
            text,
            loss=int(shortened.loss),
            stages=shortened.stages,
            family=shortened.family,
            ref=ref,
            referents=referents,
            redactions=dict(shortened.redactions),
            skipped=(*shortened.skipped, *(("request_budget",) if late else ())),
        )
        return Decision(None if text == item.text else text, facts)

    def _shorten(self, item: Item, output: ToolOutput, policy: Policy) -> Shortened:
        redact = cleaner(self.request, item, output, self.redact)
        try:
            is_late = time_budget.budget(output.text, self.request.settings.stage_budget)
            return pipeline.shorten(output, policy, redact, self._ref, is_late)
        except RedactionError:
            raise
        except Exception as error:
            # Everything but redaction fails open.
            _log.warning("Penumbra leaves a result of %s as it is: %s", output.tool, errors.place(error))
            redacted = redact(output.text)
            return Shortened(redacted.text, redacted.text, redactions=redacted.counts)

    def _duplicate(self, item: Item, shortened: Shortened) -> Decision | None:
        """The whole text stands earlier in the request."""
        earlier = self.seen.find(item.digest)
        # A shortened earlier text may stand for a later one only where the same call would have
        # shortened it in the same way.
        if earlier is None or not (
            earlier.complete or (earlier.tool == item.tool and shortened.loss is Loss.LOSSY)
        ):
            return None
        text = dedup.marker(earlier)
        if not _is_smaller(text, shortened.text):
            return None
        referents = (earlier.key.hex(),)
        return Decision(text, _facts("duplicate", item.text, text, stages=("dedup",), referents=referents))

    def _restated(
        self, shortened: Shortened, policy: Policy, line_indexes: LineIndexes
    ) -> tuple[Shortened, tuple[str, ...]]:
        """The text with what stands earlier by reference, and the keys of what is referred to."""
        if policy.mode not in (Mode.STANDARD, Mode.AGGRESSIVE):
            return shortened, ()
        # A wish for results up to some size to stay as they are holds for this, too.
        if size(shortened.original) <= max(policy.min_bytes, _RESTATABLE):
            return shortened, ()
        text = self._library(line_indexes).restate(shortened.text)
        if text is None or not _is_smaller(text, shortened.text):
            return shortened, ()
        names = referenced(text)
        keys = {key for name in names for key in self.keys_by_name.get(name, ())}
        referents = tuple(sorted(key.hex() for key in keys))
        stages = (*shortened.stages, dedup.RESTATE)
        loss = max(shortened.loss, Loss.REVERSIBLE)
        return replace(shortened, text=text, loss=loss, stages=stages), referents

    def _library(self, line_indexes: LineIndexes) -> LineIndex:
        """What the texts so far say, line by line; asked for only where a new text may repeat them."""
        if self.line_index is None:
            marks = [one.mark for one in self.referable]
            self.line_index, self.noted = line_indexes.take(self.request.scope, marks)
        for one in self.referable[self.noted :]:
            for text in self._texts(one):
                self.line_index.note(one.name, text, one.original)
        self.noted = len(self.referable)
        return self.line_index

    def _texts(self, one: _Referable) -> Iterable[str]:
        if one.text is not None:
            return (one.text,)
        said = arguments.strings(arguments.decoded(self.request.document, one.result.call))
        return (text for text in said if len(text) >= _RESTATABLE)

    def _ref(self, original: str) -> str:
        return self.shadows.ref(original) if self.shadows is not None else ""


def _item(other: Searched) -> Item:
    """What logs and figures show of it."""
    return Item(ResultText(other.value, "", other.call, False, other.turn), "", b"", other.key)


def _is_smaller(text: str, than: str) -> bool:
    """In bytes and in estimated tokens."""
    sizes = [len(each.encode("utf-8", "surrogatepass")) for each in (text, than)]
    return sizes[0] < sizes[1] and token_estimate.estimate(text) < token_estimate.estimate(than)


def _facts(how: str, before: str, after: str, **more: Any) -> Facts:
    tokens_before = token_estimate.estimate(before)
    same = after == before
    bytes_before = len(before.encode("utf-8", "surrogatepass"))
    return Facts(
        how=how,
        bytes_before=bytes_before,
        bytes_after=bytes_before if same else len(after.encode("utf-8", "surrogatepass")),
        tokens_before=tokens_before,
        tokens_after=tokens_before if same else token_estimate.estimate(after),
        **more,
    )
