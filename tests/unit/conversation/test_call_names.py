"""Names of calls in references distinguish calls, and show no secret and no part of a placeholder."""

from functools import partial
from hashlib import sha256
from typing import Any

import pytest

from penumbra.conversation.call_names import CallName, NamedCalls, ShownTexts, call_name
from penumbra.errors import RedactionError
from penumbra.redaction.caller_values import CallerValues
from penumbra.redaction.redactor import Scan
from support.messages_requests import LOG, answer, body, contents, go, use

SECRET = "hunter2hunter2hunter2"
PLACEHOLDER = "[REDACTED:test:abcdef]"


def clean(text: str) -> str:
    """Replace the whole secret by a placeholder."""
    return text.replace(SECRET, PLACEHOLDER)


@pytest.mark.parametrize("padding", range(30, 62))
def test_a_name_is_cut_outside_of_secrets(padding: int) -> None:
    for tool, arguments in (
        ("Bash", {"command": f"login {'x' * padding} {SECRET}  --now and more"}),
        ("Read", {"file_path": f"/home/{SECRET}/{'x' * padding}"}),
        ("search", {"query": f"{'x' * padding} {SECRET} {'y' * 60}"}),
    ):
        name = call_name(tool, arguments, clean)
        assert "hunter" not in name
        assert len(name) <= len(tool) + 61
        assert not set(name.replace(PLACEHOLDER, "")) & set("[]")
    short = {"command": f"login {SECRET}"}
    assert call_name("Bash", short, clean) == f"Bash login {PLACEHOLDER}"


def test_a_text_that_cannot_be_searched_is_not_shown() -> None:
    def fails(text: str) -> str:
        raise RedactionError("too long")

    assert call_name("Bash", {"command": "ls"}, fails) == "Bash"
    assert call_name("Read", {"file_path": "a.py"}, fails) == "Read"
    assert call_name("Read", {"file_path": "x" * 100_000}, clean) == "Read"


def test_every_reference_names_calls_without_secrets() -> None:
    lines = [sha256(b"%d" % number).hexdigest() for number in range(60)]
    for first, second in (
        (LOG, LOG),
        ("\n".join(lines), "\n".join([*lines[:30], "a new line", *lines[30:]])),
    ):
        messages = [
            use("toolu_1", command="log in with hunter2"),
            answer("toolu_1", first),
            use("toolu_2", command="make it"),
            answer("toolu_2", second),
        ]
        said = contents(go(body(*messages)))[1]
        assert PLACEHOLDER in said
        assert "hunter2" not in said


def test_remembered_names_hold_no_calls() -> None:
    asked = []

    def counting(text: str) -> str:
        asked.append(text)
        return clean(text)

    texts = ShownTexts()
    remembered = partial(texts.shown, b"")
    for _ in range(2):
        for tool, arguments in (
            ("Bash", {"command": f"login {SECRET} {'x' * 5_000}"}),
            ("Read", {"path": "ls"}),
        ):
            assert call_name(tool, arguments, counting, remembered=remembered) == call_name(
                tool, arguments, clean
            )
    assert len(asked) == 2
    assert SECRET not in str(vars(texts))
    # A command and a path with the same text are cut at different places.
    long = {"command": "/" + "a" * 50 + "/" + "b" * 50}
    same = {"file_path": long["command"]}
    for tool, arguments in (("Bash", long), ("Read", same)):
        assert call_name(tool, arguments, clean, remembered=remembered) == call_name(tool, arguments, clean)


def test_remembered_names_follow_the_known_values_of_the_caller() -> None:
    texts, values, mark = ShownTexts(), CallerValues(), "[REDACTED:password:abcdef]"

    def name(caller: bytes) -> str:
        remembered = partial(texts.shown, values.version(caller))
        redact = values.redacting(caller, lambda text, hint: Scan(text, {}))
        arguments = {"command": "login Tr1cky-W0rd"}
        return call_name("Bash", arguments, lambda text: redact(text, "").text, remembered=remembered)

    assert name(b"one") == name(b"two") == "Bash login Tr1cky-W0rd"
    values.learn(b"one", {mark: "Tr1cky-W0rd"})
    assert (name(b"one"), name(b"two")) == (f"Bash login {mark}", "Bash login Tr1cky-W0rd")


