"""This module chooses which results of a request an external compressor shortens, and chooses their forms.

A result is not sent if its tool is skipped, its size or kind is unsuitable, or no part may be left out. The
other results get a stored text, or the compressor is asked for a new one. If no text arrives in time, the
result gets the fallback. If the fallback is the pipeline or no change, `decide` treats the result like any
other. External compressors are off by default.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

from msgspec import Raw, Struct, structs

from penumbra import errors
from penumbra.apis import identity
from penumbra.compress import pipeline, time_budget
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.compress.result import Asked, Loss, Mode, Policy, Redact, Shortened, ToolOutput
from penumbra.compress.size import size
from penumbra.config.settings import Settings
from penumbra.conversation import cache_price, result_text
from penumbra.conversation.decide import Inputs
from penumbra.conversation.incoming import Incoming
from penumbra.conversation.model import Request
from penumbra.conversation.rewrite import undecided
from penumbra.errors import RedactionError
from penumbra.external.dispatch import PROCESS, Dispatcher, Job, Model, Outcome, Work
from penumbra.external.strategies import Credential, Http, Strategy, Task, chosen, first_words, strategy_rules
from penumbra.linear import LinearText
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.store.stores import Stores
from penumbra.wire.document import Document

LIMIT = 2_000
"""The greatest length in characters of the question. A longer question loses its beginning."""
_KINDS = (None, "text", "input_text")


def question(document: Document, messages: Raw | None) -> str:
    """Return the text of the last message that a human has written; empty if there is none. Tagged text that
    agents add to such messages is left out."""
    for message in reversed(document.items(messages)):
        members = document.members(message)
        if document.string(members.get("role")) != "user":
            continue
        content = members.get("content") or members.get("parts")
        text = without_injected("\n".join(_texts(document, content)))
        if text:
            return text[-LIMIT:]
    return ""


def _texts(document: Document, content: Raw | None) -> Iterator[str]:
    whole = document.string(content)
    if whole is not None:
        yield whole
        return
    for block in document.items(content):
        members = document.members(block)
        text = document.string(members.get("text"))
        if text is not None and document.string(members.get("type")) in _KINDS:
            yield text


@cache
def _injected() -> LinearText:
    tags = strategy_rules()["injected"]
    return LinearText("|".join(rf"(?s:<{tag}[> \n].*?(?:</{tag}>|\z))" for tag in tags))


def without_injected(text: str) -> str:
    """Return a text without the tagged parts that agents add, and without blanks at its ends."""
    return _injected().sub("", text).strip()


_QUOTED = frozenset({"read", "edit", "write"})
_NO_CAP = 1 << 62
_CHAIN_BYTES = 8_192
"""If the pipeline and a strategy are in use, results up to this size in bytes are left to the pipeline."""
_INTENT, _ARGUMENT = 1_000, 400
"""The greatest lengths in characters of a call's purpose, and of one argument in the purpose."""
_MOST_MISFITS = 100
"""The greatest number of hosts that the log names."""
_log = logging.getLogger(__name__)


class _Pending(Struct, frozen=True):
    """A `_Pending` is a result that a strategy will shorten."""

    key: bytes
    output: ToolOutput
    clean: Redact
    """The function that redacts a text of the call."""
    base: Shortened
    """The input of the strategy."""


