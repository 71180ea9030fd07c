"""The memory of read messages changes only the cost."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from penumbra.conversation import request_reader
from penumbra.conversation.decide import Decider
from penumbra.conversation.items import Item
from penumbra.store.decisions import Decision
from penumbra.store.key_file import installation_key
from penumbra.wire import prefix_memory
from penumbra.wire.document import Document
from penumbra.wire.prefix_memory import PrefixMemory
from support.apis import APIS, Api, Turn
from support.engines import Callers

SECRET = "ghp_" + "q8Zk2mVt41Lx9RwPz0bT6cA3sD5fG7hJ9kLq"
LOG = "".join(f"12:00:{n:02} INFO worker {n * 7919 % 1000}: took {n * 31 % 97} ms\n" for n in range(60))
RESULTS = (
    LOG,
    json.dumps([{"id": n, "name": f"name {n}", "token": SECRET} for n in range(9)], indent=2),
    LOG,
    f"export TOKEN={SECRET}\n" * 3,
    "tests/a.py::b PASSED\n" * 90 + "1 failed",
    LOG + "and one more line\n",
)


def conversation() -> Iterator[list[Turn]]:
    """Yield the turns so far: with equal messages, results in the user's text, and a message edited later."""
    turns: list[Turn] = [("user", f"Find out why, with {SECRET}.")]
    yield list(turns)
    for number, text in enumerate(RESULTS):
        call = f"toolu_{number:020d}" if number % 2 else f"call_{number}"
        turns += [("call", call, f"cat {number}.log # {'x' * 300}"), ("result", call, text)]
        yield list(turns)
        turns += [("said", "It goes on."), ("user", "continue")]
        if number == 2:
            turns.append(("user", f"<bash-input>env</bash-input><bash-stdout>A={SECRET}</bash-stdout>"))
        yield list(turns)
    yield [("user", "Find out why."), *turns[1:]]
    yield [*turns[:3], *turns[5:]]


def body(api: Api, turns: list[Turn]) -> bytes:
    """Return a body without spaces, as clients write it. If the API has cache breakpoints, the last message has
    one and therefore changes in the next turn."""
    made = json.loads(api.body(turns))
    if api.id != "anthropic-messages":
        return json.dumps(made, separators=(",", ":")).encode()
    last = made["messages"][-1]
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    last["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
    return json.dumps(made, separators=(",", ":")).encode()


@pytest.fixture
def engines(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Callers]]:
    """Yield engines that look for the known part of every body, even of a short body."""
    monkeypatch.setattr(request_reader, "LONG", 0)
    monkeypatch.setattr(prefix_memory, "LEAST_SPARED", 0)
    installation_key(tmp_path / "on.key")
    made: dict[str, Callers] = {}
    for name in ("on", "off", "half"):
        if name != "on":
            shutil.copy(tmp_path / "on.key", tmp_path / f"{name}.key")
        made[name] = Callers(database=str(tmp_path / f"{name}.sqlite"), **request.param)
    made["off"].engine.reader.values = None
    yield made
    for callers in made.values():
        callers.close()


@pytest.mark.parametrize("engines", [{}, {"redact_scope": "all"}], ids=["results", "all"], indirect=True)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_without_it_every_byte_and_every_decision_is_the_same(api: Api, engines: dict[str, Callers]) -> None:
    spared = 0
    for number, turns in enumerate(conversation()):
        sent = {
            name: callers.send(api, body(api, turns), api.credential("k"))
            for name, callers in engines.items()
        }
        spared += sent["on"].request.document.known is not None
        for other in ("off", "half"):
            assert sent[other].rewritten.body == sent["on"].rewritten.body
            assert sent[other].decided == sent["on"].decided
            shown = [
                [(one.item.key, one.facts, one.new) for one in sent[n].rewritten.shown] for n in (other, "on")
            ]
            assert shown[0] == shown[1]
        if number % 2:
            engines["half"].engine.reader.values = PrefixMemory()
    assert spared >= 10


