"""Smaller forms of one text: within a limit, or without the parts that a later call has made useless."""

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.conversation.smaller_texts import shorten, superseded, trimmed
from support.examples import examples

LOG = "\n".join(f"line {n}: everything is as it should be" for n in range(400))
ERROR = "ERROR in worker.py:88: the queue is closed"
OMITTED = re.compile(r"\[omitted (\d+) chars due to provider limits\]")


def missing(form):
    return sum(int(count) for count in OMITTED.findall(form))


def test_plain_text_keeps_head_tail_and_the_error_and_counts_missing_characters():
    text = LOG[:8000] + "\n" + ERROR + "\n" + LOG[8000:]
    form = shorten(text, 1000)
    assert len(form.encode()) <= 1000
    assert form.startswith("line 0:")
    assert form.endswith(text[-30:])
    assert ERROR in form
    kept = OMITTED.sub("", form)
    # Each marker is a separate line. Its line ends may belong to the marker or to the text.
    assert (
        0
        <= len(text) - missing(form) - len(kept) + 2 * len(OMITTED.findall(form))
        <= 4 * len(OMITTED.findall(form))
    )


@pytest.mark.parametrize("limit", [60, 100, 239, 240, 512, 4000])
def test_no_form_is_larger_than_its_limit(limit):
    for text in (LOG, "ü" * 6000, "😀" * 3000, json.dumps({"result": LOG}), json.dumps([LOG] * 9)):
        form = shorten(text, limit)
        assert form is None or len(form.encode()) <= limit


def test_a_json_object_keeps_its_keys_and_the_end_of_its_text():
    text = json.dumps({"status": "failed", "result": LOG + "\n" + ERROR, "exit": 1})
    form = json.loads(shorten(text, 1000))
    assert list(form) == ["status", "result", "exit", "truncated", "originalLength"]
    assert (form["status"], form["exit"], form["truncated"], form["originalLength"]) == (
        "failed",
        1,
        True,
        len(text),
    )
    assert form["result"].endswith(ERROR)
    assert OMITTED.search(form["result"])


def test_a_large_value_that_is_no_text_is_replaced_by_a_count():
    rows = [{"id": n, "name": f"row {n}"} for n in range(200)]
    text = json.dumps({"rows": rows, "next": None})
    form = json.loads(shorten(text, 512))
    assert form == {
        "rows": f"[omitted {len(json.dumps(rows))} chars due to provider limits]",
        "next": None,
        "truncated": True,
        "originalLength": len(text),
    }


def test_an_object_of_numbers_keeps_their_spelling():
    text = '{"rate": 1.10, "big": 12345678901234567890123, "result": "' + "x" * 2000 + '"}'
    form = shorten(text, 400)
    assert '"rate":1.10' in form
    assert "12345678901234567890123" in form


def test_a_text_that_fits_without_its_escapes_has_no_marker():
    form = shorten(json.dumps({"text": "0" * 17 + "\x1f" * 47 + "Ķ" * 40}), 492)
    assert form is None or OMITTED.search(form)


def test_an_array_keeps_its_first_items_and_its_last():
    text = json.dumps([{"n": n} for n in range(300)])
    form = json.loads(shorten(text, 512))
    assert form[0] == {"n": 0}
    assert form[-1] == {"n": 299}
    (marker,) = (item for item in form if isinstance(item, str))
    gone = json.loads(text)[form.index(marker) : -1]
    assert missing(marker) == sum(len(json.dumps(item)) for item in gone)


def test_an_object_with_truncated_of_its_own_keeps_it():
    text = json.dumps({"truncated": "no", "output": LOG})
    form = json.loads(shorten(text, 600))
    assert form["truncated"] == "no"
    assert "originalLength" not in form


def test_small_texts_have_no_smaller_form():
    assert shorten("short", 512) is None
    assert shorten("x" * 30, 20) is None
    assert shorten(json.dumps({"output": "x" * 40}), 50) is None


@settings(max_examples=examples(150))
@given(
    st.one_of(
        st.text(max_size=3000),
        st.dictionaries(st.text(max_size=9), st.text(max_size=900), max_size=6).map(json.dumps),
        st.lists(st.integers() | st.text(max_size=300), max_size=20).map(
            lambda items: json.dumps(items, ensure_ascii=False)
        ),
    ),
    st.integers(min_value=-5, max_value=1500),
)
def test_a_form_fits_and_shrinks_and_json_objects_stay_json(text, limit):
    form = shorten(text, limit)
    if form is not None:
        size = len(form.encode("utf-8", "surrogatepass"))
        assert size <= limit
        assert size < len(text.encode("utf-8", "surrogatepass"))
        assert OMITTED.search(form)
        try:
            before = json.loads(text)
        except ValueError:
            return
        if isinstance(before, (dict, list)) and before:
            assert type(json.loads(form)) is type(before)


# Superseded results and arguments

BIG = "x" * 500


def sha256(value: Any) -> str:
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(written.encode()).hexdigest()


def form(text: str, **more: Any) -> str | None:
    return superseded(text, "tool=Read, callId=call_1", "call_7", 100, **more)