PATCH = ["*** Begin Patch", "*** Update File: src/a.py", "@@", "-a", "+b", "*** Add File: b.py", "+c"]


@pytest.mark.parametrize(
    ("tool", "arguments", "name"),
    [
        ("Read", {"file_path": "src/./a.ts"}, "Read src/a.ts"),
        ("Read", {"file_path": "C:\\Work\\.\\A.py"}, "Read C:/Work/A.py"),
        ("Bash", {"command": "npm  test\nls"}, "Bash npm test ls"),
        ("web_search", {"query": "how to"}, "web_search how to"),
        ("submit", None, "submit"),
        ("Bash", {"command": "cd /repo/app && sed -n '40,90p' src/a.ts"}, "Bash sed src/a.ts"),
        ("Bash", {"command": "cd /repo/app && make; cd x && ls"}, "Bash make; cd x && ls"),
        ("Bash", {"command": "python - <<'EOF'\nprint(1)\nEOF\n"}, "Bash python - <<'EOF' print(1)"),
        ("Bash", {"command": "python - <<'EOF'\nprint(1)\nPY"}, "Bash python - <<'EOF' print(1) PY"),
        ("Bash", {"command": "echo " + "x" * 100}, "Bash echo " + "x" * 35 + "…" + "x" * 19),
        ("apply_patch", "\n".join(PATCH), "apply_patch src/a.py and 1 more"),
        ("apply_patch", {"input": "\r\n".join(PATCH)}, "apply_patch src/a.py and 1 more"),
    ],
)
def test_a_call_is_named_by_arguments_that_the_model_sees(tool: str, arguments: Any, name: str) -> None:
    assert call_name(tool, arguments) == name


def test_commands_that_begin_alike_have_different_names() -> None:
    commands = [f"cd /repo; PYTHONPATH=src python -m pytest -q tests/unit/{name}.py" for name in ("a", "b")]
    assert len({call_name("Bash", {"command": command}) for command in commands}) == 2


def calls(count: int, *, first_lasts: bool = True) -> NamedCalls:
    named = NamedCalls()
    for number in range(count):
        named.note(b"%d" % number, "npm test", lasts=first_lasts or number > 0)
    return named


@pytest.mark.parametrize(
    ("count", "asked", "first_lasts", "name", "keys"),
    [
        (3, b"2", True, "npm test", {b"2"}),
        (3, b"0", True, "npm test (the 1st)", {b"0"}),
        (12, b"1", True, "npm test (the 2nd)", {b"0", b"1"}),
        (12, b"2", True, "npm test (the 3rd)", {b"0", b"2"}),
        (12, b"8", True, "npm test (the 9th)", {b"0", b"8"}),
        (12, b"9", True, None, set()),
        (3, b"1", False, None, set()),
    ],
    ids=["last", "first", "second", "third", "ninth", "too far", "first may go"],
)
def test_calls_before_the_last_are_counted_from_the_first(
    count: int, asked: bytes, first_lasts: bool, name: str | None, keys: set[bytes]
) -> None:
    expected = None if name is None else CallName(name, frozenset(keys))
    assert calls(count, first_lasts=first_lasts).name(asked) == expected


def test_a_duplicate_may_be_meant_as_well() -> None:
    named = calls(1)
    named.note(b"same", "npm test", b"0", lasts=False)
    assert named.name(b"0", is_whole=True) == CallName("npm test", frozenset({b"0"}))
    assert named.name(b"0") == CallName("npm test (the 1st)", frozenset({b"0"}))


@pytest.mark.parametrize(("last", "name"), [(29, "npm test"), (30, "npm test (the 1st)")])
def test_a_call_that_does_not_show_the_lines_is_not_meant(last: int, name: str) -> None:
    named = calls(1)
    named.note_lines("npm test", 1, 40)
    named.note(b"b", "npm test")
    named.note_lines("npm test", 30, 60)
    assert named.name(b"0", lines=(2, last)) == CallName(name, frozenset({b"0"}))
