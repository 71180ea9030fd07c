"""Where a request goes is what its connection says, whatever its headers say."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import certifi

from support.by_hand import CHAT, PATH, SECRET, TURNS, sent, tunnelled
from support.upstream import Raw


def test_a_host_header_makes_nobody_a_provider(proxy: Any, upstream: Any) -> None:
    """A server of the attacker's own, which says that it is a provider's."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    with socket.create_connection(("127.0.0.1", proxy("regular").port), 20) as stream:
        sent(stream, f"http://attacker.example.org{PATH}", "api.openai.com", body)
    assert upstream.requests[-1].raw_body == body


def test_a_host_header_takes_no_request_away_from_its_provider(proxy: Any, upstream: Any) -> None:
    """What goes to a provider is searched and rewritten whatever name stands in it."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    tunnelled(proxy("regular"), "api.openai.com", "api.openai.com", "attacker.example.org", body)
    got = upstream.requests[-1].raw_body
    assert SECRET.encode() not in got
    assert len(got) < len(body)


def test_the_certificate_names_the_host_of_a_tunnel(proxy: Any, upstream: Any) -> None:
    """An address counts by the name that its certificate is checked for."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    tunnelled(proxy("regular"), "192.0.2.1", "api.openai.com", "api.openai.com", body)
    assert len(upstream.requests[-1].raw_body) < len(body)


def test_a_server_without_the_certificate_gets_nothing(own_proxy: Any, upstream: Any) -> None:
    """The same address for a server that can't show that it is the provider: the tunnel ends."""
    running = own_proxy("regular", ssl_verify_upstream_trusted_ca=certifi.where())
    before = len(upstream.requests)
    with contextlib.suppress(OSError):
        tunnelled(running, "192.0.2.1", "api.openai.com", "api.openai.com", CHAT.body(TURNS))
    assert len(upstream.requests) == before
