"""Secrets that have no name directly before them, and texts of such forms without a secret."""

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.redactor import Redactor
from support import secret_contexts as forms
from support.marked import check_value
from support.secret_contexts import PLACED, PLACES

CALLED_FOR = {
    "cat /etc/pgbouncer/userlist.txt": '"app" "⟦⟧"\n',
    "/etc/jetty/realm.properties": "admin: ⟦⟧,admin\n# those who read\nbob: other-W0rd,user\n",
    "cat /etc/ppp/pap-secrets": "bob * ⟦⟧\n",
    "sudo cat /etc/postfix/sasl_passwd": "mail.example.net bob@example.net:⟦⟧\n",
    "cat ~/.passwd-s3fs": "bob:⟦⟧\n",
}
"""Texts by the call that printed them. Only the call shows that the text has a secret."""


@pytest.mark.parametrize("place", [place for places in PLACES.values() for place in places])
@pytest.mark.parametrize("value", PLACED)
def test_value_goes(redactor: Redactor, place: str, value: str) -> None:
    redacted = redactor.redact(place.replace("⟦⟧", PLACED[value])).text
    assert PLACED[value] not in redacted
    assert redactor.redact(redacted).text == redacted


@pytest.mark.parametrize("call", CALLED_FOR)
@pytest.mark.parametrize("value", PLACED)
def test_value_goes_where_the_call_names_the_file(redactor: Redactor, call: str, value: str) -> None:
    text = CALLED_FOR[call].replace("⟦⟧", PLACED[value])
    assert PLACED[value] in redactor.redact(text, "cat notes.txt").text
    assert PLACED[value] not in redactor.redact(text, call).text


ROWS = {
    "userlist.txt": '"bob{}" "{}"\n',
    "pap-secrets": "bob{} * {}\n",
    "jmxremote.password": "role{} {}\n",
    "rsyncd.secrets": "bob{}:{}\n",
    "realm.properties": "bob{}: {},user\n",
}


@pytest.mark.parametrize("file", ROWS)
@pytest.mark.parametrize("front", ["Exit code: 0\nWall time: 0.1 seconds\nOutput:\n", '"" ""\n', "\n\n", ""])
def test_lines_that_are_no_users_do_not_end_a_file_of_them(redactor: Redactor, file: str, front: str) -> None:
    values = [f"Tr1cky-W0rd{number}" for number in range(250)]
    rows = "".join(ROWS[file].format(number, value) for number, value in enumerate(values))
    shown = redactor.redact(f"{front}{rows}", f"cat /etc/app/{file}").text
    assert "Tr1cky" not in shown


def test_long_values_whose_beginning_is_no_secret(redactor: Redactor) -> None:
    zeros, path = ("A" * 300 + PLACED["random"], "/usr/lib" * 40 + PLACED["random"] * 4)
    assert zeros not in redactor.redact(f"kind: Secret\nstringData:\n  blob: {zeros}\n").text
    assert path not in redactor.redact(f"{path}\n", "cat ~/.vault-token").text


REDACTOR = Redactor(LIBRARY_KEY)
VALUES = ("Harbor77!sun", "Zk2mVt41qX", "Gr33nTea!x")


@pytest.mark.parametrize("form", forms.WITHOUT_NAMES)
def test_lists_alternating_lines_and_sentences(form: str) -> None:
    for value in VALUES:
        check_value(REDACTOR, forms.WITHOUT_NAMES[form].replace("{v}", value), value)


@pytest.mark.parametrize("phrase", forms.PHRASES)
def test_phrases_between_quotes(phrase: str) -> None:
    for form in (
        'password: "{v}"\n',
        "DB_PASSWORD='{v}'\n",
        '{{"db_pass": "{v}"}}',
        'login --password "{v}"\n',
    ):
        check_value(REDACTOR, form.format(v=phrase), phrase)


@pytest.mark.parametrize("form", forms.CELLS)
def test_cells_without_a_heading(form: str) -> None:
    for value in ("Harbor77!sun", "Gr33nTea!x") if form != "glued" else ("q8Zk2mVt41Lx",):
        text = forms.CELLS[form].replace("{v}", value)
        check_value(REDACTOR, text, text[text.index("Zk82") :] if form == "glued" else value)


@pytest.mark.parametrize("text", [*forms.LOOK_ALIKE, *(f'password: "{said}"\n' for said in forms.NO_PHRASES)])
def test_texts_that_look_like_lists_and_sentences_stay(text: str) -> None:
    assert REDACTOR.redact(text).text == text
