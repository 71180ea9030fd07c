"""What the page's exports take of the event loop."""

import asyncio
import json
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

from penumbra.flow.page.contents import Contents, Texts
from penumbra.metrics.amounts import Amounts, Rates
from penumbra.metrics.journal import Journal
from penumbra.metrics.sessions import TurnRecord


def of_turns(count):
    """Figures of one long conversation."""
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
    lease = nullcontext(SimpleNamespace(engine=SimpleNamespace(history=history)))
    return Contents(journal, Texts(), lambda: {"mode": "standard"}, lambda: lease, lambda: None)


async def turns_of_others(asked):
    """What comes of a coroutine, and how often others had their turn meanwhile."""
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
