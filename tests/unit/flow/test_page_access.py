"""Who may see the page."""

from __future__ import annotations

import pytest

from penumbra.flow.page.access import PROOF_HEADER, Access, PageRequest, hosts, token

TOKEN = token(b"k" * 32)
GATE = Access(TOKEN, hosts("127.0.0.1", 8765), "proof")
HOST = {"host": "127.0.0.1:8765"}
LOCAL = {"host": "penumbra.local", PROOF_HEADER: "proof"}


def refused(asked: PageRequest) -> bool:
    return bool(GATE.refusal(asked))


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST:8765"])
def test_the_link_and_what_a_browser_keeps_of_it_are_let_in(host: str) -> None:
    assert not refused(PageRequest("GET", {"host": host}, token=TOKEN))
    assert not refused(
        PageRequest("GET", {"host": host, "sec-fetch-site": "same-origin"}, cookie=GATE.cookie)
    )
    assert not refused(PageRequest("GET", {"host": host, "authorization": f"Bearer {TOKEN}"}))
    assert not refused(PageRequest("POST", {"host": host, "origin": f"http://{host}"}, cookie=GATE.cookie))
    # A link in a mail.
    assert not refused(
        PageRequest("GET", {"host": host, "sec-fetch-site": "cross-site"}, token=TOKEN, is_start=True)
    )


@pytest.mark.parametrize(
    "asked",
    [
        PageRequest("GET", HOST),
        PageRequest("GET", HOST, token="x"),
        PageRequest("GET", HOST, cookie=TOKEN),
        PageRequest("GET", {**HOST, "authorization": f"Basic {TOKEN}"}),
        # A name of somebody else's that leads to this machine.
        PageRequest("GET", {"host": "evil.example:8765"}, token=TOKEN, cookie=GATE.cookie),
        PageRequest("GET", {"host": "127.0.0.1:80"}, token=TOKEN),
        PageRequest("GET", {}, token=TOKEN),
        # Another page, which has a browser ask.
        PageRequest("GET", {**HOST, "origin": "http://evil.example"}, cookie=GATE.cookie),
        PageRequest("GET", {**HOST, "origin": "null"}, cookie=GATE.cookie),
        PageRequest("GET", {**HOST, "sec-fetch-site": "cross-site"}, cookie=GATE.cookie),
        PageRequest("GET", {**HOST, "sec-fetch-site": "same-site"}, cookie=GATE.cookie),
        PageRequest("POST", {**HOST, "sec-fetch-site": "cross-site"}, token=TOKEN, is_start=True),
        PageRequest("POST", HOST, cookie=GATE.cookie),
        # The proxied name, without having come through the proxy, and the other way round.
        PageRequest("GET", {"host": "penumbra.local"}, token=TOKEN),
        PageRequest("GET", {"host": "penumbra.local", PROOF_HEADER: "x"}, token=TOKEN),
        PageRequest("GET", LOCAL, cookie=GATE.cookie),
        PageRequest("GET", HOST, cookie=GATE.proxied_cookie),
    ],
)
def test_everybody_else_is_refused(asked: PageRequest) -> None:
    assert refused(asked)


def test_a_page_at_all_addresses_is_asked_for_by_any_of_them_and_by_no_name() -> None:
    gate = Access(TOKEN, hosts("0.0.0.0", 8765), "proof", 8765)
    for host in ("192.0.2.7:8765", "[2001:db8::7]:8765", "localhost:8765"):
        assert gate.refusal(PageRequest("GET", {"host": host}, token=TOKEN)) == ""
        assert gate.refusal(PageRequest("GET", {"host": host}))
    for host in ("192.0.2.7:80", "192.0.2.7", "evil.example:8765", "192.0.2.7.evil.example:8765"):
        assert gate.refusal(PageRequest("GET", {"host": host}, token=TOKEN))
    assert refused(PageRequest("GET", {"host": "192.0.2.7:8765"}, token=TOKEN))


def test_the_name_behind_the_proxy_has_a_cookie_of_its_own() -> None:
    assert not refused(PageRequest("GET", LOCAL, cookie=GATE.proxied_cookie))
    assert not refused(
        PageRequest("POST", {**LOCAL, "origin": "http://penumbra.local"}, cookie=GATE.proxied_cookie)
    )


def test_each_installation_has_its_token() -> None:
    assert token(b"a" * 32) != TOKEN == token(b"k" * 32)
