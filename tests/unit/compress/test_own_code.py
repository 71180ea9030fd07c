"""Acknowledgements of edits that echo the code of their own call."""

from __future__ import annotations

import pytest

from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Policy, Redacted, ToolOutput
from support.results import shortened

CODE = [f"    total_{n} = compute({n})" for n in range(60)]
AROUND = [f"    before_{n}()" for n in range(4)]


def run(tool: str, arguments: dict[str, object], text: str, lossy: bool = True) -> str:
    return shortened(text, tool, arguments, lossy=lossy).text


def test_what_the_call_has_written_is_not_said_again() -> None:
    echo = "\n".join(["The file a.py has been edited:", *AROUND, *CODE, *AROUND, "1 error in a.py:7"])
    short = run("replace", {"path": "a.py", "new_string": "\n".join(CODE)}, echo)
    expected = [
        *("The file a.py has been edited:", *AROUND, *CODE[:6]),
        "[48 lines: as the call has written them]",
        *(*CODE[-6:], *AROUND, "1 error in a.py:7"),
    ]
    assert short.split("\n") == expected
    assert run("replace", {"new_string": "\n".join(CODE)}, short) == short


def test_of_a_whole_file_one_line_stays_at_each_end() -> None:
    echo = "\n".join(["The file a.py was created:", *CODE, "1 error in a.py:7"])
    short = run("Write", {"file_path": "a.py", "content": "\n".join(CODE)}, echo)
    assert short.split("\n") == [
        *("The file a.py was created:", CODE[0]),
        "[58 lines: as the call has written them]",
        *(CODE[-1], "1 error in a.py:7"),
    ]


def test_an_edited_file_is_told_by_its_name() -> None:
    path = "/srv/app/src/reader.py"
    for text, told in (
        (f"The file {path} has been updated.", "The file reader.py has been updated."),
        (f"Updated '{path}':\n1 {path} = 2", f"Updated 'reader.py':\n1 {path} = 2"),
    ):
        assert run("Edit", {"file_path": path}, text) == told
    windows = "C:\\app\\src\\reader.py"
    assert run("Write", {"file_path": windows}, f"Created: {windows}") == "Created: reader.py"


@pytest.mark.parametrize(
    "text",
    [
        "Error: /srv/app/src/reader.py was not found",
        "The file /srv/app/src/reader.py.bak has been updated.",
        "Copied /srv/app/src/reader.py over /srv/app/src/reader.py",
        "Updated:\n/srv/app/src/reader.py",
    ],
)
def test_other_paths_and_failures_stay_whole(text: str) -> None:
    assert run("Edit", {"file_path": "/srv/app/src/reader.py"}, text) == text


def test_numbers_in_front_make_no_difference() -> None:
    echo = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(CODE, 31))
    short = run("Edit", {"edits": [{"new_string": "\n".join(CODE)}]}, echo)
    assert "[48 lines: as the call has written them]" in short
    assert CODE[53] not in short
    assert all(line in short for line in (*CODE[:6], *CODE[54:]))


def test_other_code_and_other_tools_stay() -> None:
    echo = "\n".join(["edited:", *CODE])
    other = "\n".join(line.replace("total", "sum") for line in CODE)
    assert run("Edit", {"new_string": other}, echo) == echo
    assert run("Read", {"note": "\n".join(CODE)}, echo) == echo
    assert run("Edit", {"new_string": "\n".join(CODE)}, echo, lossy=False) == echo


def test_old_text_is_not_what_the_call_has_written() -> None:
    code = "\n".join(CODE)
    echo = f"not found, nothing was edited:\n{code}"
    for old in ({"old_string": code, "new_string": "x"}, {"edits": [{"old_str": code}]}, {"path": code}):
        assert run("Edit", old, echo) == echo
    patch = "*** Update File: a.py\n@@\n" + "\n".join(f"-{line}" for line in CODE)
    output = ToolOutput(text=echo, tool="apply_patch", arguments=patch)
    assert shorten(output, Policy(lossy=True), Redacted, lambda text: "").text == echo


def test_something_is_said_to_be_missing() -> None:
    echo = "\n".join(["edited:", *CODE])
    output = ToolOutput(text=echo, tool="Write", arguments={"content": "\n".join(CODE)})
    made = shorten(output, Policy(lossy=True), Redacted, lambda text: "")
    assert made.loss is Loss.LOSSY
    assert made.stages == ("own_code",)
