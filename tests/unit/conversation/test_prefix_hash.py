"""The parts of a history that its hash depends on: every example of the rule file, and the order."""

import json
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis import prefix_hash
from penumbra.wire.document import Document

KNOWN = rules.load("history.yaml")
ASK = {"role": "user", "content": "Fix the test."}
CALL = {"role": "assistant", "tool_calls": [{"id": "call_0", "function": {"name": "f", "arguments": "{}"}}]}
OUT = {"role": "tool", "tool_call_id": "call_0", "content": "out"}
DONE = {"role": "assistant", "content": "Done."}
NUMBERS = {
    "role": "user",
    "content": [{"type": 5, "n": [0, -1, 2.5, 1e-7, 1.5e300, True, None, "é", {"k": 0, "type": 1e-7}]}],
}


def read(*messages: Any, start: bytes = prefix_hash.START) -> prefix_hash.Chain:
    document = Document(json.dumps({"m": messages}).encode())
    return prefix_hash.read(document, document.members(document.root)["m"], start)


def behind(message: Any) -> bytes:
    return read(message, ASK).history[-1]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [(*pair, kind == "same") for kind in ("same", "other") for pair in KNOWN[kind]],
)
def test_every_example_of_the_rule_file(one: Any, other: Any, is_same: bool) -> None:
    assert one != other
    assert (behind(one) == behind(other)) is is_same


@pytest.mark.parametrize("style", [{"separators": (",", ":")}, {"indent": 1}], ids=["compact", "indented"])
def test_white_space_and_escapes_do_not_count(style: Any) -> None:
    examples = [message for kind in ("same", "other") for pair in KNOWN[kind] for message in pair]
    for message in (*examples, NUMBERS):
        document = Document(json.dumps({"m": [message, ASK]}, ensure_ascii=False, **style).encode())
        assert prefix_hash.read(document, document.top["m"]).history[-1] == behind(message)


def test_hashes_in_databases_of_released_versions_hold() -> None:
    assert behind(NUMBERS).hex() == "a108752690a498f9028d8da0143ff239"


def test_every_response_and_result_counts_for_later_hashes() -> None:
    whole = read(ASK, CALL, OUT, DONE, ASK)
    assert len(whole.history) == len(whole.calls) == 6
    assert whole.history[1] == whole.history[2] != whole.history[3] == whole.history[4]
    assert whole.history[:4] == read(ASK, CALL, OUT).history
    assert read(ASK, CALL, {**OUT, "content": "other"}).history[3] != whole.history[3]
    assert read(ASK, DONE, OUT).history[3] != whole.history[3]


def test_calls_stay_when_results_are_cleared() -> None:
    whole, cleared = read(ASK, CALL, OUT, CALL), read(ASK, CALL, {**OUT, "content": "[cleared]"}, CALL)
    assert whole.calls == cleared.calls
    assert len(set(whole.calls)) == 3
    assert whole.history[-1] != cleared.history[-1]


def test_the_cut_of_an_answer_and_system_messages_say_nothing() -> None:
    one = read(ASK, {"role": "assistant", "content": "Do ne."}, ASK)
    two = read(
        {"role": "system", "content": "branch: main"}, ASK, {"role": "assistant", "content": "Do"},
        {"role": "assistant", "content": "ne."}, ASK,
    )  # fmt: skip
    assert one.history[-1] == two.history[-1]


def test_the_hash_of_a_history_at_the_provider_continues() -> None:
    whole = read(ASK, CALL, OUT, DONE, ASK)
    first = prefix_hash.answered(read(ASK).history[-1], b"", [prefix_hash.call("f", "{}")])
    second = prefix_hash.answered(read(OUT, start=first).history[-1], prefix_hash.plain("Do ne."), [])
    assert read(ASK, start=second).history[-1] == whole.history[-1]


def test_a_text_alone_is_the_user_s_message() -> None:
    document = Document(b'{"m":"Fix the test."}')
    assert prefix_hash.read(document, document.members(document.root)["m"]).history == read(ASK).history


def test_deeply_nested_content_is_hashed() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [{"a": deep}]
    other = json.loads(json.dumps(deep).replace('"x"', '"y"'))
    one, two = ({"role": "tool", "content": found} for found in (deep, other))
    assert behind(one) != behind(two)
