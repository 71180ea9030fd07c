"""Tool calls and command lines: their category, command and path."""

from __future__ import annotations

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


def programs(line: str) -> list[str]:
    return [" ".join(part.argv) for part in parse(line)]


ONE_COMMAND = [
    # wrappers
    ("pytest", "pytest"),
    ("FOO=1 pytest", "pytest"),
    ("env FOO=1 pytest", "pytest"),
    ("env -i pytest", "pytest"),
    ("env -u HOME A=1 B=2 pytest -x", "pytest -x"),
    ("sudo pytest", "pytest"),
    ("sudo -u bob -E pytest", "pytest"),
    ("doas -u bob pytest", "pytest"),
    ("timeout 60 pytest", "pytest"),
    ("timeout -s KILL 60s pytest", "pytest"),
    ("timeout --signal=KILL 60s pytest", "pytest"),
    ("nice -n 10 pytest", "pytest"),
    ("nice -n10 pytest", "pytest"),
    ("nohup pytest &", "pytest"),
    ("time pytest", "pytest"),
    ("stdbuf -oL pytest", "pytest"),
    ("stdbuf -o L pytest", "pytest"),
    ("sudo timeout 5 nice env A=1 pytest", "pytest"),
    ("bash -lc 'pytest'", "pytest"),
    ('bash -c "cd x && pytest -q"', "pytest -q"),
    ("sh -c 'sh -c \"sh -c pytest\"'", "pytest"),
    ("eval 'pytest -q'", "pytest -q"),
    ('powershell -NoProfile -Command "git status"', "git status"),
    ("pwsh -Command git status", "git status"),
    ("cmd /c git status", "git status"),
    ("poetry run pytest", "pytest"),
    ("pdm run pytest", "pytest"),
    ("hatch run pytest", "pytest"),
    ("rye run pytest", "pytest"),
    ("pipenv run pytest", "pytest"),
    ("conda run -n dev pytest", "pytest"),
    ("uv run pytest", "pytest"),
    ("uv run --with foo pytest", "pytest"),
    ("uv run --with=foo --python 3.12 -- pytest", "pytest"),
    ("uv run -m pytest", "pytest"),
    ("uv run python -m pytest", "pytest"),
    ("uvx ruff check .", "ruff check ."),
    ("python -m pytest", "pytest"),
    ("python3.12 -X dev -m pytest -q", "pytest -q"),
    ("python -m pip install x", "pip install x"),
    ("python manage.py test", "python manage.py test"),
    ("npx vitest", "vitest"),
    ("npx -y vitest run", "vitest run"),
    ("npx --package typescript tsc", "tsc"),
    ("npm exec -- jest", "jest"),
    ("pnpm exec vitest", "vitest"),
    ("pnpm -C web --filter app exec vitest", "vitest"),
    ("pnpm dlx tsc", "tsc"),
    ("yarn exec jest", "jest"),
    ("bun x jest", "jest"),
    ("bunx jest", "jest"),
    ("bundle exec rspec", "rspec"),
    ("docker exec -it -e A=1 web pytest", "pytest"),
    ("podman exec web pytest", "pytest"),
    ("docker compose -f a.yml exec -T web pytest", "pytest"),
    ("docker-compose exec web pytest", "pytest"),
    ("docker run --rm -v /a:/a img pytest", "pytest"),
    ("kubectl exec -n ns pod -c main -- git log", "git log"),
    ("ssh -p 22 host 'cd /srv && git status'", "git status"),
    ("ssh host git status", "git status"),
    ("xargs -n 1 git show < list", "git show"),
    ("find . -name '*.py' | xargs grep -n foo", "grep -n foo"),
    ("rtk git diff", "git diff"),
    # names
    ("./node_modules/.bin/jest --ci", "jest --ci"),
    ("/usr/bin/python3.11 x.py", "python x.py"),
    ("./gradlew test", "gradle test"),
    (r"C:\\tools\\git.exe status", "git status"),
    ("gcc-13 a.c", "gcc a.c"),
    ("pip3 install x", "pip install x"),
    # options before the subcommand
    ("git -C /srv/blog --no-pager rev-parse HEAD", "git rev-parse HEAD"),
    ("git -c a.b=c diff --stat", "git diff --stat"),
    ("cargo +nightly --color never test", "cargo test"),
    ("npm --prefix ui run build", "npm run build"),
    ("kubectl -n kube-system get pods", "kubectl get pods"),
    ("docker --context x ps", "docker ps"),
    ("docker compose -f a.yml --profile b logs web", "docker compose logs web"),
    ("terraform -chdir=infra plan", "terraform plan"),
    # chains
    ("cd x && pytest", "pytest"),
    ("cd x; export A=1; source .venv/bin/activate; pytest", "pytest"),
    ("mkdir -p a && cd a\npytest", "pytest"),
    ("cd x || exit 1; pytest", "pytest"),
    ("rm -rf out && sed -i s/a/b/ f && git diff", "git diff"),
    # pipes
    ("pytest 2>&1 | tail -50", "pytest"),
    ("pytest |& tee log.txt", "pytest"),
    ("pytest | tee log | tail -5", "pytest"),
    ("pytest | grep FAILED", "pytest"),
    ("find . -type f | sort | uniq | head -20", "find . -type f"),
    ("git log | cat", "git log"),
    ("ls | wc -l", "wc -l"),
    ("cat a.json | jq .x", "jq .x"),
    ("ps aux | awk '{print $2}'", "awk {print $2}"),
    ("git log --format=%an | sort | uniq -c", "uniq -c"),
    ("grep -r foo . | grep -c bar", "grep -c bar"),
    ("git diff | head -c 200", "head -c 200"),
    ("(cd a && ls) | wc -l", "wc -l"),
    ('find . | while read f; do wc -l "$f"; done', "wc -l $f"),
    # redirects
    ("pytest > out.txt 2>&1; tail -50 out.txt", "pytest"),
    ("pytest 2>/dev/null", "pytest"),
    ("pytest >&2", "pytest"),
    ("pytest 1>&2", "pytest"),
    ("pytest > /dev/stderr", "pytest"),
    ("cat <<'EOF' > a.py\nit's ( \"odd\nEOF\npytest", "pytest"),
    ("cat > a.py <<-EOF\n\tx | y\n\tEOF\npytest", "pytest"),
    ('grep foo <<< "$x"', "grep foo"),
    ("diff <(sort a) <(sort b)", "diff <(sort a) <(sort b)"),
    # quotes and substitutions
    ("rg 'a|b;c' src", "rg a|b;c src"),
    ('rg "a\\"b" src', 'rg a"b src'),
    ("rg $'a\\tb' src", "rg a\tb src"),
    ("rg a\\ b src", "rg a b src"),
    ("rg a\\\n  src", "rg a src"),
    ("git log $(git merge-base a b | head -1)..HEAD", "git log $(git merge-base a b | head -1)..HEAD"),
    ("A=$(ls | wc -l) pytest", "pytest"),
    ("git commit -m \"$(cat <<'EOF'\nit's (odd\nEOF\n)\"", "git commit -m $(cat <<'EOF'\nit's (odd\nEOF\n)"),
    ("git show `git rev-parse HEAD`", "git show `git rev-parse HEAD`"),
    ("pytest # cd x; ls", "pytest"),
    ("# a comment\npytest", "pytest"),
    ("echo${IFS}x", "echo${IFS}x"),
    # compound commands
    ("for f in a b; do pytest $f; done", "pytest $f"),
    ("for f in a b\ndo\n  pytest $f\ndone", "pytest $f"),
    ("while true; do pytest; sleep 1; done", "pytest"),
    ("if [ -f x ]; then pytest; fi", "pytest"),
    ("if ! test -f x; then :; else pytest; fi", "pytest"),
    ("case $x in a|b) pytest;; esac", "pytest"),
    ("{ pytest; } 2>&1 | tail -3", "pytest"),
    ("f() { ls; }; pytest", "pytest"),
    ("! pytest", "pytest"),
]


