"""Whether the settings hold all that the chosen strategy needs, told before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from penumbra import rules
from penumbra.config.options import Settings
from penumbra.config.parsers import shown

_AUTHS = ("", "api_key", "oauth")


def entry(settings: Settings) -> str:
    """The entry of `providers` that is asked: the one that is named, or the only one there is."""
    if not settings.provider and len(settings.providers) == 1:
        return next(iter(settings.providers))
    return settings.provider


def missing(settings: Settings) -> str:
    """One line that says which key lacks what; empty if the strategy can work."""
    if not (asked := settings.outside):
        return ""
    if settings.lossy == "off":
        return f"lossy: got 'off', allowed: auto or on with the strategy {asked}, which leaves things out"
    if asked == "api":
        return _api(settings)
    return _provider(settings) if asked == "external_provider" else ""


def _api(settings: Settings) -> str:
    endpoint = settings.api.endpoint
    if not endpoint:
        return "pipes.tool_output.api.endpoint: missing, needed by the strategy api"
    if not endpoint.startswith("/") and not _is_url(endpoint):
        return f"pipes.tool_output.api.endpoint: got {shown(endpoint)}, allowed: an http or https URL"
    hosted = endpoint.startswith("/") or (urlsplit(endpoint).hostname or "").endswith("compresr.ai")
    if hosted and not settings.api.api_key:
        return "pipes.tool_output.api.api_key: missing, needed by the strategy api"
    return ""


def _provider(settings: Settings) -> str:
    known: Mapping[str, Any] = rules.load("strategies.yaml")["providers"]
    name = entry(settings)
    allowed = ", ".join(sorted({*known, *settings.providers}))
    if not name:
        return f"pipes.tool_output.provider: missing, needed by external_provider, allowed: {allowed}"
    provider = settings.providers.get(name)
    if provider is None:
        if name in known:
            return f"providers.{name}: missing, needed by the strategy external_provider"
        return f"pipes.tool_output.provider: got {shown(name)}, allowed: {allowed}"
    where = f"providers.{name}"
    if provider.auth not in _AUTHS:
        return f"{where}.auth: got {shown(provider.auth)}, allowed: api_key or oauth"
    if name not in known and not provider.endpoint:
        return f"{where}.endpoint: missing, needed for a provider other than {', '.join(sorted(known))}"
    if provider.endpoint and not _is_url(provider.endpoint):
        return f"{where}.endpoint: got {shown(provider.endpoint)}, allowed: an http or https URL"
    if not provider.model and name not in known:
        return f"{where}.model: missing, needed by the strategy external_provider"
    if provider.auth == "oauth" and not settings.allow_captured_credentials:
        return (
            f"{where}.auth: oauth spends the clients' own credentials, "
            "which penumbra_allow_captured_credentials must allow"
        )
    if provider.auth != "oauth" and not provider.api_key and not provider.endpoint:
        return f"{where}.api_key: missing, needed by the strategy external_provider"
    return ""


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
