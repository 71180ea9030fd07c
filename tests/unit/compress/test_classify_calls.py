"""Tool calls to category, command and path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.calls.classify import MAX_LINE, classify
from penumbra.compress.calls.tools import CATEGORIES, one_spelling, skips, tool_rules
from penumbra.rule_schemas.tool_rules import ToolExample
from support.examples import examples


@pytest.mark.parametrize(
    "example", tool_rules().examples, ids=lambda example: f"{example.tool} {example.arguments or ''}"
)
def test_examples_of_the_tool_table(example: ToolExample) -> None:
    assert classify(example.tool, example.arguments).category == example.category


def test_every_name_has_one_category_that_exists() -> None:
    seen: dict[str, str] = {}
    for agent, categories in tool_rules().agents.items():
        for kind, names in categories.items():
            assert kind in CATEGORIES, agent
            for name in names:
                assert seen.setdefault(name, kind) == kind, name


@pytest.mark.parametrize(
    ("tool", "entries", "skipped"),
    [
        ("Edit", {"edit", "write"}, True),
        ("replace", {"EDIT"}, True),
        ("Write", {"edit"}, False),
        ("exec_command", {"Bash"}, True),
        ("run_shell_command", {"shell"}, True),
        ("mcp__github__get_issue", {"mcp__github__*"}, True),
        ("mcp__github__get_issue", {"get_issue"}, False),
        ("book_reservation", {"book_reservation"}, True),
        ("book_reservation", {"Book_Reservation"}, False),
        ("", {"read"}, False),
        ("", {""}, False),
        ("anything", set(), False),
        ("anything", {"other"}, True),
    ],
)
def test_skips(tool: str, entries: set[str], skipped: bool) -> None:
    assert skips(tool, frozenset(entries)) is skipped


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "command", "path"),
    [
        ("Read", {"file_path": "/a/b.py"}, "read", (), "/a/b.py"),
        ("read", {"filePath": "/a/b.py", "offset": 3}, "read", (), "/a/b.py"),
        ("read_file", {"absolute_path": "/a/b.py"}, "read", (), "/a/b.py"),
        ("read_many_files", {"paths": ["a", "b"]}, "read", (), ""),
        ("read_many_files", {"paths": ["a"]}, "read", (), "a"),
        ("Bash", {"command": "cat a.py"}, "read", ("cat", "a.py"), "a.py"),
        ("Bash", {"command": "cat a.py && sed -n 1,5p b.py"}, "read", ("sed", "-n", "1,5p", "b.py"), ""),
        ("Bash", {"command": "cd x && ls -la"}, "bash", ("ls", "-la"), ""),
        ("Bash", {"command": "cd x"}, "bash", (), ""),
        ("shell", {"command": ["bash", "-lc", "cd x && sed -n 1,5p y"]}, "read", ("sed", "-n", "1,5p", "y"), "y"),
        ("shell", {"command": ["git", "diff"]}, "bash", ("git", "diff"), ""),
        ("shell", {"command": ["apply_patch", "*** Begin Patch"]}, "edit", ("apply_patch", "*** Begin Patch"), ""),
        ("shell", {"commands": ["ls -la"]}, "bash", ("ls", "-la"), ""),
        ("local_shell_call", {"action": {"type": "exec", "command": ["git", "log"]}}, "bash", ("git", "log"), ""),
        ("exec_command", {"cmd": "git log"}, "bash", ("git", "log"), ""),
        ("bash", "git log", "bash", ("git", "log"), ""),
        ("mcp__box__shell_command", {"command": "git log"}, "bash", ("git", "log"), ""),
        ("my_runner", {"cmd": "git log"}, "bash", ("git", "log"), ""),
        ("write_stdin", {"session_id": 3, "chars": ""}, "bash", (), ""),
        ("str_replace_editor", {"command": "view", "path": "a.c"}, "read", (), "a.c"),
        ("str_replace_editor", {"command": "create", "path": "a.c"}, "write", (), "a.c"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.c"}, "edit", (), "a.c"),
        ("Grep", {"pattern": "x", "path": "src"}, "grep", (), "src"),
        ("apply_patch", "*** Begin Patch", "edit", (), ""),
        ("bash", {"command": "edit 2:3\nx = 1\nend_of_edit"}, "edit", ("end_of_edit",), ""),
        ("bash", {"command": "scroll_down"}, "read", ("scroll_down",), ""),
        ("think", {"thought": "x"}, "plan", (), ""),
        ("Unknown", {"command": 5}, "other", (), ""),
        ("", None, "other", (), ""),
    ],
)  # fmt: skip
def test_calls(tool: str, arguments: Any, kind: str, command: tuple[str, ...], path: str) -> None:
    call = classify(tool, arguments)
    assert (call.category, call.command, call.path) == (kind, command, path)


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (
            'const r = await tools.exec_command({cmd: "git log", workdir: "/x"}); text(r.output)',
            ("git", "log"),
        ),
        ("await tools.exec_command({ 'cmd': 'rg \"a b\" src' })", ("rg", "a b", "src")),
        ('tools.shell_command({"command": "rg \\"a b\\" src"})', ("rg", "a b", "src")),
        ("tools.exec_command({cmd: `git log`})", ("git", "log")),
    ],
)
def test_code_mode(source: str, command: tuple[str, ...]) -> None:
    assert classify("exec", source).command == command
    assert classify("exec", {"code": source}).command == command


def test_how_the_lines_came() -> None:
    assert classify("Bash", {"command": "ls; git diff"}).mixed
    assert not classify("Bash", {"command": "cd a; ls"}).mixed
    assert not classify("Bash", {"command": "pwd && ls"}).mixed
    assert classify("Bash", {"command": "pwd && ls"}).command == ("ls",)
    assert classify("Bash", {"command": "pwd; date"}).command == ("date",)
    assert classify("Bash", {"command": "git diff; cat a"}).category == "read"
    assert classify("Bash", {"command": "ls | head"}).cut
    assert classify("Bash", {"command": "ls | sort"}).selected
    assert classify("Bash", {"command": "cat a"}).shell
    assert not classify("Read", {"path": "a"}).shell
    assert classify("Bash", {"command": "cat a | grep x"}).line == "cat a | grep x"


def test_a_huge_line_is_left_alone() -> None:
    call = classify("Bash", {"command": "ls " + "x" * MAX_LINE})
    assert (call.category, call.command, call.shell) == ("bash", (), True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["command", "cmd", "path", "file_path", "action", "commands", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(["Bash", "shell", "Read", "exec", "str_replace_editor", "fs_read", "x", ""]), JSON)
def test_never_fails(tool: str, arguments: Any) -> None:
    call = classify(tool, arguments)
    assert call.category in CATEGORIES
    assert call == classify(tool, arguments)


WINDOWS = {
    "programs": "C:\\Work\\shop\\a.py",
    "slashes": "c:/Work/shop/a.py",
    "both": "C:/Work\\shop/a.py",
    "a dot": "C:\\Work\\.\\shop\\a.py",
    "a step back": "C:\\Work\\x\\..\\shop\\\\a.py",
    "long": "\\\\?\\C:\\Work\\shop\\a.py",
    "Git Bash": "/c/Work/shop/a.py",
    "Cygwin": "/cygdrive/c/Work/shop/a.py",
}


@pytest.mark.parametrize("path", WINDOWS.values(), ids=WINDOWS)
def test_all_spellings_of_a_windows_path_are_one(path: str) -> None:
    assert one_spelling(path) == "c:/Work/shop/a.py"
    assert one_spelling(one_spelling(path)) == one_spelling(path)


@pytest.mark.parametrize(
    ("path", "spelling"),
    [
        ("", ""),
        ("src/./A.py", "src/A.py"),
        ("src\\A.py", "src/A.py"),
        ("/Work/x/../A.py", "/Work/A.py"),
        ("/c", "/c"),
        ("c:A.py", "c:A.py"),
        ("\\\\Host\\share\\A.py", "//Host/share/A.py"),
        ("\\\\?\\UNC\\host\\Share\\.\\A.py", "//host/Share/A.py"),
        ("//tmp/A.py", "//tmp/A.py"),
        ("C:\\a\udce9.py", "c:/a\udce9.py"),
    ],
    ids=repr,
)
def test_other_paths_keep_what_tells_them_apart(path: str, spelling: str) -> None:
    assert one_spelling(path) == spelling
