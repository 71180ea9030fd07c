"""From settings to the strategy that they name."""

from __future__ import annotations

from penumbra.config.settings import Settings
from penumbra.config.strategy_check import provider, service
from penumbra.external.api import Api
from penumbra.external.external_provider import ExternalProvider
from penumbra.external.http import Http
from penumbra.external.simple import Simple
from penumbra.external.strategy import Strategy


def chosen(settings: Settings, http: Http) -> Strategy | None:
    """Who is asked beside the pipeline or instead of it; None: nobody."""
    name = settings.external_strategy
    if name == "simple":
        return Simple()
    if name == "api":
        return Api(service(settings), http)
    if name == "external_provider":
        entry, asked = provider(settings)
        return None if asked is None else ExternalProvider(entry, asked, settings.api.timeout, http)
    return None
