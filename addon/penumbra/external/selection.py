"""The results of one request that somebody else shortens: which they are, and what they become.

Order of the decision: what was decided before stays; skipped tools; size; what must not lose anything
goes without asking; a known answer; a new answer; and where there is none in time, the fallback, which
then is the result's form for the rest of the conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from penumbra.compress import pipeline, time_budget
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.compress.result import Loss, Mode, Policy, Redact, Redacted, Shortened, ToolOutput
from penumbra.compress.size import size
from penumbra.config.settings import Settings
from penumbra.conversation import cache_price, rewrite
from penumbra.conversation.rewrite import Item, Request, Shadows
from penumbra.external.choose import chosen
from penumbra.external.dispatch import Ask, Dispatcher, Outcome
from penumbra.external.external_provider import ExternalProvider
from penumbra.external.http import Http
from penumbra.external.prices import Reader
from penumbra.external.question import question
from penumbra.external.simple import first_words
from penumbra.external.strategy import Credential, Strategy, Task
from penumbra.store.decisions import Decision

_QUOTED = frozenset({"read", "edit", "write"})
_NO_CAP = 1 << 62
_INTENT, _ARGUMENT = 1_000, 400
"""Characters."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pending:
    """A result whose form is open."""

    item: Item
    output: ToolOutput
    base: Shortened
    """What a strategy is given."""
    ask: bool
    """False: it gets the fallback without anybody being asked."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One request, and what its texts may become."""

    request: Request
    redact: Callable[[str, str], Redacted]
    shadows: Shadows | None
    strategy: Strategy

    @property
    def settings(self) -> Settings:
        return self.request.settings

    def pending(self, known: Mapping[bytes, Decision]) -> list[Pending]:
        """The results that are large enough, and not too large, and not decided about."""
        if self.settings.mode not in (Mode.STANDARD, Mode.AGGRESSIVE):
            return []
        found = (self._pending(item) for item in rewrite.undecided(self.request, known))
        return [one for one in found if one is not None]

    def _pending(self, item: Item) -> Pending | None:
        settings = self.settings
        if tools.skips(item.tool, settings.skip_tools):
            return None
        if not settings.min_bytes < size(item.text) <= settings.max_bytes:
            return None
        output = rewrite.tool_output(self.request, item)
        base = self.shorten(item, output, self._base_policy())
        large = not self.in_chain or size(base.text) > settings.chain_bytes
        ask = large and self._may_lose() and not self._must_stay(output) and "binary" not in base.stages
        return Pending(item, output, base, ask)

    @property
    def in_chain(self) -> bool:
        """The pipeline comes first."""
        return self.settings.strategy.startswith("pipeline")

    def _base_policy(self) -> Policy:
        if self.in_chain:
            return self._pipeline_policy()
        return Policy(mode=Mode.SAFE, min_bytes=self.settings.min_bytes, max_output_bytes=_NO_CAP)

    def _pipeline_policy(self) -> Policy:
        settings = replace(self.settings, strategy="pipeline")
        policy = settings.policy(can_expand=self.shadows is not None)
        return replace(policy, overhead=self.overhead)

    @property
    def overhead(self) -> str:
        """What stands in front of a text that lost something."""
        return self.shadows.overhead() if self.shadows is not None else ""

    def _may_lose(self) -> bool:
        """The model can ask for the original, or the operator wants it to do without."""
        settings = self.settings
        return self.shadows is not None or settings.lossy == "on" or not settings.enable_expand_context

    def _must_stay(self, output: ToolOutput) -> bool:
        """Errors, and what will be quoted."""
        if not self.strategy.protects:
            return False
        return output.is_error or classify(output.tool, output.arguments).category in _QUOTED

    def clean(self, item: Item, output: ToolOutput) -> Redact:
        """Takes the secrets out of a text of this call."""
        return rewrite.cleaner(self.request, item, output, self.redact)

    def shorten(self, item: Item, output: ToolOutput, policy: Policy) -> Shortened:
        """What the pipeline makes of a result. Raises RedactionError."""
        ref = self.shadows.ref if self.shadows is not None else lambda text: ""
        is_late = time_budget.budget(output.text, self.settings.stage_budget)
        return pipeline.shorten(output, policy, self.clean(item, output), ref, is_late)

    def instead(self, one: Pending) -> str:
        """The text that stands without an answer, as long as it will be at least."""
        return (self.overhead if one.base.loss is Loss.LOSSY else "") + one.base.text

    def form(self, one: Pending, outcome: Outcome | None) -> Shortened:
        """What a result becomes."""
        if outcome is None or outcome.text is None:
            return self._fallback(one)
        return replace(
            one.base,
            text=outcome.text,
            loss=Loss.LOSSY,
            stages=(*one.base.stages, self.strategy.name),
        )

    def _fallback(self, one: Pending) -> Shortened:
        if self.in_chain:
            return one.base
        fallback = self.settings.fallback_strategy
        if fallback == "pipeline":
            return self.shorten(one.item, one.output, self._pipeline_policy())
        if fallback == "simple" and one.ask:
            text = first_words(one.base.text)
            if size(self.overhead + text) < size(one.base.text):
                return replace(one.base, text=text, loss=Loss.LOSSY, stages=(*one.base.stages, "simple"))
        return self.shorten(one.item, one.output, Policy(mode=Mode.DISABLED))


