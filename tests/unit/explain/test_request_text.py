"""Requests and responses as text: content, redaction, and limits."""

import json
import re
import time
import tracemalloc

import pytest

from penumbra.apis import recognise
from penumbra.apis.formats import FORMATS
from penumbra.errors import RedactionError
from penumbra.explain import request_text, response_text
from penumbra.explain.request_text import RequestContext, ResultContext, compare
from penumbra.explain.response_text import ResponseContext
from penumbra.explain.result_facts import ResultFacts, ResultMemory, listed, read_all
from penumbra.explain.text_lines import MOST_LINES, NOT_SEARCHED, TOO_MUCH, Search
from penumbra.redaction import ruleset
from penumbra.redaction.redact_calls import shown_names
from penumbra.redaction.redactor import Redactor
from support.apis import APIS, printed
from support.clock import Clock

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
API = recognise.by_request_line("POST", "/v1/messages")
FACTS = ResultFacts("toolu_1", "Bash", "shortened", "", (900, 40), (300, 10), ("terminal", "excerpt"))


@pytest.fixture(scope="module")
def redact():
    return Redactor(b"k" * 32, ruleset.rules(None, only=False), limit=10**8).redact


def body(*results, text="Which job is slow?", tool="Bash"):
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": {"command": f"cat {SECRET}"}}
        for number, _ in enumerate(results, 1)
    ]
    answers = [
        {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result}
        for number, result in enumerate(results, 1)
    ]
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": calls}]
    messages.append({"role": "user", "content": answers})
    return json.dumps({"model": "m", "tools": [{"name": tool}], "messages": messages}).encode()


def described(redact, data, known=ResultContext(), **more):  # noqa: B008
    asked = RequestContext("Penumbra: a line", lambda *result: known, **more)
    return request_text.lines(API, data, asked, Search(redact), shown_names(redact))


def text(lines):
    return "\n".join(line.text for line in lines)


def test_new_results_come_first_line_by_line(redact):
    before, after = "\n".join(map(str, range(30))), "\n".join(["0", "…", *map(str, range(9, 30))])
    found = text(described(redact, body(after), ResultContext(FACTS, True, (before, after))))
    assert found.startswith("Penumbra: a line\nanthropic-messages, m: 3 messages, 1 result\n")
    assert (
        "\nBash toolu_1\n    900 -> 40 bytes; about 300 -> 10 tokens (-97%); shortened by terminal, excerpt\n"
        in found
    )
    new, outline = found.split("CONVERSATION")
    assert "\n  -     2 1\n" in new
    assert "\n  +     2 …\n" in new
    assert "lines that are the same" in new
    assert "\n#1 user\n    Which job is slow?\n#2 assistant\n    call Bash toolu_1: " in outline


def test_missing_parts_are_named(redact):
    assert "original is not kept any more" in text(
        described(redact, body("sent"), ResultContext(FACTS, True))
    )
    found = text(described(redact, body("sent"), ResultContext(FACTS, True), originals="Originals are off."))
    assert "Originals are off." in found
    assert "not held" not in found
    kept = ResultFacts("toolu_1", "Bash", "kept", "small", (4, 4), (1, 1))
    found = text(described(redact, body("sent"), ResultContext(kept, True)))
    assert "Bash toolu_1\n    4 bytes; as it came: small\n" in found
    assert "not held" not in found
    found = text(
        described(redact, body("sent"), ResultContext(FACTS, True, ("sent", "se"), is_observed=True))
    )
    assert "would have been shortened by terminal, excerpt" in found
    assert "  -     1 sent\n  +     1 se\n" in found
    # Without facts the sizes are shown.
    assert "Bash toolu_1: 4 bytes\n" in text(described(redact, body("sent")))


def test_secrets_and_terminal_controls_are_not_shown(redact):
    hostile = f"\x1b]0;title\x07\x1b[31mred\r\u202e</pre><script>{SECRET}"
    data = body(hostile, hostile, text=hostile, tool=f"Ba\x1bsh{SECRET}")
    lines = described(redact, data)
    assert SECRET not in text(lines)
    assert all(line.text.isprintable() for line in lines)
    assert "which this view replaces by placeholders: github-token" in text(lines)
    assert "\\x1b[31mred\\r\\u202e</pre><script>[REDACTED:" in text(lines)


