"""Arguments of calls that a later call has made useless: by request only, priced, recorded, final."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from penumbra.apis.recognise import apis
from penumbra.compress.result import Redacted
from penumbra.config.parsers import ToolCompaction
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.expand.reference import References
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document

REFERENCES = References(b"k", b"s" * 32, "expand_context", True)
ASKED = ToolCompaction.read({"compactArguments": True, "toolIdentifierFields": {"write_file": ["path"]}})
JUST_NOW, LATER = ConversationState(10.0), ConversationState(200_000.0)


def content(seed: int, lines: int = 60) -> str:
    return "\n".join(f"value_{n} = {n * seed * 7919 % 10007}" for n in range(lines))


class Talk:
    """A conversation of calls that write files, in one API's words."""

    def __init__(self, api: str = "anthropic-messages", **settings: Any) -> None:
        self.api = next(one for one in apis() if one.id == api)
        self.settings = Settings(redact_secrets=False, **{"tool_compaction": ASKED, **settings})
        self.messages: list[Any] = [{"role": "user", "content": "go"}]
        self.known: dict[bytes, Decision] = {}
        self.originals: dict[str, str] = {}
        self.line = ""
        self.sent = b""
        self.references: Any = REFERENCES

    def write(
        self, path: str, text: str, *, error: bool = False, thinking: bool = False, lead: Any = ()
    ) -> None:
        name, arguments = f"call_own{len(self.messages):021}", {"path": path, "content": text}
        if self.api.format == "anthropic":
            call = {"type": "tool_use", "id": name, "name": "write_file", "input": arguments}
            thought = [{"type": "thinking", "thinking": "hm", "signature": "s"}] if thinking else []
            answer = {"type": "tool_result", "tool_use_id": name, "content": "ok", "is_error": error}
            self.messages += [
                {"role": "assistant", "content": [*thought, call]},
                {"role": "user", "content": [answer]},
            ]
        elif self.api.format == "openai_responses":
            self.messages += [
                {
                    "type": "function_call",
                    "call_id": name,
                    "name": "write_file",
                    "arguments": json.dumps(arguments),
                },
                {"type": "function_call_output", "call_id": name, "output": "ok"},
            ]
        elif self.api.format == "gemini":
            call = {"functionCall": {"id": name, "name": "write_file", "args": arguments}, **dict(lead)}
            answer = {"functionResponse": {"id": name, "name": "write_file", "response": {"output": "ok"}}}
            self.messages += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
        else:
            function = {"name": "write_file", "arguments": json.dumps(arguments)}
            self.messages += [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": name, "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": name, "content": "ok"},
            ]

    def send(self, past: ConversationState = JUST_NOW, **more: Any) -> list[dict[str, Any]]:
        """One request; the arguments of its calls as they are sent."""
        key = {"openai_responses": "input", "gemini": "contents"}.get(self.api.format, "messages")
        messages = self.messages
        if self.api.format == "gemini":
            messages = [{"role": "user", "parts": [{"text": "go"}]}, *self.messages[1:]]
        body = json.dumps({"model": "m", "max_tokens": 9, key: messages, **more}).encode()
        request = read.read(Document(body), self.api, self.settings, b"s" * 32)
        assert request is not None
        known = {key: self.known[key] for key in rewrite.keys(request, past) if key in self.known}
        made, self.line = rewrite.compose(
            Inputs(request, known, lambda text, hint: Redacted(text), self.references, state=past),
            None,
            LineIndexes(),
        )
        self.known |= made.decisions
        self.originals |= made.originals
        self.sent = made.body
        return list(map(arguments, calls(json.loads(made.body)[key])))


def calls(messages: Any) -> list[Any]:
    found = []
    for one in messages:
        for block in one["content"] if isinstance(one.get("content"), list) else []:
            found += [block["input"]] if block["type"] == "tool_use" else []
        found += [call["function"]["arguments"] for call in one.get("tool_calls") or ()]
        found += [part["functionCall"]["args"] for part in one.get("parts") or () if "functionCall" in part]
        found += [one["arguments"]] if "arguments" in one else []
    return found


