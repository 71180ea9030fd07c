"""Which flows of mitmproxy are for hosts of LLM APIs."""

from __future__ import annotations

from mitmproxy import http

from penumbra.apis import recognise
from penumbra.flow import destination


def may_be(flow: http.HTTPFlow, extra: tuple[str, ...]) -> bool:
    """Whether LLM calls of a flow are ours to read; `extra` are the operator's own globs."""
    return destination.mode(flow.client_conn) == "reverse" or any(
        recognise.is_llm_host(host, extra) for host in _hosts(flow)
    )


def is_provider(flow: http.HTTPFlow, extra: tuple[str, ...]) -> bool:
    """Whether the host is there for LLM calls; what is local may be anything."""
    return destination.mode(flow.client_conn) == "reverse" or any(
        recognise.is_provider(host, extra) for host in _hosts(flow)
    )


def _hosts(flow: http.HTTPFlow) -> list[str]:
    """Return all names by which the connection of a request knows its host, and the name in its headers where
    nothing else can tell one."""
    names = (destination.host(flow), flow.request.host, *destination.secured(flow), destination.claimed(flow))
    return [name for name in names if name]