class _Selector(Struct, frozen=True):
    """A `_Selector` chooses which results of one request are sent to a strategy, and chooses their forms."""

    inputs: Inputs
    strategy: Strategy
    credential: Credential | None
    """The credential that may pay for the calls; None if there is none."""
    work: Work
    """The function that runs work on the results outside of the event loop."""

    @property
    def settings(self) -> Settings:
        return self.inputs.request.settings

    def pending(self) -> tuple[list[_Pending], dict[bytes, Asked]]:
        """Return the results for a strategy and, by key, why each other result is not sent. Raises
        RedactionError."""
        request, pending, others = self.inputs.request, list[_Pending](), dict[bytes, Asked]()
        for item in undecided(request, self.inputs.past):
            output = result_text.tool_output(request, item)
            clean = result_text.cleaner(request, item, output, self.inputs.redact)
            base = self._reason(output) or self._base(output, clean)
            if isinstance(base, str):
                others[item.key] = Asked(base)
            else:
                pending.append(_Pending(item.key, output, clean, base))
        return pending, others

    def _reason(self, output: ToolOutput) -> str:
        """Return why a result is not sent to a strategy; empty if it may be sent."""
        settings = self.settings
        if tools.skips(output.tool, settings.skip_tools):
            return "skipped tool"
        if size(output.text) <= settings.min_bytes:
            return "not above min_bytes"
        if size(output.text) > settings.max_bytes:
            return "above max_bytes"
        if self._in_chain and size(output.text) <= _CHAIN_BYTES:
            return "not above chain_bytes"
        if not self._may_lose():
            return "no reference"
        if not self.strategy.protects:
            return ""
        if output.is_error:
            return "an error"
        return "quoted later" if classify(output.tool, output.arguments).category in _QUOTED else ""

    def _base(self, output: ToolOutput, clean: Redact) -> Shortened | str:
        """Return the input of a strategy for a result, or the reason why it is not sent. Raises
        RedactionError."""
        base = self._shorten(output, clean)
        if "binary" in base.stages:
            return "binary"
        small = self._in_chain and size(base.text) <= _CHAIN_BYTES
        return "not above chain_bytes" if small else base

    @property
    def _in_chain(self) -> bool:
        """Return whether the pipeline shortens a text before the strategy does."""
        return self.settings.strategy.startswith("pipeline")

    def _shorten(self, output: ToolOutput, clean: Redact) -> Shortened:
        settings, references = self.settings, self.inputs.references
        policy = Policy(mode=Mode.SAFE, min_bytes=settings.min_bytes)
        if self._in_chain:
            policy = settings.policy(can_expand=references is not None)
        policy = structs.replace(policy, max_output_bytes=_NO_CAP, overhead=self.overhead, for_others=True)
        is_late = time_budget.budget(output.text, settings.stage_budget)
        ref = references.ref if references is not None else lambda text: ""
        return pipeline.shorten(output, policy, clean, ref, is_late)

    @property
    def overhead(self) -> str:
        """Return the prefix of forms with loss; empty if there are no references."""
        references = self.inputs.references
        return references.overhead() if references is not None else ""

    def _may_lose(self) -> bool:
        """Return whether parts of a result may be left out. The model must be able to ask for the original,
        or the operator must allow the loss."""
        settings = self.settings
        return settings.lossy != "off" and (self.inputs.references is not None or settings.lossy == "on")

    def instead(self, pending: _Pending) -> str:
        """Return the text that is sent without a strategy, which has to make a smaller text."""
        return (self.overhead if pending.base.loss is Loss.LOSSY else "") + pending.base.text

    def asked(self, pending: _Pending, outcome: Outcome) -> Asked:
        """Return the form of a result and how the strategy answered."""
        if outcome.text is not None:
            return Asked(outcome.how, self._lossy(pending, outcome.text, self.strategy.name))
        if self.settings.fallback_strategy == "simple" and not self._in_chain:
            text = first_words(pending.base.text)
            if size(self.overhead + text) < size(pending.base.text):
                return Asked(outcome.how, self._lossy(pending, text, "simple"))
        return Asked(outcome.how)

    def _lossy(self, pending: _Pending, text: str, stage: str) -> Shortened:
        return structs.replace(pending.base, text=text, loss=Loss.LOSSY, stages=(*pending.base.stages, stage))

    def answers(self, pending: Sequence[_Pending], outcomes: Sequence[Outcome]) -> dict[bytes, Asked]:
        return {one.key: self.asked(one, got) for one, got in zip(pending, outcomes, strict=True)}

    def asks(self, pending: Sequence[_Pending]) -> list[Job]:
        """Return the questions to the strategy."""
        is_aware, request = self.strategy.is_aware, self.inputs.request
        words, reader = self._question() if is_aware else "", _reader(request)
        asks: list[Job] = []
        for each in pending:
            task = Task(
                text=str(each.base.text),
                tool=each.output.tool,
                intent=each.clean(intent(each.output.arguments)).text if is_aware else "",
                question=words,
                ratio=self.settings.target_ratio,
                scope=request.scope,
                credential=self.credential if self.strategy.captures else None,
            )
            redact = partial(_cleaned, each.clean)
            asks.append(Job(task, self.instead(each), self.overhead, reader, redact, self.work))
        return asks

    def line(self, pending: _Pending, outcome: Outcome) -> str:
        """Return a line for the log, without any part of the text."""
        references, show, output = self.inputs.references, self.inputs.show, pending.output
        before = size(pending.base.text)
        result = f"{show(output.call_id) or 'a result'} ({show(output.tool)})"
        about = f"strategy {self.strategy.name}: {result}"
        if outcome.text is None:
            return f"{about}: no response ({outcome.how}), {before:,} bytes take the fallback"
        mapped = (
            f"mapped to {references.ref(pending.base.original)}" if references is not None else "not mapped"
        )
        return f"{about}: {outcome.how}, {before:,} -> {size(outcome.text):,} bytes, {mapped}"

    def _question(self) -> str:
        """Return the user's question, without secrets."""
        request = self.inputs.request
        text = question(request.document, request.conversation.messages)
        return self.inputs.redact(text, "").text if text and self.settings.redact_secrets else text