def arguments(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return made


def whole(path: str, text: str) -> dict[str, Any]:
    return {"path": path, "content": text}


APIS = ["anthropic-messages", "openai-chat", "openai-responses", "gemini"]


@pytest.mark.parametrize("api", APIS)
def test_the_older_of_two_writes_loses_its_content_once_that_pays_and_keeps_its_form(api: str) -> None:
    talk = Talk(api)
    first, second = content(3), content(4)
    talk.write("a.py", first)
    assert talk.send() == [whole("a.py", first)]
    talk.write("a.py", second)
    assert talk.send() == [whole("a.py", first), whole("a.py", second)]
    talk.write("b.py", first)
    old, *others = talk.send(LATER)
    assert others == [whole("a.py", second), whole("b.py", first)]
    assert (old["path"], old["content"]) == ("a.py", "[omitted]")
    account = old["_tool_compaction"]
    assert account["thresholdBytes"] == 100
    written = json.dumps(first, separators=(",", ":"), ensure_ascii=False).encode()
    assert account["omittedFields"] == {
        "content": {"bytes": len(first), "sha256": hashlib.sha256(written).hexdigest()}
    }
    assert json.loads(talk.originals[account["shadow"]])["content"] == first
    assert "left out arguments of 1 older calls" in talk.line
    # Final: the next turns send the same bytes, though nothing is cold any more, and a switch doesn't matter.
    end = talk.sent.rindex(b"b.py")
    before = talk.sent[:end]
    talk.write("c.py", second)
    assert talk.send()[0] == old
    assert talk.sent.startswith(before)
    talk.settings = replace(talk.settings, tool_compaction=ToolCompaction(), supersede="off")
    assert talk.send(ConversationState(10.0, LearnedLimits(arguments=True)))[0] == old
    assert talk.sent.startswith(before)


def test_only_by_request() -> None:
    for settings in ({"tool_compaction": ToolCompaction()}, {"supersede": "off"}, {"lossy": "off"}):
        talk = Talk(**settings)
        for n in range(3):
            talk.write("a.py", content(n + 2))
            talk.send()
        assert "_tool_compaction" not in json.dumps(talk.send(LATER))


def test_what_can_not_be_asked_for_needs_the_operators_word() -> None:
    for lossy, expected in (("auto", False), ("on", True)):
        talk = Talk(lossy=lossy)
        talk.references = None
        for n in range(3):
            talk.write("a.py", content(n + 2))
            talk.send()
        made = talk.send(LATER)[0]
        assert ("_tool_compaction" in made) is expected
        assert "shadow" not in made.get("_tool_compaction", {})


def test_unread_and_failed_calls_make_nothing_useless_and_unknown_ones_stay() -> None:
    talk = Talk()
    talk.write("a.py", content(3))
    talk.write("a.py", content(4), error=True)
    assert "_tool_compaction" not in json.dumps(talk.send(LATER))
    assert "_tool_compaction" not in json.dumps(talk.send(LATER))
    talk.write("a.py", content(5))
    assert ["_tool_compaction" in one for one in talk.send(LATER)] == [True, True, False]


def test_priced_where_that_is_asked_for() -> None:
    """Near the end it pays at once; in front of much that is cached it does not."""
    near, far = Talk(supersede="priced"), Talk(supersede="priced")
    cached = [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}]
    for talk in (near, far):
        talk.write("z.py", content(9, 900))
        talk.write("a.py", content(3, 400))
        talk.send(system=cached)
    for n in range(12):
        far.write(f"{n}.py", content(n + 20, 900))
        far.send(system=cached)
    for talk in (near, far):
        talk.write("a.py", content(4, 30))
        talk.send(system=cached)
        talk.write("other.py", "x")
    assert ["_tool_compaction" in one for one in near.send(system=cached)] == [False, True, False, False]
    assert not any("_tool_compaction" in one for one in far.send(system=cached))


def test_what_is_written_anew_for_a_result_is_free() -> None:
    """A stale read near the front goes, and takes older arguments behind it along."""
    cached = [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}]
    for stale in (True, False):
        talk = Talk(supersede="priced")
        if stale:
            look(talk, content(7, 6_000), "big.py")
        talk.write("a.py", content(3, 400))
        talk.send(system=cached)
        for n in range(12):
            talk.write(f"{n}.py", content(n + 20, 250))
            talk.send(system=cached)
        talk.write("a.py", content(4, 30))
        if stale:
            edit(talk, "big.py")
        talk.send(system=cached)
        talk.write("other.py", "x")
        made = talk.send(system=cached)
        assert any("_tool_compaction" in one for one in made) is stale, talk.line


@pytest.mark.parametrize(
    ("drop", "asks", "expected"), [("keep", False, False), ("drop", False, False), ("drop", True, True)]
)
def test_in_front_of_bound_thinking_only_where_it_may_be_dropped(
    drop: str, asks: bool, expected: bool
) -> None:
    talk = Talk(bound_thinking=drop)
    binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}} if asks else {}
    more = {"thinking": {"type": "adaptive", **binding}}
    for n in range(3):
        talk.write("a.py", content(n + 2), thinking=n == 2)
        talk.send(**more)
    assert ("_tool_compaction" in talk.send(LATER, **more)[0]) is expected


def test_signed_parts_stay_to_the_byte() -> None:
    talk = Talk("gemini")
    talk.write("a.py", content(3), lead=[("thoughtSignature", "S")])
    talk.write("a.py", content(4))
    talk.write("a.py", content(5))
    talk.send()
    assert ["_tool_compaction" in one for one in talk.send(LATER)] == [False, True, False]


def edit(talk: Talk, path: str) -> None:
    name = f"call_own{len(talk.messages):021}"
    arguments = {"file_path": path, "old_string": "x", "new_string": "y"}
    call = {"type": "tool_use", "id": name, "name": "Edit", "input": arguments}
    result = {"type": "tool_result", "tool_use_id": name, "content": "ok"}
    talk.messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def look(talk: Talk, text: str, path: str = "a.py") -> None:
    name = f"call_own{len(talk.messages):021}"
    call = {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": path}}
    result = {"type": "tool_result", "tool_use_id": name, "content": text}
    talk.messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def test_who_is_referred_to_stays_and_who_has_gone_is_not_referred_to() -> None:
    source = "\n".join(f"    value_{n} = compute({n}, other={n * 7919 % 1009})" for n in range(80))
    talk = Talk()
    talk.write("a.py", source)
    look(talk, source)
    talk.send()
    assert b"same as in what " in talk.sent
    talk.write("a.py", "short")
    talk.send()
    assert "_tool_compaction" not in talk.send(LATER)[0]
    talk = Talk()
    talk.write("a.py", source)
    talk.write("a.py", "short")
    talk.send()
    talk.write("b.py", "x")
    assert "_tool_compaction" in talk.send(LATER)[0]
    look(talk, source)
    talk.send()
    assert b"same as in what " not in talk.sent
