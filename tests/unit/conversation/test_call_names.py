"""Names of calls in references: no secret, no part of one, no part of a placeholder."""

from __future__ import annotations

from hashlib import sha256

import pytest

from penumbra.conversation.call_names import ShownTexts, call_name
from penumbra.errors import RedactionError
from support.messages_requests import LOG, answer, body, contents, go, use

SECRET = "hunter2hunter2hunter2"
PLACEHOLDER = "[REDACTED:test:abcdef]"


def clean(text: str) -> str:
    """It knows the whole secret only."""
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


def test_what_cannot_be_searched_is_not_named() -> None:
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


def test_what_is_shown_of_a_call_is_remembered_without_the_call() -> None:
    asked = []

    def counting(text: str) -> str:
        asked.append(text)
        return clean(text)

    remembered = ShownTexts()
    for _ in range(2):
        for tool, arguments in (
            ("Bash", {"command": f"login {SECRET} {'x' * 5_000}"}),
            ("Read", {"path": "ls"}),
        ):
            assert call_name(tool, arguments, counting, remembered=remembered) == call_name(
                tool, arguments, clean
            )
    assert len(asked) == 2
    assert SECRET not in str(vars(remembered))
    # A beginning is no end.
    long = {"command": "/" + "a" * 50 + "/" + "b" * 50}
    same = {"file_path": long["command"]}
    for tool, arguments in (("Bash", long), ("Read", same)):
        assert call_name(tool, arguments, clean, remembered=remembered) == call_name(tool, arguments, clean)


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_patch_names_its_files_whatever_ends_its_lines(end: str) -> None:
    lines = ["*** Begin Patch", "*** Update File: src/a.py", "@@", "-a", "+b", "*** Add File: b.py", "+c"]
    assert call_name("apply_patch", {"input": end.join(lines)}) == "apply_patch src/a.py and 1 more"


def test_a_name_shows_a_path_in_one_spelling() -> None:
    assert call_name("Read", {"file_path": "C:\\Work\\.\\A.py"}) == "Read C:/Work/A.py"