def test_a_secret_across_the_end_of_the_shown_text_is_redacted(redact):
    found = text(described(redact, body("x" * 20, text="y " * 115 + SECRET)))
    assert SECRET[:8] not in found


def test_a_text_that_can_not_be_searched_is_not_shown():
    def fails(text, hint):
        raise RedactionError("no")

    found = text(described(fails, body("the words")))
    assert "the words" not in found
    assert NOT_SEARCHED in found


def test_ten_megabytes_are_bounded(redact):
    data = body(*["a line\nanother {}=: line\n" * 400] * 1_000)
    assert len(data) > 9_000_000
    before = "\n".join(f"{number} of it" for number in range(2_000))
    found = described(redact, data, ResultContext(FACTS, False, (before, "none of it\n" * 300)))
    assert len(found) <= MOST_LINES + 1
    assert len(text(found)) < 2_000_000


def test_too_many_messages_are_not_read(redact):
    data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}] * 10_001}).encode()
    assert "There is too much in it" in text(described(redact, data))


def test_long_differences_and_lines_are_cut():
    found = request_text.difference_lines("\n".join(f"a{n}" for n in range(3_000)), "b" * 9_000)
    assert len(found) < 80
    assert "… the rest is not compared" in found[-1].text
    assert max(len(line.text) for line in found) < 2_100