class ExternalCompressors:
    """Asks for all requests of one process."""

    def __init__(self, dispatcher: Dispatcher, http: Http) -> None:
        self._dispatcher = dispatcher
        self._http = http
        self._closing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End what is under way."""
        self._dispatcher.cancel()
        with suppress(RuntimeError):
            # Outside of an event loop there are no connections to close either.
            self._closing = asyncio.get_running_loop().create_task(self._http.close())

    async def forms(
        self,
        request: Request,
        known: Mapping[bytes, Decision],
        redact: Callable[[str, str], Redacted],
        shadows: Shadows | None,
        credential: Credential | None,
    ) -> dict[bytes, Shortened]:
        """What becomes of the results that are decided now and that a strategy may be asked about, by
        their items' keys. Raises RedactionError."""
        strategy = chosen(request.settings, self._http)
        if strategy is None:
            return {}
        reading = _Reading(request, redact, shadows, strategy)
        pending = await asyncio.to_thread(reading.pending, known)
        if not pending:
            return {}
        asked = [one for one in pending if one.ask]
        outcomes = await self._asked(reading, asked, credential) if asked else {}
        return await asyncio.to_thread(
            lambda: {one.item.key: reading.form(one, outcomes.get(one.item.key)) for one in pending}
        )

    async def _asked(
        self, reading: _Reading, pending: Sequence[Pending], credential: Credential | None
    ) -> dict[bytes, Outcome]:
        asks = await asyncio.to_thread(_asks, reading, pending, credential)
        settings = reading.settings
        outcomes = await self._dispatcher.answers(
            reading.strategy, asks, settings.strategy_deadline, cost_check=settings.cost_check
        )
        for one, outcome in zip(pending, outcomes, strict=True):
            _log.info("Penumbra: %s", _told(reading, one, outcome))
        return {one.item.key: outcome for one, outcome in zip(pending, outcomes, strict=True)}


def _asks(reading: _Reading, pending: Sequence[Pending], credential: Credential | None) -> list[Ask]:
    conversation = reading.request.conversation
    settings = reading.settings
    aware = settings.outside == "external_provider" or not settings.api.query_agnostic
    captures = isinstance(reading.strategy, ExternalProvider) and reading.strategy.captures
    asked = question(reading.request.document, conversation.messages) if aware else ""
    asked = reading.redact(asked, "").text if asked and settings.redact_secrets else asked
    reader = _reader(reading.request)
    asks: list[Ask] = []
    for one in pending:
        clean = reading.clean(one.item, one.output)
        task = Task(
            text=one.base.text,
            tool=one.item.tool,
            intent=clean(intent(one.output.arguments)).text if aware else "",
            question=asked,
            ratio=settings.target_ratio,
            scope=reading.request.scope,
            credential=credential if captures else None,
        )
        scan = partial(_text_of, clean)
        asks.append(Ask(task, reading.instead(one), reading.overhead, reader, scan))
    return asks


def _reader(request: Request) -> Reader:
    model = request.conversation.model
    try:
        price = cache_price.prices(request.api.format, model, request.document.data)
    except KeyError:
        return Reader(model)
    return Reader(model, price.read, price.write)


def _text_of(clean: Redact, text: str) -> str:
    return clean(text).text


def intent(arguments: Any) -> str:
    """What a call was for, in one line: its arguments, long ones cut."""
    if isinstance(arguments, dict):
        parts = [f"{name}: {_short(value)}" for name, value in arguments.items()]
        return "; ".join(parts)[:_INTENT]
    return _short(arguments)[:_INTENT] if arguments is not None else ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return " ".join(text[:_ARGUMENT].split())


def _told(reading: _Reading, one: Pending, outcome: Outcome) -> str:
    """One line for the log, without anything of the text."""
    shadows = reading.shadows
    before = size(one.base.text)
    about = f"strategy {reading.strategy.name}: {one.item.result.call_id or 'a result'} ({one.item.tool})"
    if outcome.text is None:
        return f"{about}: no answer ({outcome.how}), {before:,} bytes take the fallback"
    mapped = f", mapped to {shadows.ref(one.base.original)}" if shadows is not None else ", not mapped"
    return f"{about}: {outcome.how}, {before:,} -> {size(outcome.text):,} bytes{mapped}"
