"""Recorded requests, in their order, as a proxy would have sent them on."""

from __future__ import annotations

from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation import cache_price
from penumbra.conversation.incoming import Incoming
from penumbra.metrics import list_prices
from penumbra.projection.figures import Figures, Requests
from penumbra.projection.projector import Projected, Projector


class RequestProjection:
    """State: the figures, and how long each conversation was when it was last seen."""

    def __init__(self, projector: Projector, figures: Figures) -> None:
        self.projector = projector
        self.figures = figures
        self._sizes: dict[bytes, int] = {}

    async def add(self, incoming: Incoming, source: str) -> None:
        """One request. `source`: the file that holds it."""
        projected = await self.projector.request(incoming)
        if projected is None:
            self.figures.failed += 1
            return
        if incoming.api.kind != "messages":
            return
        accepted = projected.accepted
        document, model = accepted.request.document, accepted.request.conversation.model
        cache, price = cache_price.of_request(incoming.api.format, model, document), list_prices.price(model)
        size = _tokens(incoming, projected)
        dollars = price.at(size).input / list_prices.MILLION if price is not None else 0.0
        requests = self._requests(incoming, projected, cache, dollars, is_priced=price is not None)
        self.figures.add_requests(incoming.api.id, requests)
        self.figures.secrets.update(projected.hidden)
        for form in projected.forms:
            if form.is_new:
                self.figures.secrets.update(form.facts.redactions)
                self.figures.values |= form.values
            if form.is_result:
                each = (cache.write if form.is_new else cache.read) * dollars
                row = (form.tool, form.kind)
                again = int(not form.is_new)
                self.figures.add_result(incoming.api.id, row, form.facts, again, each, is_new=form.is_new)
                if form.is_new and self.figures.is_large(form.facts.tokens_before):
                    self.figures.add_large(await self.projector.large(form, source))

    def _requests(
        self,
        incoming: Incoming,
        projected: Projected,
        cache: cache_price.Prices,
        dollars: float,
        *,
        is_priced: bool,
    ) -> Requests:
        conversation = projected.accepted.conversation
        before = self._sizes.get(conversation)
        self.figures.conversations += before is None
        size = self._sizes[conversation] = _tokens(incoming, projected)
        held = min(before or 0, size)
        return Requests(
            count=1,
            input=size,
            dollars=(held * cache.read + (size - held) * cache.write) * dollars,
            declared=projected.declared,
            declared_dollars=projected.declared * (cache.write if before is None else cache.read) * dollars,
            unpriced=int(not is_priced),
        )


def _tokens(incoming: Incoming, projected: Projected) -> int:
    """Of a request: of results as they are estimated, for what is saved is a part of them; else by bytes."""
    results = [form.facts for form in projected.forms if form.is_result]
    rest = max(0, len(incoming.body) - sum(facts.bytes_before for facts in results))
    return int(rest / BYTES_PER_TOKEN) + sum(facts.tokens_before for facts in results)
