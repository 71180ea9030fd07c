"""Whom the chosen strategy asks, and whether the settings hold all that this takes, told before the first
request.

An entry of `providers` may describe a service, and the block `api` a model: both say whom to ask.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from penumbra import rules
from penumbra.config.options import Settings
from penumbra.config.parsers import shown
from penumbra.config.services import Api, Provider
from penumbra.rule_schemas.providers import Strategies
from penumbra.wire.request_path import is_loopback

_AUTHS = ("", "api_key", "oauth")


def service(settings: Settings) -> Api:
    """Whom the strategy api asks: the block `api`, and what it leaves to the entry that `provider` names."""
    named = settings.providers.get(settings.provider)
    if named is None:
        return settings.api
    own = settings.api
    key = own.api_key if own.endpoint else own.api_key or named.api_key
    return replace(own, endpoint=own.endpoint or named.endpoint, api_key=key, model=own.model or named.model)


def provider(settings: Settings) -> tuple[str, Provider | None]:
    """Whom external_provider asks, under which name: the entry that is named, the only one there is, or what
    the block `api` says; None: there is nobody. Without a key of its own it gets the client's, where that is
    allowed."""
    name, inline = settings.provider, settings.api
    if not name and len(settings.providers) == 1:
        name = next(iter(settings.providers))
    chosen = settings.providers.get(name)
    is_inline = bool(inline.endpoint or inline.api_key or inline.model)
    if chosen is None and is_inline and (not name or name in _own_endpoints()):
        chosen = Provider("", inline.model, inline.api_key, inline.endpoint)
        name = name or _name_of(inline.endpoint)
    if chosen is None:
        return name, None
    if not chosen.auth and not chosen.api_key and not chosen.endpoint and settings.allow_captured_credentials:
        chosen = replace(chosen, auth="oauth")
    return name, chosen


def _own_endpoints() -> dict[str, str]:
    """The providers that need no endpoint of their own, and their endpoints."""
    table = rules.load_as("strategies.yaml", Strategies)
    return {name: entry.endpoint for name, entry in table.providers.items()}


def _name_of(endpoint: str) -> str:
    """The provider whose host an endpoint is at; empty if that is nobody's."""
    host = urlsplit(endpoint).hostname if _is_url(endpoint) else None
    return next(
        (name for name, base in _own_endpoints().items() if host and urlsplit(base).hostname == host), ""
    )


def missing(settings: Settings) -> str:
    """One line that says which key lacks what; empty if the strategy can work."""
    if not (asked := settings.external_strategy):
        return ""
    if settings.lossy == "off":
        return f"lossy: got 'off', allowed: auto or on with the strategy {asked}, which leaves things out"
    if asked == "api":
        return _api(settings)
    return _provider(settings) if asked == "external_provider" else ""


def _api(settings: Settings) -> str:
    if settings.provider and settings.provider not in settings.providers:
        allowed = ", ".join(sorted(settings.providers)) or "none, since there is no section `providers`"
        return f"pipes.tool_output.provider: got {shown(settings.provider)}, allowed: {allowed}"
    asked = service(settings)
    if not asked.endpoint:
        return "pipes.tool_output.api.endpoint: missing, needed by the strategy api"
    if not asked.endpoint.startswith("/") and not _is_url(asked.endpoint):
        return f"pipes.tool_output.api.endpoint: got {shown(asked.endpoint)}, allowed: an http or https URL"
    hosted = asked.endpoint.startswith("/") or (urlsplit(asked.endpoint).hostname or "").endswith(
        "compresr.ai"
    )
    if hosted and not asked.api_key:
        return "pipes.tool_output.api.api_key: missing, needed by the strategy api"
    return ""


def _provider(settings: Settings) -> str:
    own = _own_endpoints()
    name, chosen = provider(settings)
    allowed = ", ".join(sorted({*own, *settings.providers}))
    if chosen is None:
        if not name:
            return f"pipes.tool_output.provider: missing, needed by external_provider, allowed: {allowed}"
        if name in own:
            return f"providers.{name}: missing, needed by the strategy external_provider"
        return f"pipes.tool_output.provider: got {shown(name)}, allowed: {allowed}"
    where = f"providers.{name}" if name in settings.providers else "pipes.tool_output.api"
    if chosen.auth not in _AUTHS:
        return f"{where}.auth: got {shown(chosen.auth)}, allowed: api_key or oauth"
    if name not in own and not chosen.endpoint:
        return f"{where}.endpoint: missing, needed for a provider other than {', '.join(sorted(own))}"
    if chosen.endpoint and not _is_url(chosen.endpoint):
        return f"{where}.endpoint: got {shown(chosen.endpoint)}, allowed: an http or https URL"
    if not chosen.model and name not in own:
        return f"{where}.model: missing, needed by the strategy external_provider"
    if chosen.auth == "oauth" and not settings.allow_captured_credentials:
        return (
            f"{where}.auth: oauth spends the clients' own credentials, "
            "which penumbra_allow_captured_credentials must allow"
        )
    if chosen.auth == "oauth" and chosen.endpoint and not _is_private(chosen.endpoint):
        return f"{where}.endpoint: got {shown(chosen.endpoint)}, allowed with auth: oauth: an https URL"
    if chosen.auth != "oauth" and not chosen.api_key and not chosen.endpoint:
        return f"{where}.api_key: missing, needed by the strategy external_provider"
    return ""


def _is_private(url: str) -> bool:
    """Whether nobody on the way can read what is sent to a URL: it is encrypted, or stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