STREAM = b"".join(
    b"data: " + json.dumps(event).encode() + b"\n\n"
    for event in (
        {"type": "message_start", "message": {"usage": {"input_tokens": 7}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One \x1b[1m"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "line\nTwo"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"token": "' + SECRET + '"}'},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )
)


def test_a_stream_is_one_message(redact):
    def lines(data, stream=True, **known):
        asked = ResponseContext(**known), Search(redact), shown_names(redact)
        return text(response_text.lines(FORMATS["anthropic"], data, *asked, stream=stream))

    found = lines(STREAM, hidden=["hidden from the client: it"], injected_tool="Bash")
    assert "hidden from the client: it" in found
    assert "One \\x1b[1mline\nTwo\n" in found
    assert "call Bash toolu_1 (hidden from the client)\n    {\n" in found
    assert '"token": "[REDACTED:' in found
    assert SECRET not in found
    assert "input_tokens 7" in found
    assert "output_tokens 5" in found
    assert "ended before" not in found
    assert "ended before" in lines(STREAM[:-160])
    assert "There is no message in it." in lines(b"<html>", stream=False)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_every_api_reads_alike(redact, api):
    known = RequestContext("", lambda *result: ResultContext())
    asked = recognise.by_request_line("POST", api.path)
    data = api.body(printed("the output", arguments=lambda _: {"command": "ls"}))
    found = text(request_text.lines(asked, data, known, Search(redact), shown_names(redact)))
    assert re.search(r'\n    call Bash \S*: \{"command": ?"ls"\}\n', found)
    assert re.search(r"\n    result Bash( \S+)?: 10 bytes\n", found)
    assert found.endswith("\n      the output")


def test_many_small_pieces_and_names_are_not_searched_for_long(redact):
    searched = []

    def counted(given, hint=""):
        searched.append(given)
        return redact(given, hint)

    search = Search(counted, clock=Clock(step=0.25))
    many = [{"type": "tool_use", "id": f"c{n}", "name": f"n{n}", "input": {"a": n}} for n in range(2_000)]
    data = json.dumps({"model": "m", "messages": [{"role": "assistant", "content": many}]}).encode()
    asked = RequestContext("", lambda *result: ResultContext())
    found = text(request_text.lines(API, data, asked, search, shown_names(search.name)))
    assert len(searched) < 10
    assert "1,000 more parts" in found
    assert TOO_MUCH in found

    # The search of a long text can't be interrupted.
    assert Search(counted).text("token=12 " * 30_000) == TOO_MUCH


def test_deep_arguments_are_not_indented(redact):
    deep = "[" * 500 + "0," * 20_000 + "0" + "]" * 500
    call = f'[{{"type": "tool_use", "id": "c", "name": "n", "input": {{"a": {deep}}}}}]'
    data = b'{"type":"message","role":"assistant","content":' + call.encode() + b',"stop_reason":"end_turn"}'
    tracemalloc.start()
    try:
        response_text.lines(
            FORMATS["anthropic"], data, ResponseContext(""), Search(redact), shown_names(redact), stream=False
        )
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_bodies_of_too_many_objects_are_not_read(redact):
    data = b"[" + b"{}," * 1_000_001 + b"{}]"
    made = response_text.lines(
        FORMATS["anthropic"],
        data,
        ResponseContext("a line"),
        Search(redact),
        shown_names(redact),
        stream=False,
    )
    assert text(made) == "a line\nThere is too much in it to be shown here."


def test_rows_have_both_sides_and_equal_ones_between_are_left_out() -> None:
    before = [f"line {n}" for n in range(20)]
    after = [*before[:10], "other", *before[12:], "more"]
    rows = compare("\n".join(before), "\n".join(after)).rows
    assert rows[0] == ["gap", 7]
    assert rows[1] == ["same", 8, "line 7", 8, "line 7"]
    assert ["changed", 11, "line 10", 11, "other"] in rows
    assert ["removed", 12, "line 11", None, None] in rows
    assert rows[-1] == ["added", None, None, 20, "more"]


def test_a_marker_is_beside_the_lines_that_it_replaces() -> None:
    polls = [f"w1 | DEBUG poll {n}" for n in range(5)]
    before = ["w1 | INFO start", *polls, "w1 | ERROR lost", *polls, "w1 | INFO end"]
    after = [
        *("w1 |", " INFO start", " DEBUG poll 0", "[the line above 4 more times]", " ERROR lost"),
        *("[5 lines]", " INFO end"),
    ]
    rows = compare("\n".join(before), "\n".join(after)).rows
    beside = {row[4]: row[2] for row in rows if row[0] == "changed"}
    assert beside[" INFO start"] == "w1 | INFO start"
    assert beside["[the line above 4 more times]"] == "w1 | DEBUG poll 1"
    assert beside[" ERROR lost"] == "w1 | ERROR lost"
    assert beside["[5 lines]"] == "w1 | DEBUG poll 0"
    assert beside[" INFO end"] == "w1 | INFO end"
    assert [row[1] for row in rows if row[1]] == list(range(1, 14))


def test_no_text_takes_long() -> None:
    started = time.process_time()
    compared = compare(
        "\n".join("ab"[n % 2] for n in range(90_000)), "\n".join("ba c"[n % 4] for n in range(90_000))
    )
    assert compared.is_cut
    assert time.process_time() - started < 10


RECORDED = ResultFacts(
    "c1", "Bash", "shortened", "", (90, 4), (30, 1), ("terminal",), secrets={"a": 1}, ref="r"
)
OTHER = ResultFacts("c1", "Bash", "shortened", "", (70, 4), (20, 1))


def test_an_explanation_is_read_from_a_flow():
    assert read_all(listed([RECORDED, OTHER])) == [RECORDED, OTHER]
    assert read_all(listed([OTHER], listed([RECORDED]))) == [RECORDED, OTHER]


@pytest.mark.parametrize(
    "junk", [None, 7, "x", {"call": 1}, [[]], [None], [{}], [{**RECORDED.record(), "bytes": [1, "2"]}]]
)
def test_a_file_may_say_anything(junk):
    assert read_all(junk) == []


def test_an_explanation_is_found_by_the_sent_body():
    memory = ResultMemory()
    memory.put("s", RECORDED, "sent", 7)
    memory.put("s", OTHER, "SENT", 8)
    assert memory.get("s", "c1", "Bash", "sent") == (RECORDED, 7)
    assert memory.get("s", "c1", "Bash", "SENT") == (OTHER, 8)
    assert memory.get("t", "c1", "Bash", "sent") == (None, 0)
    assert memory.references() == {"r": 7}
    memory.clear()
    assert memory.get("s", "c1", "Bash", "sent") == (None, 0)


def test_saved_explanations_that_differ_are_not_shown():
    memory = ResultMemory()
    memory.learn("s", [RECORDED])
    assert memory.get("s", "c1", "Bash", "sent") == (RECORDED, 0)
    memory.learn("s", [OTHER])
    assert memory.get("s", "c1", "Bash", "sent") == (None, 0)
