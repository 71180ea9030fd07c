"""Who may see the page."""

from __future__ import annotations

import pytest

from penumbra.flow.page.access import PROOF_HEADER, Access, Asked, hosts, token

TOKEN = token(b"k" * 32)
GATE = Access(TOKEN, hosts("127.0.0.1", 8765), "proof")
HOST = {"host": "127.0.0.1:8765"}
LOCAL = {"host": "penumbra.local", PROOF_HEADER: "proof"}


def refused(asked: Asked) -> bool:
    return bool(GATE.refusal(asked))


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST:8765"])
def test_the_link_and_what_a_browser_keeps_of_it_are_let_in(host: str) -> None:
    assert not refused(Asked("GET", {"host": host}, token=TOKEN))
    assert not refused(Asked("GET", {"host": host, "sec-fetch-site": "same-origin"}, cookie=GATE.cookie))
    assert not refused(Asked("GET", {"host": host, "authorization": f"Bearer {TOKEN}"}))
    assert not refused(Asked("POST", {"host": host, "origin": f"http://{host}"}, cookie=GATE.cookie))
    # A link in a mail.
    assert not refused(
        Asked("GET", {"host": host, "sec-fetch-site": "cross-site"}, token=TOKEN, is_start=True)
    )


@pytest.mark.parametrize(
    "asked",
    [
        Asked("GET", HOST),
        Asked("GET", HOST, token="x"),
        Asked("GET", HOST, cookie=TOKEN),
        Asked("GET", {**HOST, "authorization": f"Basic {TOKEN}"}),
        # A name of somebody else's that leads to this machine.
        Asked("GET", {"host": "evil.example:8765"}, token=TOKEN, cookie=GATE.cookie),
        Asked("GET", {"host": "127.0.0.1:80"}, token=TOKEN),
        Asked("GET", {}, token=TOKEN),
        # Another page, which has a browser ask.
        Asked("GET", {**HOST, "origin": "http://evil.example"}, cookie=GATE.cookie),
        Asked("GET", {**HOST, "origin": "null"}, cookie=GATE.cookie),
        Asked("GET", {**HOST, "sec-fetch-site": "cross-site"}, cookie=GATE.cookie),
        Asked("GET", {**HOST, "sec-fetch-site": "same-site"}, cookie=GATE.cookie),
        Asked("POST", {**HOST, "sec-fetch-site": "cross-site"}, token=TOKEN, is_start=True),
        Asked("POST", HOST, cookie=GATE.cookie),
        # The proxied name, without having come through the proxy, and the other way round.
        Asked("GET", {"host": "penumbra.local"}, token=TOKEN),
        Asked("GET", {"host": "penumbra.local", PROOF_HEADER: "x"}, token=TOKEN),
        Asked("GET", LOCAL, cookie=GATE.cookie),
        Asked("GET", HOST, cookie=GATE.proxied_cookie),
    ],
)
def test_everybody_else_is_refused(asked: Asked) -> None:
    assert refused(asked)


def test_a_page_at_all_addresses_is_asked_for_by_any_of_them_and_by_no_name() -> None:
    gate = Access(TOKEN, hosts("0.0.0.0", 8765), "proof", 8765)
    for host in ("192.0.2.7:8765", "[2001:db8::7]:8765", "localhost:8765"):
        assert gate.refusal(Asked("GET", {"host": host}, token=TOKEN)) == ""
        assert gate.refusal(Asked("GET", {"host": host}))
    for host in ("192.0.2.7:80", "192.0.2.7", "evil.example:8765", "192.0.2.7.evil.example:8765"):
        assert gate.refusal(Asked("GET", {"host": host}, token=TOKEN))
    assert refused(Asked("GET", {"host": "192.0.2.7:8765"}, token=TOKEN))


def test_the_name_behind_the_proxy_has_a_cookie_of_its_own() -> None:
    assert not refused(Asked("GET", LOCAL, cookie=GATE.proxied_cookie))
    assert not refused(
        Asked("POST", {**LOCAL, "origin": "http://penumbra.local"}, cookie=GATE.proxied_cookie)
    )


def test_each_installation_has_its_token() -> None:
    assert token(b"a" * 32) != TOKEN == token(b"k" * 32)
