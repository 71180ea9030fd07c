"""Which results a later one has made useless, and what stands for them."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.config.parsers import ToolCompaction
from penumbra.conversation.superseded import Result, find, form, group, older, trim, trimmed
from support.examples import examples

BIG = "x" * 500


def results(*entries):
    """(tool, arguments[, error[, unread]]) each."""
    made = []
    for index, (tool, arguments, *more) in enumerate(entries):
        error, unread = [*more, False, False][:2]
        made.append(Result(index, f"call_{index}", tool, arguments, error, unread))
    return made


# The four examples of the field: same call again, other identifiers, excluded, one group for all


def test_a_the_older_result_of_the_same_logical_call_is_superseded():
    parameters = ToolCompaction.read({"toolIdentifierFields": {"read_file": ["path"]}})
    calls = results(
        ("read_file", {"path": "a.txt", "limit": 5}), ("read_file", {"path": "a.txt", "limit": 9})
    )
    assert find(calls, parameters) == {0: "call_1"}


def test_b_other_identifiers_are_other_calls():
    parameters = ToolCompaction.read({"toolIdentifierFields": {"read_file": ["path"]}})
    calls = results(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    assert find(calls, parameters) == {}


def test_c_excluded_tools_are_left_alone():
    parameters = ToolCompaction.read({"excludedTools": ["get_status"]})
    calls = results(("get_status", {}), ("get_status", {}), ("other_tool", {}), ("other_tool", {}))
    assert find(calls, parameters) == {2: "call_3"}


def test_d_without_identifiers_all_calls_of_a_tool_are_one_group_where_that_is_asked_for():
    calls = results(("search", {"q": "a"}), ("search", {"q": "b"}))
    assert find(calls, ToolCompaction.read({"toolOnly": True})) == {0: "call_1"}
    assert find(calls, ToolCompaction()) == {}


# Sane defaults


def test_all_arguments_identify_a_call_whatever_their_order():
    calls = results(
        ("t", {"a": 1, "b": [1, 2]}), ("t", {"b": [1, 2], "a": 1}), ("t", {"a": "1", "b": [1, 2]})
    )
    assert find(calls, ToolCompaction()) == {0: "call_1"}


def test_a_missing_identifier_is_null():
    parameters = ToolCompaction.read({"toolIdentifierFields": {"t": ["path", "page"]}})
    assert group("t", {"path": "a"}, parameters) == group("t", {"page": None, "path": "a"}, parameters)
    assert group("t", {"path": "a"}, parameters) != group("t", {"path": "a", "page": 1}, parameters)


def test_the_unread_tail_is_never_superseded_but_supersedes():
    calls = results(("t", {}), ("t", {}, False, True), ("t", {}, False, True))
    assert find(calls, ToolCompaction()) == {0: "call_2"}


def test_a_later_failure_supersedes_nothing():
    assert find(results(("t", {}), ("t", {}, True)), ToolCompaction()) == {}
    assert find(results(("t", {}), ("t", {}, True), ("t", {})), ToolCompaction()) == {
        0: "call_2",
        1: "call_2",
    }


def test_three_of_a_group_leave_the_newest():
    assert find(results(("t", {}), ("t", {}), ("t", {})), ToolCompaction()) == {0: "call_2", 1: "call_2"}


def test_texts_of_one_call_do_not_supersede_each_other():
    twice = [Result(0, "call_0", "t", {}, False, False), Result(1, "call_0", "t", {}, False, False)]
    assert find(twice, ToolCompaction()) == {}


def test_results_without_a_call_are_left_alone():
    assert (
        find([Result(0, "", "t", {}, False, False), Result(1, "c", "", None, False, False)], ToolCompaction())
        == {}
    )


READ, EDIT = (
    ("Read", {"file_path": "src/a.py"}),
    ("Edit", {"file_path": "./src/a.py", "old_string": "a", "new_string": "b"}),
)


def test_a_read_is_stale_once_its_file_was_edited():
    assert find(results(READ, EDIT), ToolCompaction()) == {0: "call_1"}
    assert find(results(("Bash", {"command": "cat src/a.py"}), EDIT), ToolCompaction()) == {0: "call_1"}


SPELLINGS = ("C:\\w\\a.py", "c:/w/a.py", "\\\\?\\C:\\w\\a.py", "/c/w/a.py")


@pytest.mark.parametrize("written", SPELLINGS)
@pytest.mark.parametrize("read", SPELLINGS)
def test_a_file_of_windows_is_one_file_however_it_is_spelt(read, written):
    again, edit = ("Read", {"file_path": written}), ("Edit", {"file_path": written, "new_string": "b"})
    assert find(results(("Read", {"file_path": read}), edit), ToolCompaction()) == {0: "call_1"}
    assert find(results(("Read", {"file_path": read}), again), ToolCompaction()) == {0: "call_1"}
    named = ToolCompaction.read({"toolIdentifierFields": {"Read": ["file_path"]}, "staleReads": False})
    assert find(results(("Read", {"file_path": read, "limit": 1}), again), named) == {0: "call_1"}
    other = ("Edit", {"file_path": written.replace("a.py", "b.py"), "new_string": "b"})
    assert find(results(("Read", {"file_path": read}), other), ToolCompaction()) == {}


def test_a_failed_edit_an_earlier_one_or_another_file_leaves_it_fresh():
    assert find(results(READ, (*EDIT, True)), ToolCompaction()) == {}
    assert find(results(EDIT, READ), ToolCompaction()) == {}
    assert find(results(READ, ("Write", {"file_path": "src/b.py", "content": "x"})), ToolCompaction()) == {}
    assert find(results(READ, EDIT), ToolCompaction.read({"staleReads": False})) == {}


def test_acknowledgements_of_writes_are_never_superseded():
    assert find(results(EDIT, EDIT), ToolCompaction()) == {}


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Read", "Edit", "Bash"]), st.sampled_from(["a.py", "b.py"]), st.booleans()
        ),
        max_size=8,
    )
)
def test_a_read_after_the_last_write_survives(entries):
    calls = results(
        *((tool, {"file_path": path, "command": f"ls {path}"}, error) for tool, path, error in entries)
    )
    found = find(calls, ToolCompaction())
    for tool in ("Read", "Bash"):
        for path in ("a.py", "b.py"):
            same = [
                n
                for n, (name, where, error) in enumerate(entries)
                if (name, where) == (tool, path) and not error
            ]
            edits = [
                n
                for n, (name, where, error) in enumerate(entries)
                if name == "Edit" and where == path and not error
            ]
            if same and (tool == "Bash" or not [n for n in edits if n > same[-1]]):
                assert same[-1] not in found


# Forms


def test_parameters_of_the_wrong_type_are_as_if_left_out():
    bad = {
        "inputTrimBytes": "7",
        "outputTrimBytes": -1,
        "excludedTools": "x",
        "toolIdentifierFields": {"t": "a", 3: ["b"]},
    }
    assert ToolCompaction.read(bad) == ToolCompaction()
    assert ToolCompaction.read(None) == ToolCompaction.read([1]) == ToolCompaction()
    good = ToolCompaction.read(
        {"inputTrimBytes": 7, "outputTrimBytes": 8, "toolIdentifierFields": {"t": ["a", 4]}}
    )
    assert (good.input_trim_bytes, good.output_trim_bytes, good.tool_identifier_fields) == (
        7,
        8,
        {"t": ("a",)},
    )


@pytest.mark.parametrize(("length", "omitted"), [(100, False), (101, True)])
def test_the_threshold_is_in_bytes_and_itself_stays(length, omitted):
    members = {"big": "y" * 400, "text": "x" * length}
    assert (trim(members, 100)["text"] == "[omitted]") is omitted
    assert trim({"big": "y" * 400, "text": "ü" * 51}, 100)["text"] == "[omitted]"


def test_the_account_of_what_was_omitted():
    members = {"path": "a.txt", "content": BIG, "rows": list(range(200))}
    trimmed = trim(members, 100)
    assert (trimmed["path"], trimmed["content"], trimmed["rows"]) == ("a.txt", "[omitted]", "[omitted]")
    written = json.dumps(members["rows"], separators=(",", ":"))
    assert trimmed["_tool_compaction"] == {
        "thresholdBytes": 100,
        "omittedFields": {
            "content": {"bytes": 500, "sha256": hashlib.sha256(json.dumps(BIG).encode()).hexdigest()},
            "rows": {"bytes": len(written), "sha256": hashlib.sha256(written.encode()).hexdigest()},
        },
    }


def test_small_fields_that_would_grow_stay():
    assert trim({"a": "x" * 101}, 100) is None


def test_twice_is_once():
    assert trim(trim({"a": BIG}, 100), 100) is None
    assert (
        form(
            form(json.dumps({"a": BIG}), "t", "c", "d", "other", ToolCompaction()),
            "t",
            "c",
            "d",
            "other",
            ToolCompaction(),
        )
        is None
    )


def test_a_text_becomes_one_line_and_names_its_successor():
    made = form("some text\n" * 99, "Read", "call_1", "call_7", "read", ToolCompaction())
    assert made == (
        "[tool_compaction] Tool result compacted for tool=Read, callId=call_1. Large fields omitted.\n"
        "[A later result takes its place: call_7]"
    )
    assert form("short", "Read", "call_1", "call_7", "read", ToolCompaction()) is None
    stale = form("some text\n" * 99, "Read", "call_1", "call_7", "read", ToolCompaction(), written=True)
    assert stale.endswith("\n[The file was written later: call_7]")


def test_a_test_run_keeps_how_it_ended():
    run = "\n".join(
        [f"tests/test_a.py::test_{n} PASSED" for n in range(80)]
        + ["FAILED tests/test_a.py::test_x - assert 1 == 2", "1 failed, 80 passed in 2.1s"]
    )
    made = form(run, "Bash", "call_1", "call_2", "bash", ToolCompaction())
    assert "FAILED tests/test_a.py::test_x - assert 1 == 2" in made
    assert made.endswith("1 failed, 80 passed in 2.1s")
    assert len(made) < len(run) / 5


def test_a_status_poll_keeps_its_last_line():
    made = form(
        "waiting for the build\n" * 60 + "state: queued\n\n", "Bash", "c1", "c2", "bash", ToolCompaction()
    )
    assert made.endswith("state: queued")


def test_numbers_that_json_would_spell_differently_are_not_written_again():
    text = json.dumps({"a": BIG})[:-1] + ', "n": 123456789012345678901234567890}'
    made = form(text, "t", "c1", "c2", "other", ToolCompaction())
    assert made.startswith("[tool_compaction]")


# Arguments


def test_arguments_only_by_request_and_never_the_newest_or_identifiers():
    entries = [
        ("write", {"path": "p" * 200, "content": BIG}),
        ("write", {"path": "p" * 200, "content": BIG + "!"}),
    ]
    named = {"toolIdentifierFields": {"write": ["path"]}}
    assert older(results(*entries), ToolCompaction.read(named)) == []
    asked = ToolCompaction.read({"compactArguments": True, **named})
    assert older(results(*entries), asked) == [0]
    source = json.dumps(entries[0][1]).encode()
    found = json.loads(trimmed(source, asked.input_trim_bytes, asked.tool_identifier_fields["write"]))
    assert found["path"] == "p" * 200
    assert found["content"] == "[omitted]"
    free = results(("t", "free text"), ("t", "free text"))
    assert older(free, asked) == [0]
    assert trimmed(b'"free text"', 1) is None


def test_the_four_examples_hold_for_arguments_too():
    read_path = {"compactArguments": True, "toolIdentifierFields": {"read_file": ["path"]}}
    same = results(("read_file", {"path": "a.txt", "limit": 5}), ("read_file", {"path": "a.txt", "limit": 9}))
    other = results(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    assert older(same, ToolCompaction.read(read_path)) == [0]
    assert older(other, ToolCompaction.read(read_path)) == []
    excluded = ToolCompaction.read({"compactArguments": True, "excludedTools": ["get_status"]})
    calls = results(("get_status", {}), ("get_status", {}), ("other_tool", {}), ("other_tool", {}))
    assert older(calls, excluded) == [2]
    one_group = results(("search", {"q": "a"}), ("search", {"q": "b"}))
    assert older(one_group, ToolCompaction.read({"compactArguments": True, "toolOnly": True})) == [0]
    assert older(one_group, ToolCompaction.read({"compactArguments": True})) == []


def test_failed_and_unread_calls_make_nothing_useless_and_stay():
    asked = ToolCompaction.read({"compactArguments": True})
    assert older(results(("t", {}), ("t", {}, True)), asked) == []
    assert older(results(("t", {}, True), ("t", {})), asked) == [0]
    assert older(results(("t", {}, False, True), ("t", {}, False, True)), asked) == []
    assert older(results(("t", {}), ("t", {}, False, True)), asked) == [0]


def test_placeholders_have_the_type_of_what_they_stand_for_and_the_rest_keeps_its_bytes():
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


@settings(max_examples=examples(60), deadline=None)
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


@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8), st.text(max_size=300) | st.lists(st.integers(0, 9), max_size=150), max_size=5
    )
)
def test_nothing_grows(members):
    text = json.dumps(members)
    for category in ("bash", "read"):
        made = form(text, "t", "c1", "c2", category, ToolCompaction())
        assert made is None or len(made.encode()) < len(text.encode())
