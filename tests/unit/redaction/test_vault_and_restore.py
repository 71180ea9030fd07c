"""Values in memory, and their return into edits of files."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import rules
from penumbra.redaction import placeholder
from penumbra.redaction.restore import restorer
from penumbra.redaction.restore.restorer import Folder, Read, Restorer, Values, Vault, exact, restorer_of
from support.examples import examples

VALUE = 'p"ss\\wörd\U0001f511'
LINES = "one\ntwo"
MARK = placeholder.make("password", b"k", VALUE.encode())
OTHER = placeholder.make("password", b"k", b"other")
LONG = placeholder.make("private-key", b"k", LINES.encode())
UNKNOWN = placeholder.make("password", b"k", b"unknown")
PATH = "/a/.env"
VALUES = Values([Read(PATH, {MARK: VALUE, LONG: LINES}), Read("/b", {OTHER: "other"})])
DECLARED = {"Edit": "file_path", "MultiEdit": "file_path", "write_to_file": "path"}


def of(
    tool: str = "Edit",
    values: Values = VALUES,
    root: str = "",
    freeform: bool = False,
    moved: bool = False,
    declared: dict[str, str] = DECLARED,
) -> Restorer:
    found = restorer_of(tool, values, Folder(root, moved), declared, freeform=freeform)
    assert found is not None
    return found


def whole(text: str, **more: Any) -> str:
    one = of(**more)
    return one.feed(text) + one.finish()


def restored(arguments: Any, **more: Any) -> Any:
    return json.loads(whole(json.dumps(arguments), **more))


# The vault


def test_values_come_back_for_their_own_file_only() -> None:
    vault = Vault()
    vault.keep(b"scope", b"1", "/a/.env", {MARK: VALUE})
    vault.keep(b"scope", b"2", "", {OTHER: "other"})
    values = vault.values(b"scope", [b"1", b"2", b"3"])
    assert values.of("/a/.env") == {MARK: VALUE}
    assert values.of("/b/.env") == values.of("") == {}
    assert MARK in values
    assert OTHER not in values
    assert values.every() == {MARK: VALUE}
    assert not vault.values(b"scope", [b"2"])
    assert not vault.values(b"elsewhere", [b"1"])
    assert vault.has(b"scope", b"2")
    assert not vault.has(b"elsewhere", b"1")


def test_two_values_of_one_fingerprint_are_never_written() -> None:
    assert not Values([Read("/f", {MARK: "one"}), Read("/g", {MARK: "two"})])


def test_vault_is_bounded() -> None:
    """The size of a result is 500 characters plus the characters of its values."""
    vault = Vault(scopes=2, characters=1_510)
    for number in range(5):
        vault.keep(b"a", b"%d" % number, "/f", {MARK: "v" * 3})
    assert [vault.has(b"a", b"%d" % number) for number in range(5)] == [False, False, True, True, True]
    vault.keep(b"a", b"9", "/f", {MARK: "w" * 1_000})
    assert vault.values(b"a", [b"2", b"3", b"4", b"9"]).of("/f") == {MARK: "w" * 1_000}
    vault.keep(b"a", b"large", "/f", {MARK: "w" * 1_011})
    assert not vault.has(b"a", b"large")
    vault.keep(b"b", b"1", "/f", {MARK: "x"})
    vault.keep(b"c", b"1", "/f", {MARK: "x"})
    assert not vault.has(b"a", b"9")
    assert vault.has(b"b", b"1")
    assert vault.has(b"c", b"1")


def test_nothing_shows_in_repr() -> None:
    vault = Vault()
    vault.keep(b"scope", b"1", "/f", {MARK: VALUE})
    assert repr(vault) == "<Vault of 1 scopes>"
    assert repr(VALUES) == "<Values of 2 files>"
    one = of()
    one.feed(json.dumps({"file_path": PATH, "a": OTHER}))
    assert "other" not in repr(one) + repr(Read("/b", {OTHER: "other"}))


@pytest.mark.parametrize(
    ("value", "text", "sure"),
    [
        ("abc", "K=abc", True),
        ("a\\nb", "K=a\\nb", True),
        ("a\\nb", ' {"K": "a\\nb"}', False),
        ("MIIE\nabc", "MIIE\nabc", True),
        ("MIIE\n     3\tabc", "     2\tMIIE\n     3\tabc", False),
        ("MIIE\n12\u2192abc", "x", False),
        ("a\x1b[0mb", "x", False),
        ("a" * 1_000, "x", True),
        ("a" * 1_001, "x", False),
        (f"a{MARK}", "x", False),
    ],
)
def test_values_that_the_file_may_spell_otherwise_are_not_kept(value: str, text: str, sure: bool) -> None:
    assert exact({MARK: value}, text) == ({MARK: value} if sure else {})


# Which file


@pytest.mark.parametrize("example", rules.load("files.yaml")["examples"]["reads"], ids=str)
def test_files_that_are_read(example: dict[str, Any]) -> None:
    folder = Folder(example.get("root", ""), example.get("moved", False))
    assert restorer.read_from(example["tool"], example["arguments"], folder) == example["path"]


@pytest.mark.parametrize("example", rules.load("files.yaml")["examples"]["edits"], ids=str)
def test_tools_that_edit(example: dict[str, Any]) -> None:
    assert restorer.edit_kind(example["tool"]) == example["kind"]
    if not example["kind"]:
        declared = {example["tool"]: "path"}
        assert restorer_of(example["tool"], VALUES, Folder(), declared, freeform=False) is None


@pytest.mark.parametrize("example", rules.load("files.yaml")["examples"]["moves"], ids=str)
def test_calls_that_change_the_folder(example: dict[str, Any]) -> None:
    assert restorer.moves(example["tool"], example["texts"]) is example["moves"]


def test_the_folder_of_a_conversation() -> None:
    stated = "x <environment_context>\n  <cwd>/r</cwd>"
    folder = restorer.stated_folder
    assert folder(stated, stated.encode()) == "/r"
    assert folder(stated, (stated + stated).encode()) == "/r"
    assert folder(stated, f"{stated} <cwd>/other</cwd>".encode()) == ""
    assert folder("<cwd>r</cwd>", b"<cwd>r</cwd>") == ""
    assert folder("<cwd>/r/../s</cwd>", b"<cwd>/r/../s</cwd>") == ""
    assert folder("x", stated.encode()) == ""


# Arguments


def test_every_string_after_or_before_the_path_is_restored() -> None:
    arguments = {"old_string": f"a [1] {MARK}\n", "n": 1, "file_path": PATH, "new_string": [MARK, UNKNOWN]}
    expected = {**arguments, "old_string": f"a [1] {VALUE}\n", "new_string": [VALUE, UNKNOWN]}
    assert restored(arguments) == expected
    assert restored(dict(reversed(arguments.items()))) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "/b", "old_string": MARK},
        {"old_string": MARK, "file_path": "/b"},
        {"old_string": MARK},
        {"file_path": [PATH, "/b"], "old_string": MARK},
        {"file_path": PATH, MARK: 1},
        {"file_path": f"{PATH}{MARK}", "old_string": MARK},
        {"content": "*** Begin Patch\n*** Update File: /a/.env\n+" + MARK, "file_path": "/b"},
    ],
)
def test_placeholders_of_other_files_stay(arguments: Any) -> None:
    assert restored(arguments) == arguments


def test_relative_paths_and_their_folder() -> None:
    arguments = {"file_path": ".env", "s": MARK}
    assert restored(arguments, root="/a") == {"file_path": ".env", "s": VALUE}
    assert restored(arguments, root="/c") == arguments
    assert restored(arguments, root="/a", moved=True) == arguments
    assert restored(arguments) == arguments


PATCH = f"*** Begin Patch\n*** Update File: .env\n@@\n-K={MARK}\n+{LONG}\n*** Update File: b\n+{MARK}\n*** Add File: /b\n+{OTHER}\n*** End Patch\n"
PATCHED = PATCH.replace(f"-K={MARK}", f"-K={VALUE}").replace(OTHER, "other")


def test_patches_name_their_files() -> None:
    assert whole(PATCH, tool="apply_patch", root="/a", freeform=True) == PATCHED
    assert restored({"input": PATCH}, tool="apply_patch", root="/a") == {"input": PATCHED}
    moved = f"*** Begin Patch\n*** Update File: {PATH}\n*** Move to: /c\n+{MARK}\n"
    assert whole(moved, tool="apply_patch", freeform=True) == moved
    operation = {"type": "update_file", "path": PATH, "diff": f"+{MARK}\n+{LONG}"}
    assert restored(operation, tool="apply_patch_call")["diff"] == f"+{VALUE}\n+{LONG}"
    assert restorer_of("Edit", VALUES, Folder(), DECLARED, freeform=True) is None


def test_restored_values_are_reported() -> None:
    one = of()
    one.feed(json.dumps({"file_path": PATH, "a": MARK, "b": OTHER}))
    one.finish()
    assert one.used == {MARK: VALUE}


def test_arguments_flow_until_the_first_placeholder_that_has_a_value() -> None:
    one = of()
    assert one.feed(f'{{"file_path":"{PATH}","s":"ab [RED') == f'{{"file_path":"{PATH}","s":"ab '
    assert one.feed("UCE") == "[REDUCE"
    assert one.feed("[REDACTED:" + "z" * 100) == "[REDACTED:" + "z" * 100
    assert one.feed("[") == ""
    assert one.feed(UNKNOWN[1:] + "w") == UNKNOWN + "w"
    assert one.feed("x" + MARK[:-1]) == "x"
    assert one.feed("]y") == ""
    assert one.feed('"}') == ""
    assert one.finish() == json.dumps(VALUE, ensure_ascii=False)[1:-1] + 'y"}'
    assert one.finish() == ""


BROKEN = (
    *(MARK, OTHER, "[", "]", "[REDACTED:", "[REDACTED:password:", "x", '"', "\\", "\\u00", "\\n"),
    *("{", "}"),
)
MEMBERS = (
    *(f'"file_path":"{PATH}"', '"path":"/b"', '"s":"', '{"a":', "*** Update File: /a/.env\n", "\n"),
    *(":", ","),
)
PIECES = st.sampled_from(BROKEN) | st.sampled_from(MEMBERS)


@settings(max_examples=examples(150))
@given(
    st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join),
    st.sampled_from([("Edit", False), ("apply_patch", False), ("apply_patch", True)]),
    st.data(),
)
def test_fragments_join_to_the_whole(text: str, how: tuple[str, bool], data: st.DataObject) -> None:
    """A model may write any text, in fragments of any size."""
    tool, freeform = how
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    one = of(tool, freeform=freeform)
    out = [one.feed(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    joined = "".join([*out, one.finish()])
    assert joined == whole(text, tool=tool, freeform=freeform)
    if not one.used:
        assert joined == text


JSON_VALUES = st.recursive(
    st.none()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from([MARK, f"a {OTHER}\n{MARK}", "[", UNKNOWN]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", UNKNOWN[1:]]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150))
@given(st.dictionaries(st.sampled_from(["s", "t", "u"]), JSON_VALUES, max_size=3), st.booleans())
def test_json_stays_json_and_only_the_values_change(arguments: dict[str, Any], first: bool) -> None:
    path = {"file_path": PATH}
    arguments = {**path, **arguments} if first else {**arguments, **path}
    for ascii_only in (True, False):
        found = json.loads(whole(json.dumps(arguments, ensure_ascii=ascii_only)))
        assert list(found) == list(arguments)
        assert found == _replaced(arguments)


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(MARK, VALUE)
    if isinstance(value, list):
        return [_replaced(item) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item) for key, item in value.items()}
    return value
