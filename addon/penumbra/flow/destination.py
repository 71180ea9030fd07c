"""This module finds the destination of a request by its connection. A header counts only if the connection
has no checked name."""

from __future__ import annotations

from collections.abc import Iterable

from penumbra.apis import recognise
from penumbra.errors import one_line
from penumbra.flow.mitm import Flow, HttpRequest, option

_ADDRESSED = ("transparent", "local", "wireguard", "tun")
"""The modes in which the proxy learns a destination's address, but not its name."""
_LONGEST = 253
"""The length in characters of the longest name that is shown."""


def mode(client: object) -> str:
    return str(getattr(getattr(client, "proxy_mode", None), "type_name", ""))


def host(flow: Flow) -> str:
    """Return the host of the connection: the name for which the certificate is checked, or the address that
    the client or the operator gave."""
    request = flow.request
    if mode(flow.client_conn) == "reverse" or option("ssl_insecure"):
        return request.host
    return next(filter(None, secured(flow)), request.host)


def secured(flow: Flow) -> tuple[str | None, ...]:
    """Return the names in the server's and the client's TLS; no names unless both belong to one tunnel."""
    request, server = flow.request, flow.server_conn
    is_tunnel = server.address is not None and tuple(server.address[:2]) == (request.host, request.port)
    # If there is no tunnel, the client's TLS may end at the proxy itself. The client may then use any name.
    return (server.sni, flow.client_conn.sni) if is_tunnel and request.scheme == "https" else ()


def shown(flow: Flow) -> str:
    """Return the client's name for the host in a form that is safe in logs."""
    return one_line(flow.request.pretty_host[:_LONGEST])


def claimed(flow: Flow) -> str:
    """Return the name that the client claims, if no other name is known; otherwise empty. In the modes of
    `_ADDRESSED`, without TLS or with an unchecked certificate, only the address of the host is certain. The
    claimed name only decides whether requests are read and searched."""
    unchecked = flow.request.scheme != "https" or option("ssl_insecure")
    if not unchecked or mode(flow.client_conn) not in _ADDRESSED:
        return ""
    return flow.client_conn.sni or flow.request.pretty_host


def is_llm_host(flow: Flow, extra: tuple[str, ...]) -> bool:
    """Return whether LLM calls to the flow's host are read. `extra` are the operator's globs."""
    return mode(flow.client_conn) == "reverse" or any(
        recognise.is_llm_host(host, extra) for host in _hosts(flow)
    )


def is_provider(flow: Flow, extra: tuple[str, ...]) -> bool:
    """Return whether the host is an LLM host of a provider or of the operator, or the mode is reverse. Local
    hosts don't count, since they may serve anything."""
    return mode(flow.client_conn) == "reverse" or any(
        recognise.is_provider(host, extra) for host in _hosts(flow)
    )


def _hosts(flow: Flow) -> list[str]:
    names = (host(flow), flow.request.host, *secured(flow), claimed(flow))
    return [name for name in names if name]


def headers_of(request: HttpRequest) -> dict[str, str]:
    """Return the headers by their lower-case names. The values of a repeated header are joined."""
    return joined(fields_of(request))


def joined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in fields:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def fields_of(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the headers with lower-case names, in their order. mitmproxy's own view decodes each header
    several times."""
    as_text = "utf-8", "surrogateescape"
    fields = request.headers.fields
    return [(name.decode(*as_text).lower(), value.decode(*as_text)) for name, value in fields]


def query_of(request: HttpRequest) -> dict[str, str]:
    """Return the values of the query by key. All values of a repeated key count, because the provider may
    read any of them."""
    if "?" not in request.path:
        return {}
    return {name: "&".join(request.query.get_all(name)) for name in request.query}
