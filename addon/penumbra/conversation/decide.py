"""This module decides about the form of each tool result. The form is the first in this list that applies:

- the form of a plan for the whole request
- the form of an earlier decision, since the first forwarded form is final
- the form that the provider has already seen without Penumbra
- a reference, if an earlier result of the request has the same text
- the text as the pipeline or an external compressor has shortened it
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, structs

from penumbra import errors
from penumbra.apis import parts
from penumbra.compress import pipeline, time_budget, token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.compress.calls.envelope import tells_failure
from penumbra.compress.failure_lines import failing
from penumbra.compress.result import Asked, Loss, Mode, Policy, Redacted, Shortened, ToolOutput
from penumbra.compress.size import line_count, size
from penumbra.compress.text import Text
from penumbra.conversation import adoption, back_references, earlier_texts, provider_history
from penumbra.conversation.call_names import Remembered
from penumbra.conversation.earlier_texts import EarlierTexts
from penumbra.conversation.items import Item
from penumbra.conversation.model import Outside, Request
from penumbra.conversation.result_text import cleaner, lines_before, tool_output
from penumbra.conversation.staying_lines import quotes
from penumbra.errors import RedactionError, one_line
from penumbra.expand.hidden_exchanges import KnownResponses, Original
from penumbra.expand.reference import References
from penumbra.redaction import placeholder
from penumbra.redaction.redact_calls import ShowName
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.decisions import PLACEHOLDER_NOTE, Decision, Facts
from penumbra.store.exchanges import ProviderResult
from penumbra.store.stores import Gaps

_HEAD = 2_000
"""The number of characters at the beginning of a result that are searched for a stated number of tokens.
"""
_TOKEN_MARK = re.compile(r"^(?:Original|Total) token count: ([0-9]{1,9})$", re.MULTILINE)
_WRITERS = ("write", "edit", "bash")
"""The categories of calls that may write their arguments into a file."""
_log = logging.getLogger(__name__)


class Inputs(Struct, frozen=True):
    """An `Inputs` is a request that was read, with everything that decisions about its results depend on."""

    request: Request
    past: Mapping[bytes, Decision]
    """Decisions of earlier requests, by key."""
    redact: Callable[[str, str], Redacted]
    """The function that redacts a text. Its second argument is the path or command of the call."""
    references: References | None
    """The references of the conversation; None if the model can't ask for originals."""
    responses: KnownResponses | None = None
    """Stored facts about the request's responses; None if the request can't have the injected tool."""
    external: Mapping[bytes, Asked] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    """Forms that external compressors gave to new results, by key."""
    planned: Mapping[bytes, Decision] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    """Decisions of a plan for the whole request."""
    provider_results: tuple[ProviderResult, ...] = ()
    """Results of the history that the provider stores, in order."""
    show: ShowName = one_line
    """The function that shows names of tools and calls."""
    shown: Remembered | None = None
    """The remembered names of paths and commands; None if names depend on the conversation."""
    gaps: Gaps | None = None
    """Says for which results the store may lack decisions; None if no decision is missing."""
    reopened: frozenset[bytes] = frozenset()
    """The keys of answered results that may get another form, because no part of the request is cached."""
    state: ConversationState = msgspec.field(default_factory=ConversationState)
    is_heavy: bool = False
    """True if decisions take so long that they are made outside of the event loop."""
    cold: float = 0.0
    """After this number of seconds without a request, no part of the conversation is cached."""
    is_cold: bool = False
    """True if forms may change because the pause before the request was longer than `cold`."""
    is_recorded: bool = True
    """True if the store can keep decisions."""
    waits: bool = False
    """True if the conversation has no injected tool yet, because the tool is not needed."""
    outside: Outside = msgspec.field(default_factory=Outside)
    """New decisions about texts outside of tool results."""
    is_withdrawn: bool = False
    """True if the provider has just refused the injected tool. Unread results then lose their references."""
    is_ours: Callable[[str], bool] | None = None
    """A function that recognises placeholders made for the caller; None if no note mentions placeholders."""

    @property
    def stays_bound(self) -> bool:
        """Return whether a form with a reference is final before the model answers the result."""
        return self.request.settings.shortens and not self.is_withdrawn

    def learned(self, limits: LearnedLimits) -> Inputs:
        """Return the inputs with further limits."""
        return structs.replace(self, state=replace(self.state, limits=self.state.limits.learned(limits)))

    def clean(self, text: str) -> str:
        """Return a text without its secrets. Raises RedactionError."""
        return self.redact(text, "").text


