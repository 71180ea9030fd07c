"""The page: access to it, its data, and the texts that are kept for it."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from penumbra.flow.page.access import PROOF_HEADER, Access, PageRequest, hosts, token
from penumbra.flow.page.contents import Contents, Texts
from penumbra.metrics.amounts import Amounts, Rates
from penumbra.metrics.journal import Journal
from penumbra.metrics.sessions import TurnRecord

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
    # The user opens a link in a mail.
    assert not refused(
        PageRequest("GET", {"host": host, "sec-fetch-site": "cross-site"}, token=TOKEN, is_start=True)
    )


OTHERS = {
    "no token": PageRequest("GET", HOST),
    "wrong token": PageRequest("GET", HOST, token="x"),
    "token as a cookie": PageRequest("GET", HOST, cookie=TOKEN),
    "another scheme": PageRequest("GET", {**HOST, "authorization": f"Basic {TOKEN}"}),
    "foreign name of this machine": PageRequest(
        "GET", {"host": "evil.example:8765"}, token=TOKEN, cookie=GATE.cookie
    ),
    "another port": PageRequest("GET", {"host": "127.0.0.1:80"}, token=TOKEN),
    "no host": PageRequest("GET", {}, token=TOKEN),
    "from another page": PageRequest("GET", {**HOST, "origin": "http://evil.example"}, cookie=GATE.cookie),
    "from a local page": PageRequest("GET", {**HOST, "origin": "null"}, cookie=GATE.cookie),
    "across sites": PageRequest("GET", {**HOST, "sec-fetch-site": "cross-site"}, cookie=GATE.cookie),
    "within a site": PageRequest("GET", {**HOST, "sec-fetch-site": "same-site"}, cookie=GATE.cookie),
    "start across sites": PageRequest(
        "POST", {**HOST, "sec-fetch-site": "cross-site"}, token=TOKEN, is_start=True
    ),
    "change without an origin": PageRequest("POST", HOST, cookie=GATE.cookie),
    "not through the proxy": PageRequest("GET", {"host": "penumbra.local"}, token=TOKEN),
    "wrong proof of the proxy": PageRequest(
        "GET", {"host": "penumbra.local", PROOF_HEADER: "x"}, token=TOKEN
    ),
    "cookie of the other page": PageRequest("GET", LOCAL, cookie=GATE.cookie),
    "cookie of the proxied page": PageRequest("GET", HOST, cookie=GATE.proxied_cookie),
}


@pytest.mark.parametrize("asked", OTHERS.values(), ids=OTHERS)
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


def test_a_name_that_the_proxy_answers_has_its_own_cookie() -> None:
    assert not refused(PageRequest("GET", LOCAL, cookie=GATE.proxied_cookie))
    assert not refused(
        PageRequest("POST", {**LOCAL, "origin": "http://penumbra.local"}, cookie=GATE.proxied_cookie)
    )


def test_each_installation_has_its_token() -> None:
    assert token(b"a" * 32) != TOKEN == token(b"k" * 32)


# Time that exports of the page take from the event loop


def of_turns(count):
    """Return the figures of one long conversation."""
    journal = Journal()
    for number in range(count):
        turn = TurnRecord(
            number,
            0.0,
            "aaaa",
            "m",
            "agent",
            "shop (3f2a)",
            "h",
            "api",
            "",
            (),
            0,
            (1, 1),
            Rates(),
            Amounts(requests=1),
        )
        journal.sessions.begin_turn(turn)
    past = Future()
    past.set_result({"2026-01-01": {"all": {"requests": 3}, "conversations": {"aaaa": {"requests": 3}}}})
    history = SimpleNamespace(last=lambda days: past)
    handle = nullcontext(SimpleNamespace(engine=SimpleNamespace(history=history)))
    return Contents(journal, Texts(), lambda: {"mode": "standard"}, lambda: handle, lambda: None)


async def turns_of_others(asked):
    """Return a coroutine's result, and how often other work ran meanwhile."""
    task, turns = asyncio.ensure_future(asked), 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    return task.result(), turns


def test_requests_go_on_while_everything_is_exported():
    contents = of_turns(900)
    data, turns = asyncio.run(turns_of_others(contents.everything()))
    (conversation,) = json.loads(data)["conversations"]
    assert len(conversation["turns"]) == 900
    assert turns > 900 / 50
    table, turns = asyncio.run(turns_of_others(contents.table("turns")))
    assert table.count("\n") == 901
    assert turns > 900 / 50


def test_the_tables_that_there_are():
    contents = of_turns(2)
    heads = {of: asyncio.run(contents.table(of)) for of in ("days", "conversations", "turns", "results")}
    assert heads["days"].split("\r\n")[:2] == [
        "day,requests,saved,overhead,net,input,dollars_net",
        "2026-01-01,3,0,0,0,0,0.0",
    ]
    assert heads["conversations"].startswith("day,conversation,agent,project,")
    assert heads["turns"].startswith("conversation,number,")
    assert asyncio.run(contents.table("others")) is None


# Texts for the page: if the texts are cleared, unfinished texts are dropped.


class EngineHandle:
    """A handle of an engine whose texts are slow."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.engine = self

    def share(self) -> EngineHandle:
        return self

    def __enter__(self) -> EngineHandle:
        return self

    def __exit__(self, *error: object) -> None:
        return

    async def shown_texts(self, *asked: object) -> tuple[str, str]:
        await self.ready.wait()
        return "before", "after"


@pytest.mark.parametrize("is_cleared", [True, False])
def test_a_request_under_way_when_entries_are_cleared_is_not_kept(is_cleared: bool) -> None:
    async def kept() -> object:
        texts, handle = Texts(), EngineHandle()
        shown = SimpleNamespace(new=True, item=SimpleNamespace(text="text"))
        accepted: Any = SimpleNamespace(rewritten=SimpleNamespace(shown=[shown]))
        result: Any = SimpleNamespace(number=7)
        asked: Any = handle
        texts.keep(asked, accepted, [result])
        if is_cleared:
            texts.clear()
        handle.ready.set()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        return texts.get(7)

    assert asyncio.run(kept()) == (None if is_cleared else ("before", "after"))
