"""Tool calls and command lines: their category, command and path."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.calls.classify import MAX_LINE, classify
from penumbra.compress.calls.programs import shell_rules
from penumbra.compress.calls.shell import MAX_DEPTH, parse, parse_argv
from penumbra.compress.calls.tools import CATEGORIES, one_spelling, skips, tool_rules
from penumbra.rule_schemas.shell_rules import WrapperRule
from penumbra.rule_schemas.tool_rules import ToolExample
from support.examples import examples
from support.filled import load


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


def test_the_way_of_an_output_through_a_command_line() -> None:
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


@settings(max_examples=examples(200))
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
def test_other_paths_keep_their_differences(path: str, spelling: str) -> None:
    assert one_spelling(path) == spelling


DATA: dict[str, Any] = load(__file__)


@pytest.mark.parametrize(("tool", "arguments", "read"), DATA["calls"])
def test_calls_are_read(tool: str, arguments: Any, read: dict[str, Any]) -> None:
    call = classify(tool, arguments)
    assert {"category": call.category, "command": list(call.command), "path": call.path} == read


def programs(line: str) -> list[str]:
    return [" ".join(part.argv) for part in parse(line)]


def test_the_program_that_printed_the_output_of_a_line() -> None:
    lines = {line: program for part in DATA["programs"].values() for line, program in part.items()}
    assert {line: programs(line) for line in lines} == {line: [program] for line, program in lines.items()}


def test_programs_of_a_chain_are_in_order() -> None:
    assert {line: programs(line) for line in DATA["chains"]} == DATA["chains"]


@pytest.mark.parametrize(("line", "path"), DATA["reads"].items())
def test_a_command_that_prints_a_file_is_a_read(line: str, path: str) -> None:
    assert (parse(line)[-1].read, parse(line)[-1].path) == (True, path)


def test_lines_may_be_cut_selected_or_echoed() -> None:
    assert parse("pytest | tail -5")[0].cut
    assert parse("pytest | sed -n '1,20p'")[0].cut
    assert parse("pytest > o; tail -5 o")[0].cut
    assert not parse("pytest > o; cat o")[0].cut
    assert parse("find . | grep x")[0].selected
    assert parse("find . | sort -u")[0].selected
    assert not parse("pytest | tee log")[0].cut
    assert not parse("pytest | tee log")[0].selected
    assert parse("echo ---; ls")[0].echo


@pytest.mark.parametrize(
    "line",
    ["sed -i s/a/b/ x", "tail -f log", "awk '{print $1}' x", "ls | cat -n", "git show HEAD", "sed s/a/b/ x"],
)
def test_no_reads(line: str) -> None:
    assert not any(part.read for part in parse(line))


def test_several_files_have_no_one_path() -> None:
    part = parse("cat a.py b.py")[0]
    assert part.read
    assert part.path == ""


def test_argument_vectors() -> None:
    assert parse_argv(["bash", "-lc", "cd x && git diff"])[0].argv == ("git", "diff")
    assert parse_argv(["rg", "a|b", "src"])[0].argv == ("rg", "a|b", "src")
    assert parse_argv([]) == ()


def wrapped(key: str, rule: WrapperRule) -> str:
    """Return a command line that runs `prog arg` through this wrapper, with one of its options before."""
    words = [key]
    for option in rule.values[:1]:
        words += [option, "value"]
    if rule.only:
        option = [*rule.script, *rule.module][0]
        return " ".join([*words, option, "prog arg" if rule.module else "'prog arg'"])
    words += ["operand"] * rule.operands
    return " ".join([*words, "prog", "arg"])


@pytest.mark.parametrize("key", sorted(shell_rules().wrappers))
def test_every_wrapper_is_taken_off(key: str) -> None:
    assert programs(wrapped(key, shell_rules().wrappers[key])) == ["prog arg"]
    assert len(programs(key)) <= 1


@pytest.mark.parametrize("key", sorted(shell_rules().options))
def test_options_before_a_subcommand_are_taken_off(key: str) -> None:
    option = shell_rules().options[key][0]
    assert programs(f"{key} {option} value --flag sub arg") == [f"{key} sub arg"]


@pytest.mark.parametrize("command", sorted(shell_rules().silent))
def test_silent_commands_are_left_out(command: str) -> None:
    assert programs(f"{command} x; pytest") == ["pytest"]


SHELL_LIKE = st.lists(
    st.sampled_from(
        [
            "ls", "cat", "a.py", "'", '"', "$(", ")", "(", "{", "}", "`", "|", "||", "&&", ";", "\n",
            "<<EOF", "EOF", "<<<", "> x", "2>&1", "\\", "$'", "${", "for", "in", "do", "done", "if", "fi",
            "case", "esac", "bash -c", "eval", "sudo", "xargs", "A=1", "#", " ", "-n", "--", "é", "\x00",
            "<(", "then", "!", "time", "tee", "| head",
        ]
    ),
    max_size=30,
)  # fmt: skip


@settings(max_examples=examples(300))
@given(SHELL_LIKE, st.sampled_from(["", " "]))
def test_parsing_never_fails(words: list[str], glue: str) -> None:
    line = glue.join(words)
    parts = parse(line)
    assert all(part.argv for part in parts)
    assert parse(line) == parts


@settings(max_examples=examples(150))
@given(st.text(max_size=80))
def test_any_text(line: str) -> None:
    assert all(part.argv for part in parse(line))


@pytest.mark.parametrize(
    "unit",
    ["(", "{ ", "$(", "`", "'", '"$(', "if ", "a|", "<<E ", "case x in ", "bash -c '", "sudo ", "eval "],
)
def test_deep_nesting_ends(unit: str) -> None:
    assert len(parse(unit * 5_000)) <= 5_001


def test_nesting_is_followed_to_a_limit() -> None:
    line = "pytest"
    for _ in range(MAX_DEPTH - 1):
        line = f"({line})"
    assert programs(line) == ["pytest"]