@dataclass(slots=True)
class Decider:
    """A `Decider` decides about the items of one request, in the request's order."""

    inputs: Inputs
    earlier: EarlierTexts
    decisions: dict[bytes, Decision] = field(default_factory=dict)
    """New decisions."""
    originals: dict[str, str] = field(default_factory=dict)
    """Redacted originals, by reference."""
    last_decided: int = field(init=False)
    """The message index of the last result with an earlier decision; -1 if there is no such result."""
    _last_response: int = field(init=False)
    _policy: Policy = field(init=False)
    _cached: bool = field(init=False)
    _is_late: time_budget.IsLate = field(init=False)
    """This function returns True when the request's time is used up. Later results are only redacted."""
    _refers: bool = field(init=False)
    """True if references may replace results: the earlier texts stay, or the model can ask for them."""

    def __post_init__(self) -> None:
        request, references = self.inputs.request, self.inputs.references
        self._last_response = request.conversation.last_response
        self._is_late = time_budget.of_request(request.settings.request_budget)
        self._policy = request.settings.policy(can_expand=references is not None)
        if references is not None:
            self._policy = structs.replace(self._policy, overhead=references.overhead())
        can_refer = references is not None or provider_history.keeps_results(request.document)
        self._refers = request.settings.dedup and can_refer
        self._cached = adoption.may_be_cached(request.document, request.api.cache)
        past = self.inputs.past
        self.last_decided = next(
            (item.result.turn for item in reversed(request.items) if item.key in past), -1
        )

    def decide(self, item: Item) -> tuple[Decision, bool]:
        """Return the decision about an item, and whether it is new. Raises RedactionError."""
        decision, new = self._decision(item)
        if new:
            if self._is_noted(item):
                decision = _noted(item, decision)
            self.decisions[item.key] = decision
        return decision, new

    def is_open(self, item: Item) -> bool:
        """Return whether a new decision about the item's form would be made."""
        past = self.inputs.past.get(item.key)
        return not (self._adopts(item) if past is None else self._holds(item, past))

    def _holds(self, item: Item, past: Decision) -> bool:
        can_ask = self.inputs.references is not None
        if past.facts.ref and not can_ask and not self.inputs.stays_bound:
            # The model could not ask for the omitted part. If no response follows the result, its form may
            # still change.
            return item.result.turn <= self.inputs.request.conversation.last_response
        return self.earlier.holds(past.facts)

    def _decision(self, item: Item) -> tuple[Decision, bool]:
        if item.key in self.inputs.planned:
            return self.inputs.planned[item.key], True
        past = self.decisions.get(item.key) or self.inputs.past.get(item.key)
        if past is not None and self._holds(item, past):
            return self._reconsidered(item, past)
        if past is None and (gaps := self.inputs.gaps) is not None:
            if item.key in gaps.elsewhere:
                return self._decided(item), True
            if gaps.is_away or self.last_decided <= item.result.turn <= self._last_response:
                # Proxies that can't reach the store also send this form.
                return self._adopted(item, keeps_secrets=False), True
        if past is None and self._adopts(item):
            turn, settings = item.result.turn, self.inputs.request.settings
            conversation, format_name = self.inputs.request.conversation, self.inputs.request.api.format
            keeps = adoption.keeps_secrets(settings.adopt, turn, conversation, format_name)
            return self._adopted(item, keeps_secrets=keeps), True
        return self._decided(item), True

    def _is_noted(self, item: Item) -> bool:
        """Return whether a text ends with a note about placeholders in the arguments of its call. A text that
        had the note keeps it. If a new call may have written placeholders into a file, the last text of its
        result gets the note."""
        past, result, request = self.inputs.past.get(item.key), item.result, self.inputs.request
        if past is not None:
            return PLACEHOLDER_NOTE in past.facts.stages
        if self.inputs.is_ours is None or result.turn <= self._last_response:
            return False
        if (made := result.call) is None or result.part is not None:
            return False
        call = self.earlier.call(result)
        # If secrets are put back, a call that is missing from the request may also contain secrets.
        is_known = made.arguments is not None or not request.settings.restores_secrets
        if not is_known or not (call.shell or call.category in _WRITERS):
            return False
        marks = frozenset(placeholder.marks(parts.decoded_arguments(request.document, made, came=True)))
        if not marks or not _is_last(request, item):
            return False
        return any(map(self.inputs.is_ours, marks)) or not marks.isdisjoint(
            _placed(request, self.inputs.past)
        )

    def _reconsidered(self, item: Item, past: Decision) -> tuple[Decision, bool]:
        """Return the earlier decision, or a new decision if a smaller form costs nothing. Also return whether
        the decision is new."""
        if item.key in self.inputs.reopened and item.key not in self.decisions:
            made = self._decided(item)
            if made.facts.tokens_after < past.facts.tokens_after:
                return made, True
        return past, False

    def _adopts(self, item: Item) -> bool:
        """Return whether a text without a decision keeps the form that the provider has seen."""
        conversation = self.inputs.request.conversation
        turn = item.result.turn
        if turn > self._last_response:
            return False
        # If later results have decisions, this text had a decision, too, until the client changed it. The
        # changed text has not reached the provider.
        if turn < self.last_decided:
            return False
        adopt = self.inputs.request.settings.adopt
        if adopt == "auto":
            return self._cached or turn < conversation.last_thinking
        return adopt == "raw"

    def _adopted(self, item: Item, *, keeps_secrets: bool) -> Decision:
        """Return the text that the provider has seen, without its secrets unless `keeps_secrets`."""
        request, text = self.inputs.request, item.text
        counts: Mapping[str, int] = {}
        if not keeps_secrets:
            output = tool_output(request, item)
            clean = cleaner(request, item, output, self.inputs.redact)(text)
            text, counts = clean.text, clean.counts
        how = "adopted" if text == item.text else "shortened"
        facts = measured(how, item.text, text, redactions=dict(counts))
        return Decision(None if text == item.text else text, facts)

    def _decided(self, item: Item) -> Decision:
        settings = self.inputs.request.settings
        output = tool_output(self.inputs.request, item)
        policy = self._policy
        whole = not settings.shortens
        late = self._is_late is not None and self._is_late()
        if late or tools.skips(item.tool, settings.skip_tools):
            policy, whole = Policy(mode=Mode.DISABLED), True
        asked = self.inputs.external.get(item.key)
        form = asked.form if asked is not None else None
        if self._refers:
            output = structs.replace(
                output, shown_before=self.earlier.shown_before, call=partial(self.earlier.call, item.result)
            )
        shortened = form or self._shorten(item, output, policy)
        referents: tuple[str, ...] = ()
        if self._refers and not whole:
            try:
                if (duplicate := self._duplicate(item, output, shortened)) is not None:
                    return duplicate
                shortened, referents = self._by_reference(item, shortened, policy)
            except RedactionError:
                raise
            except Exception as error:
                self._log_failure(output, error)
        text, ref = shortened.text, ""
        if shortened.loss is Loss.LOSSY or back_references.STAGE in shortened.stages:
            text, ref = self._with_reference(item, shortened, text)
        facts = measured(
            "kept" if text == item.text else "shortened",
            output.text,
            text,
            loss=int(shortened.loss),
            stages=shortened.stages,
            family=shortened.family,
            ref=ref,
            referents=referents,
            redactions=dict(shortened.redactions),
            skipped=(*shortened.skipped, *(("request_budget",) if late else ())),
            asked=asked.how if asked is not None else "",
        )
        # A plain string does not keep the bytes and lines that a `Text` caches.
        return Decision(None if text == item.text else str(text), facts)

    def _shorten(self, item: Item, output: ToolOutput, policy: Policy) -> Shortened:
        inputs = self.inputs
        redact = cleaner(inputs.request, item, output, inputs.redact)
        try:
            is_late = time_budget.budget(output.text, inputs.request.settings.stage_budget)
            ref = inputs.references.ref if inputs.references is not None else lambda original: ""
            return pipeline.shorten(output, policy, redact, ref, is_late)
        except RedactionError:
            raise
        except Exception as error:
            self._log_failure(output, error)
            redacted = redact(output.text)
            return Shortened(redacted.text, redacted.text, redactions=redacted.counts)

    def _log_failure(self, output: ToolOutput, error: Exception) -> None:
        tool = self.inputs.show(output.tool)
        _log.warning("Penumbra leaves a result of %s as it is: %s", tool, errors.place(error))

    def _duplicate(self, item: Item, output: ToolOutput, shortened: Shortened) -> Decision | None:
        """Return a reference to an earlier equal text; None if there is no equal text, the text shows a
        failure, or nothing is saved."""
        earlier = self.earlier.same(item)
        # Equal texts of different tools may have different shortened forms.
        if earlier is None or not (
            earlier.is_complete or (earlier.tool == item.tool and shortened.loss is Loss.LOSSY)
        ):
            return None
        head, body, tail = Text.of(output.text).envelope
        if output.is_error or tells_failure(head, tail):
            return None
        if not quotes(classify(output.tool, output.arguments)) and failing(body.split("\n")):
            return None
        if token_estimate.estimate(shortened.text) < earlier_texts.LEAST_TOKENS:
            return None
        name = self.earlier.name(earlier)
        if name is None:
            return None
        marker = f"[Duplicate of {name.name}; see earlier result]"
        text, ref = self._with_reference(item, shortened, marker)
        if not _saves(text, shortened.text):
            return None
        # The key of the earlier text comes first, followed by the keys on which its name depends.
        referents = (earlier.key.hex(), *sorted(key.hex() for key in name.keys - {earlier.key}))
        facts = measured("duplicate", item.text, text, stages=("dedup",), ref=ref, referents=referents)
        return Decision(text, facts)

    def _by_reference(
        self, item: Item, shortened: Shortened, policy: Policy
    ) -> tuple[Shortened, tuple[str, ...]]:
        """Return the text with references in place of repeated parts, and the keys of the texts that these
        name."""
        if policy.mode not in (Mode.STANDARD, Mode.AGGRESSIVE):
            return shortened, ()
        # `min_bytes` applies to references, too.
        if size(shortened.original) <= max(policy.min_bytes, earlier_texts.LEAST_CHARACTERS):
            return shortened, ()
        made = self.earlier.by_reference(shortened, item)
        overhead = "" if shortened.loss is Loss.LOSSY else policy.overhead
        if made is None or not _saves(overhead + made.text, shortened.text):
            return shortened, ()
        stages = (*shortened.stages, back_references.STAGE)
        loss = max(shortened.loss, Loss.REVERSIBLE)
        referents = tuple(sorted(key.hex() for key in made.keys))
        return structs.replace(shortened, text=made.text, loss=loss, stages=stages), referents

    def _with_reference(self, item: Item, shortened: Shortened, text: str) -> tuple[str, str]:
        """Return the forwarded form of a text, and the reference to its original."""
        references = self.inputs.references
        if references is None:
            return text, ""
        ref = references.ref(shortened.original)
        before = lines_before(self.earlier.call(item.result), shortened.original)
        self.originals |= Original(str(shortened.original), before=before).stored(ref)
        return references.prefix(ref) + text, ref