@pytest.mark.parametrize(("line", "command"), ONE_COMMAND)
def test_the_command_of_a_line(line: str, command: str) -> None:
    assert programs(line) == [command]


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("git status; echo ---; git diff", ["git status", "echo ---", "git diff"]),
        ("git add . && git commit -m x && git push", ["git commit -m x", "git push"]),
        ("ls a & ls b", ["ls a", "ls b"]),
        ("ls a\n\nls b\n", ["ls a", "ls b"]),
        ("cd x; mkdir y; true", []),
        ("echo hi > file", []),
        ("make > log 2>&1", []),
        ("", []),
        ("case $x in a) ls;; b) pwd;; esac", ["ls", "pwd"]),
    ],
)
def test_chains_in_order(line: str, commands: list[str]) -> None:
    assert programs(line) == commands


def test_what_became_of_the_lines() -> None:
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
    ("line", "path"),
    [
        ("cat a.py", "a.py"),
        ("cat -n a.py", "a.py"),
        ("head -n 20 a.py", "a.py"),
        ("ls > names; cat names", "names"),
        ("find . -name x > names && head -5 names", "names"),
        ("head -20 a.py", "a.py"),
        ("tail -n +20 a.py", "a.py"),
        ("sed -n '1,20p' a.py", "a.py"),
        ("sed -n -e '1,20p' -e '30p' a.py", "a.py"),
        ("nl -ba a.py | sed -n '1,20p'", "a.py"),
        ("awk 'NR>=10 && NR<=20' a.py", "a.py"),
        ("bat --style plain a.py", "a.py"),
        ("cat < a.py > /dev/stdout; cat a.py", "a.py"),
        ("Get-Content a.py -TotalCount 5", "a.py"),
        ("git show HEAD:src/a.py", "HEAD:src/a.py"),
        ("ssh host cat /etc/hosts", "/etc/hosts"),
    ],
)
def test_reads(line: str, path: str) -> None:
    part = parse(line)[-1]
    assert part.read
    assert part.path == path


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
    words += ["--"] if rule.dashes else []
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


@settings(max_examples=examples(300), deadline=None)
@given(SHELL_LIKE, st.sampled_from(["", " "]))
def test_parsing_never_fails(words: list[str], glue: str) -> None:
    line = glue.join(words)
    parts = parse(line)
    assert all(part.argv for part in parts)
    assert parse(line) == parts


@settings(max_examples=examples(150), deadline=None)
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
