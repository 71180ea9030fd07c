"""Arguments that a later call has made useless: the option, the price, and that the forms are final."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from penumbra.config.parsers import ToolCompaction
from penumbra.store.conversations import ConversationState, LearnedLimits
from support import talks
from support.talks import CACHED, THOUGHT

ASKED = ToolCompaction.read({"compactArguments": True, "toolIdentifierFields": {"write_file": ["path"]}})
LATER = ConversationState(200_000.0)
EDITED = {"old_string": "x", "new_string": "y"}


def content(seed: int, lines: int = 60) -> str:
    return "\n".join(f"value_{n} = {n * seed * 7919 % 10007}" for n in range(lines))


class Talk(talks.Talk):
    """A conversation of calls that write files."""

    def __init__(self, api: str = "anthropic-messages", more: Any = None, **settings: Any) -> None:
        chosen = {"redact_secrets": False, "tool_compaction": ASKED, **settings}
        super().__init__(api, {"model": "m", **(more or {})}, **chosen)

    def write(self, path: str, text: str, **more: Any) -> None:
        self.call("write_file", path=path, content=text, **more)


def whole(path: str, text: str) -> dict[str, Any]:
    return {"path": path, "content": text}


APIS = ["anthropic-messages", "openai-chat", "openai-responses", "gemini"]


@pytest.mark.parametrize("api", APIS)
def test_the_older_of_two_writes_loses_its_content_once_that_pays_and_keeps_its_form(api: str) -> None:
    talk = Talk(api)
    first, second = content(3), content(4)
    talk.write("a.py", first)
    assert talk.send_arguments() == [whole("a.py", first)]
    talk.write("a.py", second)
    assert talk.send_arguments() == [whole("a.py", first), whole("a.py", second)]
    talk.write("b.py", first)
    old, *others = talk.send_arguments(LATER)
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
    # The next turns send the same bytes, although the cache is warm, and even if the option is off.
    end = talk.sent.rindex(b"b.py")
    before = talk.sent[:end]
    talk.write("c.py", second)
    assert talk.send_arguments()[0] == old
    assert talk.sent.startswith(before)
    talk.settings = replace(talk.settings, tool_compaction=ToolCompaction(), supersede="off")
    assert talk.send_arguments(ConversationState(10.0, LearnedLimits(arguments=True)))[0] == old
    assert talk.sent.startswith(before)


def test_only_by_request() -> None:
    for settings in ({"tool_compaction": ToolCompaction()}, {"supersede": "off"}, {"lossy": "off"}):
        talk = Talk(**settings)
        for n in range(3):
            talk.write("a.py", content(n + 2))
            talk.send_arguments()
        assert "_tool_compaction" not in json.dumps(talk.send_arguments(LATER))


def test_arguments_that_cannot_be_asked_for_stay_by_default() -> None:
    for lossy, expected in (("auto", False), ("on", True)):
        talk = Talk(lossy=lossy)
        talk.references = None
        for n in range(3):
            talk.write("a.py", content(n + 2))
            talk.send_arguments()
        made = talk.send_arguments(LATER)[0]
        assert ("_tool_compaction" in made) is expected
        assert "shadow" not in made.get("_tool_compaction", {})


def test_unread_and_failed_calls_make_nothing_useless_and_unknown_ones_stay() -> None:
    talk = Talk()
    talk.write("a.py", content(3))
    talk.write("a.py", content(4), error=True)
    assert "_tool_compaction" not in json.dumps(talk.send_arguments(LATER))
    assert "_tool_compaction" not in json.dumps(talk.send_arguments(LATER))
    talk.write("a.py", content(5))
    assert ["_tool_compaction" in one for one in talk.send_arguments(LATER)] == [True, True, False]


def test_priced_where_that_is_asked_for() -> None:
    """A change near the end pays at once. A change before a large cached part does not pay."""
    near, far = (Talk(more={"system": CACHED}, supersede="priced") for _ in range(2))
    for talk in (near, far):
        talk.write("z.py", content(9, 900))
        talk.write("a.py", content(3, 400))
        talk.send_arguments()
    for n in range(12):
        far.write(f"{n}.py", content(n + 20, 900))
        far.send_arguments()
    for talk in (near, far):
        talk.write("a.py", content(4, 30))
        talk.send_arguments()
        talk.write("other.py", "x")
    assert ["_tool_compaction" in one for one in near.send_arguments()] == [False, True, False, False]
    assert not any("_tool_compaction" in one for one in far.send_arguments())


def test_arguments_after_a_changed_result_cost_nothing() -> None:
    """After the change of an early stale read, changes of later arguments cost nothing."""
    for stale in (True, False):
        talk = Talk(more={"system": CACHED}, supersede="priced")
        if stale:
            talk.call("Read", content(7, 6_000), file_path="big.py")
        talk.write("a.py", content(3, 400))
        talk.send_arguments()
        for n in range(12):
            talk.write(f"{n}.py", content(n + 20, 250))
            talk.send_arguments()
        talk.write("a.py", content(4, 30))
        if stale:
            talk.call("Edit", file_path="big.py", **EDITED)
        talk.send_arguments()
        talk.write("other.py", "x")
        made = talk.send_arguments()
        assert any("_tool_compaction" in one for one in made) is stale, talk.line


@pytest.mark.parametrize(
    ("drop", "asks", "expected"), [("keep", False, False), ("drop", False, False), ("drop", True, True)]
)
def test_arguments_before_bound_thinking_change_only_if_it_may_be_dropped(
    drop: str, asks: bool, expected: bool
) -> None:
    binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}} if asks else {}
    talk = Talk(more={"thinking": {"type": "adaptive", **binding}}, bound_thinking=drop)
    for n in range(3):
        talk.write("a.py", content(n + 2), lead=THOUGHT if n == 2 else ())
        talk.send_arguments()
    assert ("_tool_compaction" in talk.send_arguments(LATER)[0]) is expected


def test_signed_parts_stay_to_the_byte() -> None:
    talk = Talk("gemini")
    talk.write("a.py", content(3), lead=[("thoughtSignature", "S")])
    talk.write("a.py", content(4))
    talk.write("a.py", content(5))
    talk.send_arguments()
    assert ["_tool_compaction" in one for one in talk.send_arguments(LATER)] == [False, True, False]


def test_referents_keep_their_arguments_and_edited_calls_are_no_referents() -> None:
    source = "\n".join(f"    value_{n} = compute({n}, other={n * 7919 % 1009})" for n in range(80))
    talk = Talk()
    talk.write("a.py", source)
    talk.call("Read", source, file_path="a.py")
    talk.send_arguments()
    assert b"same as in what " in talk.sent
    talk.write("a.py", "short")
    talk.send_arguments()
    assert "_tool_compaction" not in talk.send_arguments(LATER)[0]
    talk = Talk()
    talk.write("a.py", source)
    talk.write("a.py", "short")
    talk.send_arguments()
    talk.write("b.py", "x")
    assert "_tool_compaction" in talk.send_arguments(LATER)[0]
    talk.call("Read", source, file_path="a.py")
    talk.send_arguments()
    assert b"same as in what " not in talk.sent
