"""The results of one request that somebody else shortens: which they are, and what they become.

Order of the decision: what was decided before stays; skipped tools; size; what must not lose anything
goes without asking; a known answer; a new answer; and where there is none in time, the fallback, which
then is the result's form for the rest of the conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from penumbra.compress import pipeline, time_budget
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.compress.result import Loss, Mode, Policy, Redact, Shortened, ToolOutput
from penumbra.compress.size import size
from penumbra.config.settings import Settings
from penumbra.expand.reference import References
from penumbra.external.choose import chosen
from penumbra.external.dispatch import Ask, Dispatcher, Outcome, Work
from penumbra.external.external_provider import ExternalProvider
from penumbra.external.http import Http
from penumbra.external.prices import Reader
from penumbra.external.simple import first_words
from penumbra.external.strategy import Credential, Strategy, Task

_QUOTED = frozenset({"read", "edit", "write"})
_NO_CAP = 1 << 62
_INTENT, _ARGUMENT = 1_000, 400
"""Characters."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenResult:
    """A result whose form is not decided yet."""

    key: bytes
    output: ToolOutput
    clean: Redact
    """Takes the secrets out of a text of its call."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A request whose results external compressors may shorten."""

    settings: Settings
    scope: bytes
    """Keyed hash of who is asking."""
    question: Callable[[], str]
    """What the user wants to know, without secrets."""
    reader: Reader
    references: References | None
    credential: Credential | None
    """What may be spent for it."""
    work: Work
    """Where its results are read and shortened."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A result whose form is open."""

    result: OpenResult
    base: Shortened
    """What a strategy is given."""
    ask: bool
    """False: it gets the fallback without anybody being asked."""

    @property
    def output(self) -> ToolOutput:
        return self.result.output


@dataclass(frozen=True, slots=True)
class _Selector:
    """What the texts of one request may become."""

    asking: Asking
    strategy: Strategy

    @property
    def settings(self) -> Settings:
        return self.asking.settings

    @property
    def references(self) -> References | None:
        return self.asking.references

    def pending(self, results: Callable[[], Iterable[OpenResult]]) -> list[Pending]:
        """The results that are large enough, and not too large."""
        if self.settings.mode not in (Mode.STANDARD, Mode.AGGRESSIVE):
            return []
        found = (self._pending(result) for result in results())
        return [pending for pending in found if pending is not None]

    def _pending(self, result: OpenResult) -> Pending | None:
        settings, output = self.settings, result.output
        if tools.skips(output.tool, settings.skip_tools):
            return None
        if not settings.min_bytes < size(output.text) <= settings.max_bytes:
            return None
        base = self.shorten(result, self._base_policy())
        large = not self.in_chain or size(base.text) > settings.chain_bytes
        ask = large and self._may_lose() and not self._must_stay(output) and "binary" not in base.stages
        return Pending(result, base, ask)

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
        policy = settings.policy(can_expand=self.references is not None)
        return replace(policy, overhead=self.overhead)

    @property
    def overhead(self) -> str:
        """What stands in front of a text that lost something."""
        return self.references.overhead() if self.references is not None else ""

    def _may_lose(self) -> bool:
        """The model can ask for the original, or the operator wants it to do without."""
        settings = self.settings
        return self.references is not None or settings.lossy == "on" or not settings.enable_expand_context

    def _must_stay(self, output: ToolOutput) -> bool:
        """Errors, and what will be quoted."""
        if not self.strategy.protects:
            return False
        return output.is_error or classify(output.tool, output.arguments).category in _QUOTED

    def shorten(self, result: OpenResult, policy: Policy) -> Shortened:
        """What the pipeline makes of a result. Raises RedactionError."""
        ref = self.references.ref if self.references is not None else lambda text: ""
        is_late = time_budget.budget(result.output.text, self.settings.stage_budget)
        return pipeline.shorten(result.output, policy, result.clean, ref, is_late)

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
            return self.shorten(one.result, self._pipeline_policy())
        if fallback == "simple" and one.ask:
            text = first_words(one.base.text)
            if size(self.overhead + text) < size(one.base.text):
                return replace(one.base, text=text, loss=Loss.LOSSY, stages=(*one.base.stages, "simple"))
        return self.shorten(one.result, Policy(mode=Mode.DISABLED))


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
        self, asking: Asking, results: Callable[[], Iterable[OpenResult]]
    ) -> dict[bytes, Shortened]:
        """What becomes of the results that a strategy may be asked about, by their keys.

        `results` is called away from the event loop. Raises RedactionError.
        """
        strategy = chosen(asking.settings, self._http)
        if strategy is None:
            return {}
        selector = _Selector(asking, strategy)
        pending = await asking.work(partial(selector.pending, results))
        if not pending:
            return {}
        asked = [one for one in pending if one.ask]
        outcomes = await self._asked(selector, asked) if asked else {}
        forms: dict[bytes, Shortened] = await asking.work(partial(_forms, selector, pending, outcomes))
        return forms

    async def _asked(self, selector: _Selector, pending: Sequence[Pending]) -> dict[bytes, Outcome]:
        asks = await selector.asking.work(partial(_asks, selector, pending))
        settings = selector.settings
        outcomes = await self._dispatcher.answers(
            selector.strategy, asks, settings.strategy_deadline, cost_check=settings.cost_check
        )
        for one, outcome in zip(pending, outcomes, strict=True):
            _log.info("Penumbra: %s", _line(selector, one, outcome))
        return {one.result.key: outcome for one, outcome in zip(pending, outcomes, strict=True)}


def _forms(
    selector: _Selector, pending: Sequence[Pending], outcomes: Mapping[bytes, Outcome]
) -> dict[bytes, Shortened]:
    return {one.result.key: selector.form(one, outcomes.get(one.result.key)) for one in pending}


def _asks(selector: _Selector, pending: Sequence[Pending]) -> list[Ask]:
    asking, settings = selector.asking, selector.settings
    aware = settings.outside == "external_provider" or not settings.api.query_agnostic
    captures = isinstance(selector.strategy, ExternalProvider) and selector.strategy.captures
    question = asking.question() if aware else ""
    asks: list[Ask] = []
    for one in pending:
        clean = one.result.clean
        task = Task(
            text=one.base.text,
            tool=one.output.tool,
            intent=clean(intent(one.output.arguments)).text if aware else "",
            question=question,
            ratio=settings.target_ratio,
            scope=asking.scope,
            credential=asking.credential if captures else None,
        )
        scan = partial(_text_of, clean)
        asks.append(Ask(task, selector.instead(one), selector.overhead, asking.reader, scan, asking.work))
    return asks


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


def _line(selector: _Selector, one: Pending, outcome: Outcome) -> str:
    """One line for the log, without anything of the text."""
    references = selector.references
    before = size(one.base.text)
    about = f"strategy {selector.strategy.name}: {one.output.call_id or 'a result'} ({one.output.tool})"
    if outcome.text is None:
        return f"{about}: no answer ({outcome.how}), {before:,} bytes take the fallback"
    mapped = f", mapped to {references.ref(one.base.original)}" if references is not None else ", not mapped"
    return f"{about}: {outcome.how}, {before:,} -> {size(outcome.text):,} bytes{mapped}"
