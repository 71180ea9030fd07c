"""Secrets without a name right before them, and texts that look like them."""

from __future__ import annotations

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from support import secret_contexts as forms

REDACTOR = Redactor(LIBRARY_KEY)
VALUES = ("Harbor77!sun", "Zk2mVt41qX", "Gr33nTea!x")


def _only_the_value_goes(text: str, value: str) -> None:
    redacted = REDACTOR.redact(text).text
    assert value not in redacted
    assert PATTERN.sub(lambda _: value, redacted) == text


@pytest.mark.parametrize("form", forms.WITHOUT_NAMES)
def test_lists_alternating_lines_and_sentences(form: str) -> None:
    for value in VALUES:
        _only_the_value_goes(forms.WITHOUT_NAMES[form].replace("{v}", value), value)


@pytest.mark.parametrize("phrase", forms.PHRASES)
def test_phrases_between_quotes(phrase: str) -> None:
    for form in (
        'password: "{v}"\n',
        "DB_PASSWORD='{v}'\n",
        '{{"db_pass": "{v}"}}',
        'login --password "{v}"\n',
    ):
        _only_the_value_goes(form.format(v=phrase), phrase)


@pytest.mark.parametrize("form", forms.CELLS)
def test_cells_without_a_heading(form: str) -> None:
    for value in ("Harbor77!sun", "Gr33nTea!x") if form != "glued" else ("q8Zk2mVt41Lx",):
        text = forms.CELLS[form].replace("{v}", value)
        _only_the_value_goes(text, text[text.index("Zk82") :] if form == "glued" else value)


@pytest.mark.parametrize("text", [*forms.LOOK_ALIKE, *(f'password: "{said}"\n' for said in forms.NO_PHRASES)])
def test_what_looks_like_them_stays(text: str) -> None:
    assert REDACTOR.redact(text).text == text


def test_what_jenkins_keeps() -> None:
    kept = "AQAAABAAAAAQZk82hVtLqPxw73aaQ12bbz9Zk82hVtLqPxw73aaQ12b="
    for form in ("<password>{{{v}}}</password>", "<hudson.util.Secret>{{{v}}}</hudson.util.Secret>"):
        _only_the_value_goes(form.format(v=kept), kept)
    for text in ("<password>{password}</password>", "import hudson.util.Secret;", "<hudson.util.Secret/>"):
        assert REDACTOR.redact(text).text == text


def test_one_line_of_two_texts_is_no_list_of_users() -> None:
    for line in ('"x1" "y2!abc"', '"Build42" "Release7Final"', '"alice" "Harbor77!sun"'):
        for text in (f"{line}\n", f'echo {line}\n"a" "b"\n', f"before\n{line}\nafter\n"):
            assert REDACTOR.redact(text).text == text
