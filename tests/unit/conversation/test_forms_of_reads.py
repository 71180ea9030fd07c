"""A read of a file is shortened in the form of each agent: in envelopes, with line numbers of any sign, and by
tools with unknown names."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from penumbra.compress.stages.line_numbers import LEGEND
from support.messages_requests import References, answer, body, contents, go, use

CODE = [
    "" if n % 9 == 0 else f"def step_{n * 7919 % 1009}():" if n % 9 == 1 else f'    call({n * 31 % 977}, "x")'
    for n in range(1, 120)
]
PATH = "/r/src/steps.py"


def numbered(sign: str, width: int = 0, letter: str = "") -> Callable[[Sequence[str]], str]:
    return lambda lines: "\n".join(f"{letter}{n:>{width}}{sign}{line}" for n, line in enumerate(lines, 1))


def plain(lines: Sequence[str]) -> str:
    return "\n".join(lines)


Form = tuple[str, Mapping[str, Any], Callable[[Sequence[str]], str]]
NUMBERED: dict[str, Form] = {
    "arrow": ("Read", {"file_path": PATH}, numbered("→", 6)),
    "tags": ("read", {"filePath": PATH}, lambda lines: f"<file>\n{numbered('| ', 5)(lines)}\n</file>"),
    "bar": ("view", {"file_path": PATH}, lambda lines: f"<file>\n{numbered('|', 6)(lines)}\n</file>"),
    "bar between blanks": ("read_file", {"path": PATH}, lambda lines: f"[{PATH}]\n{numbered(' | ')(lines)}"),
    "colon": ("open", {"path": PATH}, lambda lines: f"[File: {PATH}]\n{numbered(':')(lines)}\n(3 lines below)"),
    "fence": ("peek", {"at": PATH}, lambda lines: f"### {PATH}\n```\n{numbered(': ')(lines)}\n```"),
    "dot": ("view", {"path": PATH}, numbered(". ")),
    "letter": ("read_file", {"file_path": PATH}, numbered(": ", letter="L")),
    "member": ("get", {"uri": f"file://{PATH}"}, lambda lines: json.dumps({"text": numbered("\t", 6)(lines)})),
    "blocks": ("mcp__a__b", {"resource": PATH}, lambda lines: json.dumps([{"type": "text", "text": numbered(": ")(lines)}])),
    "command": ("execute", {"command": f"cat -n {PATH}"}, lambda lines: json.dumps({"stdout": numbered("\t", 6)(lines), "code": 0}, indent=1)),
}  # fmt: skip
UNNUMBERED: dict[str, Form] = {
    "alone": ("read_file", {"absolute_path": PATH}, plain),
    "fence": ("peek", {"at": PATH}, lambda lines: f"{PATH}:\n```py\n{plain(lines)}\n```"),
    "unknown": ("peek", {"at": PATH}, plain),
    "member": ("read_file", {"path": PATH}, lambda lines: json.dumps({"path": PATH, "body": plain(lines)})),
    "command": ("shell", {"command": ["cat", PATH]}, lambda lines: json.dumps({"output": plain(lines), "metadata": {"exit_code": 0, "duration_seconds": 0.1}})),
}  # fmt: skip


def forwarded(*texts: str, form: Form) -> list[str]:
    """Return the results of one tool as they are forwarded."""
    tool, arguments, _ = form
    messages = []
    for number, text in enumerate(texts):
        messages += [use(f"toolu_{number}", tool, **arguments), answer(f"toolu_{number}", text)]
    return contents(go(body(*messages), references=References()))


@pytest.mark.parametrize("form", [*NUMBERED.values(), *UNNUMBERED.values()], ids=[*NUMBERED, *UNNUMBERED])
def test_a_read_keeps_its_lines_and_a_repeated_read_refers_to_them(form: Form) -> None:
    came = form[2](CODE)
    first, again = forwarded(came, came + "\n", form=form)
    assert "[Shortened" not in first
    assert (LEGEND in first) is (form in NUMBERED.values())
    shown = first.split("\n")
    for line in filter(str.strip, CODE):
        assert any(one.endswith(line) for one in shown)
    assert len(again) < len(came) / 4


@pytest.mark.parametrize("form", NUMBERED.values(), ids=NUMBERED)
def test_new_lines_below_a_reference_have_their_numbers(form: Form) -> None:
    changed = [*CODE[:60], "def inserted():", "    return 12345", *CODE[60:]]
    _, again = forwarded(form[2](CODE), form[2](changed), form=form)
    number = 0
    for line in again.split("\n"):
        if named := re.match(r"L?([0-9]+)(?:→|\t|: |\| )", line):
            number = int(named[1])
        else:
            # Nobody can count across the reference that hides lines.
            number = number + 1 if number and not line.startswith("[") else 0
        if line.endswith("def inserted():"):
            break
    assert number == 61


@pytest.mark.parametrize("form", NUMBERED.values(), ids=NUMBERED)
def test_the_function_around_a_change_stays(form: Form) -> None:
    changed = [*CODE[:58], "    changed()", *CODE[59:]]
    _, again = forwarded(form[2](CODE), form[2](changed), form=form)
    assert ": same as in " in again
    for line in changed[54:62]:
        assert any(one.endswith(line) for one in again.split("\n"))