def _is_last(request: Request, item: Item) -> bool:
    """Return whether a text is the last of its result. In a JSON result, it must be the only text."""
    result = item.result
    texts = [
        other
        for other in request.items
        if other.result.turn == result.turn and other.result.call is result.call
    ]
    return texts[-1] is item and (result.container is None or len(texts) == 1)


def _placed(request: Request, past: Mapping[bytes, Decision]) -> set[str]:
    """Return the placeholders that have replaced secrets in the request's results."""
    forms = [(past.get(item.key), item.text) for item in request.items]
    for other in request.searched:
        source = request.document.source(other.value)
        forms.append((past.get(other.key), source.decode("utf-8", "surrogatepass")))
    return {
        mark
        for decision, original in forms
        if decision is not None and decision.text is not None and decision.facts.redactions
        for mark in placeholder.PATTERN.findall(decision.text)
        if mark not in original
    }


def _noted(item: Item, decision: Decision) -> Decision:
    """Return the decision with the note at the end of its text."""
    text, facts = item.text if decision.text is None else decision.text, decision.facts
    if not text.endswith(placeholder.NOTE):
        text += ("" if text.endswith("\n") else "\n") + placeholder.NOTE
    noted = structs.replace(
        facts,
        how="shortened" if facts.how == "kept" else facts.how,
        stages=tuple(dict.fromkeys((*facts.stages, PLACEHOLDER_NOTE))),
        bytes_after=size(text),
        tokens_after=token_estimate.estimate(text),
    )
    return Decision(text, noted)


def _saves(text: str, than: str) -> bool:
    """Return whether a text is smaller than another text in bytes and in estimated tokens."""
    return size(text) < size(than) and token_estimate.estimate(text) < token_estimate.estimate(than)


def measured(how: str, before: str, after: str, **more: Any) -> Facts:
    """Return facts with the sizes of a text and of its form `after`."""
    before, after, same = Text.of(before), Text.of(after), after == before
    mark = _TOKEN_MARK.search(before, 0, _HEAD) if before.find(" token count: ", 0, _HEAD) >= 0 else None
    return Facts(
        how=how,
        bytes_before=before.size,
        bytes_after=before.size if same else after.size,
        characters_before=len(before),
        lines_before=line_count(before),
        token_mark=int(mark[1]) if mark else 0,
        tokens_before=before.tokens,
        tokens_after=before.tokens if same else after.tokens,
        **more,
    )
