"""Texts in test_marked_texts.yaml: exactly the marked values are replaced, and a text without a mark stays."""

from __future__ import annotations

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


@pytest.mark.parametrize("kind", DATA["texts"])
def test_only_marked_values_go(kind: str) -> None:
    for marked in DATA["texts"][kind]:
        check(REDACTOR, marked)


@pytest.mark.parametrize("call", DATA["printed"])
def test_only_marked_values_go_from_the_output_of_a_call(call: str) -> None:
    for marked in DATA["printed"][call]:
        check(REDACTOR, marked, call)


@pytest.mark.parametrize("kind", LINES)
def test_each_line_stays(kind: str) -> None:
    assert [line for line in LINES[kind] if REDACTOR.redact(line).text != line] == []


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("before", ["", "    12→", "src/app.ts:12:", "+", "  12\t"])
def test_lines_stay_together(kind: str, before: str) -> None:
    check(REDACTOR, "\n".join(before + line for line in LINES[kind]))


@pytest.mark.parametrize("language", DATA["labels"])
def test_the_label_of_a_field_stays(language: str) -> None:
    for form in DATA["written"]:
        check(REDACTOR, form.replace("@", DATA["labels"][language]))