def test_remembered_items_are_edited_at_their_places_in_the_new_body() -> None:
    memory = PrefixMemory()
    data = b' {"a": 1, "m": [ {"x": "y"} , {"x": "y"}, "s", 7 ], "z": "\xc3\xb6"}'
    for padding in (b"", b"", b"  "):
        document = Document(padding + data)
        array = document.members(document.root)["m"]
        document.remember(array, memory, b"")
        first, second, third, number = document.items(array)
        assert document.source(number) == b"7"
        document.replace(document.members(second)["x"], "other")
        document.remove_member(document.members(first)["x"])
        document.rewrite(third, b'"t"')
        wanted = data.replace(b'{"x": "y"}, "s"', b'{"x": "other"}, "t"').replace(b'{"x": "y"}', b"{}")
        assert document.render() == padding + wanted
        amended = Document(padding + data)
        array = amended.members(amended.root)["m"]
        amended.remember(array, memory, b"")
        second = amended.items(array)[1]
        amended.amend(amended.members(second)["x"], b'"amended"')
        assert amended.string(amended.members(second)["x"]) == "amended"
        assert amended.about(second, Document.source) == b'{"x": "amended"}'
        assert amended.about(amended.items(array)[0], Document.source) == b'{"x": "y"}'
        assert amended.render() == padding + data.replace(b'"y"}, "s"', b'"amended"}, "s"')


def test_a_name_is_found_in_any_part_of_a_body() -> None:
    memory = PrefixMemory()
    for body, there in (
        (b'{"m": [{"a": 1}, {"b": 2}], "x": 3}', True),
        (b'{"m": [{"a": 1}, {"b": 2}, {"c": {"x": 3}}]}', True),
        (b'{"m": [{"a": 1}, {"b": 2}, {"c": "x"}]}', True),
        (b'{"x": 3, "m": [{"a": 1}, {"b": 2}]}', True),
        (b'{"y": 3, "m": [{"a": 1}, {"b": 2}, {"d": 2}]}', False),
    ):
        document = Document(body)
        array = document.members(document.root)["m"]
        document.remember(array, memory, b"")
        assert document.contains(b'"x"') == there
        document.amend(document.items(array)[1], b'{"x": 1}')
        assert document.contains(b'"x"')


@pytest.fixture
def gone_through(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the call id of each result about which the engine decides."""
    ids: list[str] = []
    decide = Decider.decide

    def noted(self: Decider, item: Item) -> tuple[Decision, bool]:
        ids.append(item.result.call_id)
        return decide(self, item)

    monkeypatch.setattr(Decider, "decide", noted)
    return ids


def long_conversation(count: int) -> list[Turn]:
    turns: list[Turn] = [("user", "Find out why.")]
    for number in range(count):
        call = f"toolu_{number:020d}"
        turns += [("call", call, f"cat {number}.log"), ("result", call, f"{LOG}{number}\n{LOG[:999]}")]
    return turns


def test_forms_of_earlier_turns_are_not_decided_again(callers: Callers, gone_through: list[str]) -> None:
    """Only the forms of the last turn are decided again and then remembered."""
    for count in range(1, 9):
        before = len(gone_through)
        accepted = callers.send(APIS[0], APIS[0].body(long_conversation(count)), APIS[0].credential("k"))
        assert len(gone_through) - before <= 2
        assert len(accepted.rewritten.shown) == count
        assert sum(one.new for one in accepted.rewritten.shown) == 1


def test_the_second_request_continues_after_the_first(callers: Callers, gone_through: list[str]) -> None:
    """Only the last messages are read again, because clients change them in every turn."""
    for count in (20, 21):
        gone_through.clear()
        accepted = callers.send(APIS[0], APIS[0].body(long_conversation(count)), APIS[0].credential("k"))
        assert len(accepted.rewritten.shown) == count
    assert len(gone_through) <= 4
    assert sum(one.new for one in accepted.rewritten.shown) == 1


def test_forms_are_decided_again_if_their_inputs_change(callers: Callers, gone_through: list[str]) -> None:
    """The inputs are an earlier decision, an id that now names two results, or missing results."""
    api = APIS[0]

    def sent(turns: list[Turn]) -> int:
        gone_through.clear()
        callers.send(api, api.body(turns), api.credential("k"))
        return len(gone_through)

    turns = long_conversation(6)
    for count in (4, 5, 6):
        sent(long_conversation(count))
    assert sent(turns) <= 2
    again: list[Turn] = [*turns, ("result", "toolu_00000000000000000002", "the same id")]
    assert sent(again) >= 7
    assert sent(turns) <= 2
    decisions = callers.engine.stores.decisions
    first = callers.send(api, api.body(turns), api.credential("k")).request.items[0].key
    (known,) = asyncio.run(decisions.get([first])).values()
    decisions.note({first: structs.replace(known, facts=structs.replace(known.facts, family="another"))})
    assert sent(turns) == 6
    assert sent(turns[:3] + turns[5:]) == 5
