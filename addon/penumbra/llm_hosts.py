"""Which flows of mitmproxy are for hosts of LLM APIs."""

from __future__ import annotations

from mitmproxy import http

from penumbra.wire import recognise


def may_be(flow: http.HTTPFlow, extra: tuple[str, ...]) -> bool:
    """Whether LLM calls of a flow are ours to read; `extra` are the operator's own globs."""
    return mode(flow.client_conn) == "reverse" or any(
        recognise.is_llm_host(host, extra) for host in _hosts(flow.request)
    )


def is_provider(flow: http.HTTPFlow, extra: tuple[str, ...]) -> bool:
    """Whether the host is there for LLM calls; what is local may be anything."""
    return mode(flow.client_conn) == "reverse" or any(
        recognise.is_provider(host, extra) for host in _hosts(flow.request)
    )


def mode(client: object) -> str:
    """The kind of proxy that a client talks to."""
    return str(getattr(getattr(client, "proxy_mode", None), "type_name", ""))


def _hosts(request: http.Request) -> set[str]:
    """Every host that a request may be for."""
    named = (name.rpartition(":")[0] or name for name in request.headers.get_all("host"))
    return {request.host, request.pretty_host, *named}
