"""Conversations keep their forms when another release with other rules replaces Penumbra."""

import asyncio
import json

import orjson
import pytest

from penumbra.compress import pipeline
from penumbra.compress.result import Shortened
from penumbra.conversation import rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.store import decisions
from penumbra.store.database import Database
from penumbra.store.decisions import Decision, Facts
from penumbra.store.table import Table
from support.talks import Talk, unredacted

OUTPUTS = [
    "same line again\n" * 90 + "done\n",
    json.dumps([{"id": number, "name": f"item {number}"} for number in range(60)], indent=4),
    "short",
    "nothing to shorten here, each word is another one\n".join("abcdefghijklmnop"),
]


def turn(path, count):
    """Send one request through a separate process that shares only the database."""

    async def work():
        database = Database(path, 1 << 26)
        book = Table(database, decisions.SCHEMA, 86_400.0)
        talk = Talk(adopt="compress")
        for text in OUTPUTS[:count]:
            talk.call("Bash", text, command="./x")
        request = talk.request()
        past = await book.get([item.key for item in request.items])
        inputs = Inputs(request, past, unredacted, None)
        rewritten = rewrite.rewrite(inputs, LineIndexes())
        await book.put(rewritten.decisions)
        database.close()
        return rewritten

    return asyncio.run(work())


def other_rules(output, policy, redact, ref, is_late):
    """Return the form that another release makes of a text."""
    return Shortened(output.text[:40] + " [another release]", output.text, stages=("other",))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_forms_that_were_sent_stay(tmp_path, monkeypatch, count):
    first = turn(tmp_path / "p", count)
    monkeypatch.setattr(pipeline, "shorten", other_rules)
    second = turn(tmp_path / "p", count + 1)
    assert second.body.startswith(first.body.removesuffix(b"]}"))
    assert [shown.new for shown in second.shown] == [False] * count + [True]
    assert b"[another release]" not in first.body
    assert second.body.count(b"[another release]") == 1
    assert turn(tmp_path / "p", count + 1).body == second.body


def test_facts_of_any_release_can_be_read(tmp_path):
    async def work():
        database = Database(tmp_path / "p", 1 << 26)
        book = Table(database, decisions.SCHEMA, 86_400.0)
        newer = orjson.dumps({"how": "shortened", "stages": ["cap"], "of_a_later_release": [1]})
        seal = database.seal("decisions")
        written = {b"newer": newer, b"older": b"{}", b"no facts": b"[1]", b"no text": b"{"}
        rows = [
            (key, 2**40, seal.close(key, len(facts).to_bytes(4, "big") + facts))
            for key, facts in written.items()
        ]
        await database.run(
            lambda connection: connection.executemany("INSERT INTO decisions VALUES (?, ?, ?)", rows)
        )
        known = await book.get(written)
        database.close()
        return known

    assert asyncio.run(work()) == {
        b"newer": Decision(None, Facts(how="shortened", stages=("cap",))),
        b"older": Decision(None, Facts()),
    }
