"""Texts in test_marked_texts.yaml: exactly the marked values are replaced, and a text without a mark stays."""

from typing import Any

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.redactor import Redactor
from support.filled import load
from support.marked import check

REDACTOR = Redactor(LIBRARY_KEY)
DATA: dict[str, Any] = load(__file__)
LINES: dict[str, list[str]] = {
    kind: text.replace("¦", "").split("\n") for kind, text in DATA["lines"].items()
}


def test_only_marked_values_go() -> None:
    for texts in DATA["texts"].values():
        for marked in texts:
            check(REDACTOR, marked)


def test_only_marked_values_go_from_the_output_of_a_call() -> None:
    for call, outputs in DATA["printed"].items():
        for marked in outputs:
            check(REDACTOR, marked, call)


def test_each_line_stays() -> None:
    lines = [line for kind in LINES.values() for line in kind]
    assert [line for line in lines if REDACTOR.redact(line).text != line] == []


@pytest.mark.parametrize("before", ["", "    12→", "src/app.ts:12:", "+", "  12\t"])
def test_lines_stay_together(before: str) -> None:
    for lines in LINES.values():
        check(REDACTOR, "\n".join(before + line for line in lines))


@pytest.mark.parametrize("language", DATA["labels"])
def test_the_label_of_a_field_stays(language: str) -> None:
    for form in DATA["written"]:
        check(REDACTOR, form.replace("@", DATA["labels"][language]))
