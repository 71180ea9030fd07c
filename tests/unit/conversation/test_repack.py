"""Superseded results in requests: what is sent smaller, when, and that it stays that way."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from penumbra.apis import recognise
from penumbra.compress.result import Redacted
from penumbra.config.parsers import ToolCompaction
from penumbra.config.settings import Settings
from penumbra.conversation import adoption, read, repack, rewrite
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.expand.reference import References
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.wire.document import Document

SCOPE = b"s" * 32
JUST_NOW = ConversationState(idle=3.0)
REFERENCES = References(b"k" * 32, b"c" * 32, "expand_context", True)


def prose(seed: int, lines: int = 150) -> str:
    return "\n".join(
        f"{n * 7919 % 10007:05} {seed * n % 9973:05} words of item {n * seed % 991}" for n in range(1, lines)
    )


def redact(text: str, hint: str = "") -> Redacted:
    return Redacted(text)


class Talk:
    """A conversation that grows, rewritten turn by turn with what was decided before."""

    def __init__(self, cache: bool = True, name: str = "anthropic-messages", **settings: Any) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        self.cache, self.settings = cache, Settings(**{"supersede": "priced", **settings})
        self.api = next(api for api in recognise.apis() if api.id == name)
        self.model = "claude-x"
        self.known: dict[bytes, Any] = {}
        self.line = ""
        self.originals: dict[str, str] = {}

    def call(self, name: str, text: str, thinking: bool = False, **arguments: Any) -> Talk:
        call_id = f"toolu_{len(self.messages):024}"
        blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}] if thinking else []
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
        self.messages.append({"role": "assistant", "content": blocks})
        self.messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}]}
        )
        return self

    def body(self) -> bytes:
        system = (
            [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}]
            if self.cache
            else "be good"
        )
        return json.dumps(
            {"model": self.model, "max_tokens": 9, "system": system, "messages": self.messages}
        ).encode()

    def send(self, past: ConversationState = JUST_NOW, references: Any = REFERENCES) -> list[str]:
        request = read.read(Document(self.body()), self.api, self.settings, SCOPE)
        made, self.line = rewrite.compose(
            Inputs(request, self.known, redact, references, state=past), None, LineIndexes()
        )
        self.known = {**self.known, **made.decisions}
        self.originals |= made.originals
        self.sent = made.body
        return [
            block["content"]
            for message in json.loads(made.body)["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]


STALE = {"file_path": "a.py"}
EDITED = {"file_path": "a.py", "old_string": "x", "new_string": "y"}


def test_a_stale_read_near_the_end_becomes_a_shadow_once_its_edit_is_read():
    talk = Talk()
    for n in range(20):
        talk.call("Grep", prose(n + 2, 30), pattern=str(n))
        talk.send()
    talk.call("Read", prose(77), **STALE)
    whole = talk.send()[-1]
    talk.call("Edit", "ok", **EDITED)
    before = talk.send()
    assert before[20].startswith("<<<SHADOW:"), talk.line
    assert "[tool_compaction] Tool result compacted for tool=Read" in before[20]
    assert "[The file was written later: " in before[20]
    assert len(before[20]) < len(whole) / 5
    assert "rewrote 1 results" in talk.line
    ref = before[20][10:].split(">>>")[0]
    assert talk.originals[ref] == prose(77)
    talk.call("Bash", "done", command="true")
    assert talk.send()[:22] == before
    assert talk.line == ""


def test_far_behind_much_that_is_cached_it_stays():
    talk = Talk()
    talk.call("Read", prose(77), **STALE)
    talk.send()
    for n in range(30):
        talk.call("Grep", prose(n + 2, 60), pattern=str(n))
        first = talk.send()
    talk.call("Edit", "ok", **EDITED)
    assert talk.send()[:31] == first
    assert talk.line.startswith("kept 1 results")


def test_after_a_long_pause_the_cache_is_cold_and_it_goes():
    talk = Talk()
    talk.call("Read", prose(77), **STALE)
    for n in range(30):
        talk.call("Grep", prose(n + 2, 60), pattern=str(n))
    talk.send(ConversationState())
    talk.known.clear()
    talk.settings = Settings(adopt="compress", supersede="priced")
    talk.send()
    talk.call("Edit", "ok", **EDITED)
    first = talk.send()
    assert not first[0].startswith("<<<SHADOW:")
    talk.call("Bash", "done", command="true")
    cold = talk.send(ConversationState(idle=3600.0))
    assert cold[0].startswith("<<<SHADOW:")
    assert "cold" in talk.line
    talk.call("Bash", "done again", command="false")
    assert talk.send(ConversationState(idle=1.0))[: len(cold)] == cold


@pytest.mark.parametrize("drop", [False, True])
def test_reasoning_bound_to_what_stands_before_it_is_never_broken_unasked(drop):
    talk = Talk(bound_thinking="drop" if drop else "keep")
    talk.call("Read", prose(77), **STALE)
    talk.send()
    talk.call("Edit", "ok", thinking=True, **EDITED)
    assert not talk.send()[0].startswith("<<<SHADOW:")
    assert "bound" in talk.line


def test_of_a_model_whose_reasoning_is_not_bound_it_is_no_matter():
    talk = Talk()
    talk.model = "claude-opus-4-6"
    talk.call("Read", prose(77), **STALE)
    talk.send()
    talk.call("Edit", "ok", thinking=True, **EDITED)
    assert talk.send()[0].startswith("<<<SHADOW:")


@pytest.mark.parametrize("example", adoption.table()["examples"], ids=lambda example: example["model"])
def test_whose_thinking_is_bound(example):
    assert adoption.binds(example["format"], example["model"]) == example["bound"]


def test_switched_off_or_without_a_way_back_nothing_happens():
    for settings, references in (
        ({"supersede": "off"}, REFERENCES),
        ({}, None),
        ({"lossy": "off"}, REFERENCES),
    ):
        talk = Talk(**settings)
        talk.call("Read", prose(77), **STALE)
        first = talk.send(references=references)[0]
        talk.call("Edit", "ok", **EDITED)
        assert talk.send(references=references)[0] == first


def test_what_a_later_result_refers_to_stays():
    talk = Talk()
    talk.call("Read", prose(77), **STALE)
    talk.send()
    talk.call("Bash", prose(77), command="cat b.py")
    assert "Duplicate of" in talk.send()[1]
    talk.call("Edit", "ok", **EDITED)
    assert not talk.send()[0].startswith("<<<SHADOW:")


def test_the_unread_tail_is_never_touched():
    talk = Talk()
    talk.call("Bash", prose(5), command="make")
    talk.call("Bash", prose(6), command="make")
    # Two results of one call in the newest turn: neither was read.
    talk.messages[-1]["content"].append(
        {"type": "tool_result", "tool_use_id": "toolu_x", "content": prose(7)}
    )
    talk.messages[-2]["content"].append(
        {"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {"command": "make"}}
    )
    talk.send()
    request = read.read(Document(talk.body()), talk.api, talk.settings, SCOPE)
    given = repack.plan_results(request, talk.known, redact, REFERENCES, 3600.0, ToolCompaction())
    assert list(given.decisions) == [request.items[0].key]


# Budgets, and limits that were learned


def test_an_aggregate_budget_takes_the_fattest_old_results_first_and_then_rests():
    talk = Talk(aggregate_budget_bytes=14_000)
    for n in range(4):
        talk.call("Grep", prose(n + 2, 100), pattern=str(n))
        first = talk.send()
    assert not any("omitted" in text for text in first)
    talk.call("Grep", prose(50, 420), pattern="x")
    cut = talk.send()
    assert sum(len(text.encode()) for text in cut) <= 14_000
    assert "omitted" not in cut[-1]
    assert "to fit" in talk.line
    talk.call("Grep", prose(51, 40), pattern="y")
    assert talk.send()[: len(cut)] == cut


def test_a_learned_limit_is_kept_before_sending():
    talk = Talk()
    for n in range(12):
        talk.call("Grep", prose(n + 2, 60), pattern=str(n))
        talk.send()
    large = len(talk.sent)
    talk.call("Grep", prose(99, 60), pattern="z")
    talk.send(ConversationState(1.0, LearnedLimits(tokens=5_000)))
    assert len(talk.sent) < large * 0.7
    talk.call("Grep", prose(100, 60), pattern="zz")
    assert max(map(len, talk.send(ConversationState(1.0, LearnedLimits(most=512))))) <= 512
    talk.call("Grep", prose(101, 60), pattern="zzz")
    talk.send(ConversationState(1.0, LearnedLimits(bytes=4_000)))
    assert len(talk.sent) < 12_000


def test_nothing_to_do_is_the_same_object():
    talk = Talk()
    talk.call("Bash", "ok", command="true")
    talk.call("Bash", "ok too", command="true")
    data = talk.body()
    request = read.read(Document(data), talk.api, talk.settings, SCOPE)
    made, line = rewrite.compose(Inputs(request, {}, redact, REFERENCES), None, LineIndexes())
    assert made.body is data
    assert line == ""


def test_unless_asked_for_only_a_long_pause_changes_what_was_sent():
    talk = Talk(cache=False, supersede="idle")
    talk.call("Read", prose(77), **STALE)
    first = talk.send()
    talk.call("Edit", "ok", **EDITED)
    assert talk.send()[:1] == first
    assert talk.send(ConversationState(idle=5.0))[:1] == first
    after = talk.send(ConversationState(idle=3600.0))
    assert after[0].startswith("<<<SHADOW:")
    talk.call("Bash", "done", command="true")
    assert talk.send(ConversationState(idle=1.0))[: len(after)] == after


def _texts(value: Any, seen: set[int]) -> Iterator[str | bytes]:
    """All texts within containers and dataclasses."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, str | bytes):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key, seen)
            yield from _texts(inner, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _texts(inner, seen)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _texts(getattr(value, one.name, None), seen)


def test_no_module_keeps_what_calls_were_given() -> None:
    given = "a-file-that-no-other-test-reads.txt"
    talk = Talk()
    for seed in (7, 8, 9):
        talk.call("Read", prose(seed), file_path=given).send()
    kept = [
        name
        for name, module in list(sys.modules.items())
        if name.startswith("penumbra.")
        for value in list(vars(module).values())
        if any(given in text for text in _texts(value, set()) if isinstance(text, str))
    ]
    assert kept == []