class ExternalForms:
    """An `ExternalForms` calls external compressors for all requests of one process."""

    def __init__(
        self,
        key: bytes,
        stores: Stores,
        metrics: ExternalMetrics | None,
        listening: Callable[[], Collection[int]],
    ) -> None:
        """`metrics` count calls. `listening` returns the ports of this process."""
        self._dispatcher = Dispatcher(key, stores.compressed, metrics, PROCESS)
        self._http = Http(listening)
        self._closing: asyncio.Task[None] | None = None
        self._misfits: set[str] = set()
        """The logged hosts: clients of these hosts have no credential that could pay."""

    def close(self) -> None:
        """End all calls."""
        self._dispatcher.cancel()
        with suppress(RuntimeError):
            # Without an event loop there are no connections to close.
            self._closing = asyncio.get_running_loop().create_task(self._http.close())

    async def forms(self, incoming: Incoming, inputs: Inputs, work: Work) -> dict[bytes, Asked]:
        """Return the outcome for each considered result, by key; empty without a working compressor. Raises
        RedactionError."""
        words = "Penumbra asks no external compressor about a request"
        with errors.contained(_log, words, logging.WARNING, (RedactionError,)):
            return await self._forms(incoming, inputs, work)
        return {}

    async def _forms(self, incoming: Incoming, inputs: Inputs, work: Work) -> dict[bytes, Asked]:
        settings = inputs.request.settings
        strategy = chosen(settings, self._http)
        if strategy is None or not settings.rewrites_history:
            return {}
        headers = identity.credential_headers(incoming.headers)
        can_pay = settings.allow_captured_credentials and bool(headers)
        credential = Credential(incoming.host, headers, inputs.request.scope) if can_pay else None
        selector = _Selector(inputs, strategy, credential, work)
        asked: dict[bytes, Asked]
        pending, asked = await work(selector.pending)
        if pending:
            outcomes = await self._outcomes(selector, pending)
            asked |= await work(partial(selector.answers, pending, outcomes))
        return asked

    async def _outcomes(self, selector: _Selector, pending: Sequence[_Pending]) -> list[Outcome]:
        settings = selector.settings
        asks = await selector.work(partial(selector.asks, pending))
        outcomes = await self._dispatcher.outcomes(
            selector.strategy, asks, settings.api.timeout, cost_check=settings.cost_check
        )
        for one, outcome in zip(pending, outcomes, strict=True):
            _log.info("Penumbra: %s", selector.line(one, outcome))
        if any(outcome.how == "no credential" for outcome in outcomes):
            self._log_misfit(selector)
        return outcomes

    def _log_misfit(self, selector: _Selector) -> None:
        """Log, once for each host, that no strategy can use the credentials of the host's clients."""
        strategy, credential = selector.strategy, selector.credential
        host = credential.host if credential is not None else ""
        if host not in self._misfits and len(self._misfits) < _MOST_MISFITS:
            self._misfits.add(host)
            _log.warning(
                "Penumbra: the provider %s takes no credential of clients %s, only of those of %s: their "
                "results take the fallback",
                strategy.entry or strategy.host,
                f"of {host}" if host else "without one",
                strategy.host,
            )


def _cleaned(clean: Redact, text: str) -> str:
    return clean(text).text


def intent(arguments: Any) -> str:
    """Return the purpose of a call in one line: its arguments, each cut to a length."""
    if isinstance(arguments, dict):
        parts = [f"{name}: {_short(value)}" for name, value in arguments.items()]
        return "; ".join(parts)[:_INTENT]
    return _short(arguments)[:_INTENT] if arguments is not None else ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return " ".join(text[:_ARGUMENT].split())


def _reader(request: Request) -> Model:
    """Return the model that reads the results, with the prices of its cache if they are known."""
    model = request.conversation.model
    try:
        price = cache_price.of_request(request.api.format, model, request.document)
    except KeyError:
        return Model(model)
    return Model(model, price.read, price.write)