def result_without(members: dict[str, Any]) -> Any:
    made = form(json.dumps(members))
    return None if made is None else json.loads(made)


def test_the_threshold_is_in_bytes_and_itself_stays() -> None:
    for text, omitted in (("x" * 100, False), ("x" * 101, True), ("ü" * 51, True)):
        assert (result_without({"big": "y" * 400, "text": text})["text"] == "[omitted]") is omitted


def test_the_list_of_omitted_values() -> None:
    rows = list(range(200))
    assert result_without({"path": "a.txt", "content": BIG, "rows": rows}) == {
        "path": "a.txt",
        "content": "[omitted]",
        "rows": "[omitted]",
        "_tool_compaction": {
            "thresholdBytes": 100,
            "omittedFields": {
                "content": {"bytes": 500, "sha256": sha256(BIG)},
                "rows": {"bytes": len(json.dumps(rows, separators=(",", ":"))), "sha256": sha256(rows)},
            },
        },
    }


def test_small_fields_that_would_grow_stay_and_twice_is_once() -> None:
    assert form(json.dumps({"a": "x" * 101})) is None
    once = form(json.dumps({"a": BIG}))
    assert once is not None
    assert form(once, runs=True) is None


def test_a_text_becomes_one_line_and_names_its_successor() -> None:
    made = (
        "[tool_compaction] Tool result compacted for tool=Read, callId=call_1. Large fields omitted.\n"
        "[A later result takes its place: call_7]"
    )
    assert form("some text\n" * 99) == made
    assert form("short") is None
    stale = form("some text\n" * 99, written=True)
    assert stale is not None
    assert stale.endswith("\n[The file was written later: call_7]")
    # JSON would spell this number differently, so the object is not written again.
    assert form(json.dumps({"a": BIG})[:-1] + ', "n": 123456789012345678901234567890}') == made


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        (
            "\n".join(f"tests/test_a.py::test_{n} PASSED" for n in range(80))
            + "\nFAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed, 80 passed in 2.1s",
            ["FAILED tests/test_a.py::test_x - assert 1 == 2", "1 failed, 80 passed in 2.1s"],
        ),
        ("waiting for the build\n" * 60 + "state: queued\n\n", ["state: queued"]),
    ],
    ids=["a test run", "a status poll"],
)
def test_the_end_of_a_command_stays(text: str, stays: list[str]) -> None:
    made = form(text, runs=True)
    assert made is not None
    assert made.split("\n")[-len(stays) :] == stays
    assert len(made) < len(text) / 5


def test_identifiers_stay_and_free_text_is_not_trimmed() -> None:
    source = json.dumps({"path": "p" * 200, "content": BIG}).encode()
    made = json.loads(trimmed(source, 100, ("path",)) or b"")
    assert (made["path"], made["content"]) == ("p" * 200, "[omitted]")
    assert trimmed(b'"free text"', 1) is None


def test_placeholders_have_the_type_of_their_values_and_all_else_keeps_its_bytes():
    rows = ",".join("1" for _ in range(200))
    numbers = '"n": 12345678901234567890123, "rate": 1.10'
    source = f'{{"text": "{BIG}",  "rows":[{rows}], "map": {{"a": "{BIG}"}}, {numbers}}}'
    made = trimmed(source.encode(), 100, ref="shadow_0").decode()
    assert made.startswith(f'{{"text": "[omitted]",  "rows":[], "map": {{}}, {numbers},')
    account = json.loads(made)["_tool_compaction"]
    assert account["thresholdBytes"] == 100
    assert account["shadow"] == "shadow_0"
    assert account["omittedFields"]["text"] == {
        "bytes": 500,
        "sha256": hashlib.sha256(json.dumps(BIG).encode()).hexdigest(),
    }
    assert list(account["omittedFields"]) == ["text", "rows", "map"]
    assert trimmed(made.encode(), 100) is None
    assert trimmed(b'{"a": "' + b"x" * 101 + b'"}', 100) is None


@settings(max_examples=examples(60))
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.text(max_size=400) | st.lists(st.integers(0, 9), max_size=200) | st.integers(),
        max_size=5,
    ),
    st.integers(0, 200),
)
def test_trimmed_arguments_are_smaller_and_keep_their_keys_and_types(members, limit):
    source = json.dumps(members).encode()
    made = trimmed(source, limit)
    if made is not None:
        assert len(made) < len(source)
        value = json.loads(made)
        account = value.pop("_tool_compaction")["omittedFields"]
        assert list(value) == list(members)
        assert all(type(value[key]) is type(members[key]) for key in members)
        assert all(value[key] == members[key] for key in members if key not in account)


@settings(max_examples=examples(100))
@given(
    st.dictionaries(
        st.text(max_size=8), st.text(max_size=300) | st.lists(st.integers(0, 9), max_size=150), max_size=5
    )
)
def test_nothing_grows(members):
    text = json.dumps(members)
    for runs in (True, False):
        made = form(text, runs=runs)
        assert made is None or len(made.encode()) < len(text.encode())
