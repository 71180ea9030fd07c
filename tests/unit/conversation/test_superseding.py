"""Results, and arguments of calls, that a later call has made useless."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.config.parsers import ToolCompaction
from penumbra.conversation.superseding import Result, group, newer_calls
from support.examples import examples

FAILED, UNREAD = {"is_error": True}, {"unread": True}
READ = "Read", {"file_path": "src/a.py"}
EDIT = "Edit", {"file_path": "./src/a.py", "old_string": "a", "new_string": "b"}
CAT = "Bash", {"command": "cat src/a.py"}
OTHER_WRITE = "Write", {"file_path": "src/b.py", "content": "x"}
T = "t", {}
PATH = {"toolIdentifierFields": {"read_file": ["path"]}}


def result(number: int, tool: str, arguments: Any, more: Any = None) -> Result:
    return Result(f"call_{number}", tool, arguments, **{"is_error": False, "unread": False, **(more or {})})


def superseded(*entries: Any, **options: Any) -> dict[int, str]:
    """Return the ids of the newer calls by the index of the superseded result, for entries (tool, arguments)."""
    results = [entry if isinstance(entry, Result) else result(n, *entry) for n, entry in enumerate(entries)]
    found = newer_calls(results, ToolCompaction.read(options))
    return {index: newer.call_id for index, newer in found.items() if newer.of_result}


def arguments(*entries: Any, **options: Any) -> list[int]:
    """Return the indexes of the calls whose arguments are useless."""
    results = [result(n, *entry) for n, entry in enumerate(entries)]
    found = newer_calls(results, ToolCompaction.read(options))
    return sorted(index for index, newer in found.items() if newer.repeats)


@pytest.mark.parametrize(
    ("entries", "options", "expected"),
    [
        ([("read_file", {"path": "a", "limit": 5}), ("read_file", {"path": "a", "limit": 9})], PATH, [0]),
        ([("read_file", {"path": "a"}), ("read_file", {"path": "b"})], PATH, []),
        ([("poll", {}), ("poll", {}), T, T], {"excludedTools": ["poll"]}, [2]),
        ([("search", {"q": "a"}), ("search", {"q": "b"})], {"toolOnly": True}, [0]),
        ([("search", {"q": "a"}), ("search", {"q": "b"})], {}, []),
        ([("t", {"a": 1, "b": [2]}), ("t", {"b": [2], "a": 1}), ("t", {"a": "1", "b": [2]})], {}, [0]),
        ([T, T, T], {}, [0, 1]),
        ([T, (*T, UNREAD), (*T, UNREAD)], {}, [0]),
        ([T, (*T, FAILED)], {}, []),
        ([(*T, FAILED), T], {}, [0]),
        ([T, (*T, FAILED), T], {}, [0, 1]),
        ([("t", "free text"), ("t", "free text")], {}, [0]),
        ([("", {}), ("", {})], {}, []),
    ],
    ids=["same identifiers", "other identifiers", "excluded", "one group", "no group", "any order", "three",
         "unread", "failed later", "failed before", "failed between", "free text", "no tool"],
)  # fmt: skip
def test_the_same_call_again(entries: list[Any], options: dict[str, Any], expected: list[int]) -> None:
    assert list(superseded(*entries, **options)) == expected[::-1]
    assert arguments(*entries, **options) == expected
    later = [index for index in range(len(entries)) if index not in expected]
    assert all(int(newer[5:]) in later for newer in superseded(*entries, **options).values())


@pytest.mark.parametrize(
    ("entries", "options", "expected"),
    [
        ([READ, EDIT], {}, {0: "call_1"}),
        ([CAT, EDIT], {}, {0: "call_1"}),
        ([READ, (*EDIT, FAILED)], {}, {}),
        ([EDIT, READ], {}, {}),
        ([READ, OTHER_WRITE], {}, {}),
        ([READ, EDIT], {"staleReads": False}, {}),
        ([EDIT, EDIT], {}, {}),
    ],
    ids=["read", "shown", "failed", "before", "another file", "not asked for", "acknowledgement"],
)
def test_a_file_written_later(entries: list[Any], options: dict[str, Any], expected: dict[int, str]) -> None:
    assert superseded(*entries, **options) == expected


def test_texts_of_one_call_and_results_without_one_are_left_alone() -> None:
    assert superseded(result(0, "t", {}), result(0, "t", {})) == {}
    assert superseded(Result("", "t", {}, False, False), Result("", "t", {}, False, False)) == {}


def test_a_missing_identifier_is_null() -> None:
    parameters = ToolCompaction.read({"toolIdentifierFields": {"t": ["path", "page"]}})
    one, same, other = (
        group(result(0, "t", given), parameters)
        for given in ({"path": "a"}, {"page": None, "path": "a"}, {"path": "a", "page": 1})
    )
    assert one == same != other


SPELLINGS = ("C:\\w\\a.py", "c:/w/a.py", "\\\\?\\C:\\w\\a.py", "/c/w/a.py")


@pytest.mark.parametrize("written", SPELLINGS)
@pytest.mark.parametrize("read", SPELLINGS)
def test_a_file_of_windows_is_one_file_however_it_is_spelt(read: str, written: str) -> None:
    first = "Read", {"file_path": read}
    again, edit = ("Read", {"file_path": written}), ("Edit", {"file_path": written, "new_string": "b"})
    assert superseded(first, edit) == superseded(first, again) == {0: "call_1"}
    named = {"toolIdentifierFields": {"Read": ["file_path"]}, "staleReads": False}
    assert superseded(("Read", {"file_path": read, "limit": 1}), again, **named) == {0: "call_1"}
    other = "Edit", {"file_path": written.replace("a.py", "b.py"), "new_string": "b"}
    assert superseded(first, other) == {}


Entry = tuple[str, str, bool]
ENTRIES = st.tuples(
    st.sampled_from(["Read", "Edit", "Bash"]), st.sampled_from(["a.py", "b.py"]), st.booleans()
)


@settings(max_examples=examples(100))
@given(st.lists(ENTRIES, max_size=8))
def test_a_read_after_the_last_write_survives(entries: list[Entry]) -> None:
    found = superseded(
        *(
            (tool, {"file_path": path, "command": f"ls {path}"}, {"is_error": error})
            for tool, path, error in entries
        )
    )

    def places(tool: str, path: str) -> list[int]:
        return [n for n, entry in enumerate(entries) if entry == (tool, path, False)]

    for tool in ("Read", "Bash"):
        for path in ("a.py", "b.py"):
            same, edits = places(tool, path), places("Edit", path)
            if same and (tool == "Bash" or not edits or edits[-1] < same[-1]):
                assert same[-1] not in found


def test_parameters_of_the_wrong_type_are_as_if_left_out() -> None:
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
    sizes = good.input_trim_bytes, good.output_trim_bytes
    assert (*sizes, good.tool_identifier_fields) == (7, 8, {"t": ("a",)})
