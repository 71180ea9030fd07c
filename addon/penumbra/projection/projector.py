"""This module runs recorded requests through the proxy's engine without sending them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penumbra.apis import parts
from penumbra.compress.calls.classify import classify
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.config.settings import Settings
from penumbra.conversation import cache_price
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import Accepted, EngineSettings, Incoming
from penumbra.conversation.model import Shown
from penumbra.expand import reference
from penumbra.metrics import amounts
from penumbra.projection.figures import Figures, LargeResult, Requests
from penumbra.redaction import placeholder
from penumbra.redaction.ruleset import Loaded
from penumbra.store.decisions import Facts

_MEMORY_BYTES = 128 * 1024**2
"""The greatest size in bytes of the database in memory."""
_FORM_CHARACTERS, _CALL_CHARACTERS = 20_000, 200
"""The greatest number of characters that are shown of a result, and the greatest number for a call."""


def settings_of(settings: Settings, *, adopts: bool) -> Settings:
    """Return the settings, changed so that the engine calls no service and stores nothing on disk. `adopts`
    is true if the first request of a conversation may be missing, as in recorded requests. Otherwise old
    results in the first request are also shortened."""
    return replace(
        settings,
        expand_from=settings.expand_from if adopts else 0,
        database="memory",
        store="",
        database_max_bytes=_MEMORY_BYTES,
        strategy="pipeline" if settings.external_strategy else settings.strategy,
        restore_secrets="off",
        pause=False,
        threads="pass",
        adopt=settings.adopt if adopts else "compress",
        request_budget=0.0,
    )


@dataclass(frozen=True, slots=True)
class Form:
    """A `Form` has the text that would have been sent for a result, or for the arguments of a call."""

    message: int
    tool: str
    kind: str
    """The family of the command, or `files shown` or `other commands`; empty if the tool runs no commands."""
    facts: Facts
    is_result: bool
    is_new: bool
    call: str
    """The recorded command or path of the call."""
    original: str
    text: str | None
    """The text that would have been sent; None if the original would have been sent."""

    @property
    def values(self) -> set[str]:
        """Return the placeholders that replaced secrets."""
        if not self.facts.redactions or self.text is None:
            return set()
        return set(placeholder.PATTERN.findall(self.text)) - set(placeholder.PATTERN.findall(self.original))


@dataclass(frozen=True, slots=True)
class Projected:
    accepted: Accepted
    forms: tuple[Form, ...]
    hidden: Mapping[str, int]
    """Secrets found outside of results and calls, by rule."""
    declared: int
    """Tokens of the injected tool's declaration."""


class Projector:
    """A `Projector` runs requests through an engine of its own."""

    def __init__(self, settings: Settings, user_rules: Loaded | None = None) -> None:
        self._settings = settings
        self._engine = Engine(EngineSettings.of(settings, user_rules))

    def close(self) -> None:
        self._engine.close()

    async def request(self, incoming: Incoming) -> Projected | None:
        """Return the projection of a request; None if the request would be refused or sent unchanged."""
        accepted = await self._engine.process(incoming, self._settings)
        if not isinstance(accepted, Accepted):
            return None
        forms = tuple(_form(accepted, shown) for shown in accepted.rewritten.shown)
        name = accepted.prepared.tool if accepted.prepared else ""
        return Projected(accepted, forms, accepted.hidden, reference.tool_tokens(name) if name else 0)

    async def large(self, form: Form, source: str) -> LargeResult:
        """Return a result for display, without secrets. `source` is the file with the result. Raises
        RedactionError."""
        text = form.original if form.text is None else form.text
        call = await self._engine.cleaned(form.call)
        tool = await self._engine.cleaned(form.tool)
        return LargeResult(tool, form.kind, call, source, form.facts, text[:_FORM_CHARACTERS])


def _form(accepted: Accepted, shown: Shown) -> Form:
    item = shown.item
    decoded = parts.decoded_arguments(accepted.request.document, item.result.call)
    call = classify(item.tool, decoded)
    kind = ""
    if call.shell:
        kind = call.family or ("files shown" if call.is_quoted else "other commands")
    decision = accepted.decided.get(item.key)
    return Form(
        message=item.result.turn,
        tool=item.tool,
        kind=kind,
        facts=shown.facts,
        is_result=bool(item.text),
        is_new=shown.new,
        call=(call.line or call.path)[:_CALL_CHARACTERS],
        original=item.text,
        text=decision.text if decision is not None else None,
    )


class Projection:
    """A `Projection` adds projected requests and results to `figures`."""

    def __init__(self, projector: Projector, figures: Figures) -> None:
        self.projector = projector
        self.figures = figures

    async def add_form(
        self, agent: str, source: str, form: Form, resent: int, each: float, *, is_new: bool
    ) -> None:
        """Add a result to the figures. `resent` is the number of counted requests that repeat the result. One
        token of the result costs `each` dollars in all counted requests together. `source` is the file with
        the result."""
        if is_new:
            self.figures.secrets.update(form.facts.redactions)
            self.figures.values |= form.values
        if form.is_result:
            self.figures.add_result(agent, (form.tool, form.kind), form.facts, resent, each, is_new=is_new)
            if is_new and self.figures.is_large(form.facts.tokens_before):
                self.figures.add_large(await self.projector.large(form, source))


class RequestProjection(Projection):
    """A `RequestProjection` projects recorded requests, and keeps the latest size of each conversation."""

    def __init__(self, projector: Projector, figures: Figures) -> None:
        super().__init__(projector, figures)
        self._sizes: dict[bytes, int] = {}

    async def add(self, incoming: Incoming, source: str) -> None:
        """Add a request. `source` is the file with the request."""
        projected = await self.projector.request(incoming)
        if projected is None:
            self.figures.failed += 1
            return
        if incoming.api.kind != "messages":
            return
        accepted = projected.accepted
        document, model = accepted.request.document, accepted.request.conversation.model
        cache, price = cache_price.of_request(incoming.api.format, model, document), amounts.price(model)
        size, before = _tokens(incoming, projected), self._sizes.get(accepted.conversation)
        dollars = price.at(size).input if price is not None else 0.0
        self._sizes[accepted.conversation] = size
        self.figures.conversations += before is None
        cached = min(before or 0, size)
        requests = Requests(
            count=1,
            input=size,
            dollars=(cached * cache.read + (size - cached) * cache.write) * dollars,
            declared=projected.declared,
            declared_dollars=projected.declared * (cache.write if before is None else cache.read) * dollars,
            unpriced=int(price is None),
        )
        self.figures.add_requests(incoming.api.id, requests)
        self.figures.secrets.update(projected.hidden)
        for form in projected.forms:
            each = (cache.write if form.is_new else cache.read) * dollars
            again = int(not form.is_new)
            await self.add_form(incoming.api.id, source, form, again, each, is_new=form.is_new)


def _tokens(incoming: Incoming, projected: Projected) -> int:
    """Return the tokens of a request. The tokens of results are those of their facts. The other tokens are
    estimated from the number of bytes."""
    results = [form.facts for form in projected.forms if form.is_result]
    rest = max(0, len(incoming.body) - sum(facts.bytes_before for facts in results))
    return int(rest / BYTES_PER_TOKEN) + sum(facts.tokens_before for facts in results)
