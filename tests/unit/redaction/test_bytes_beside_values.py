"""Every byte outside of a value stays: bars, brackets, users, file names and other neighbours."""

import json
import re

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from support import secret_contexts as contexts
from support.secret_contexts import APART, SLOTS

REDACTOR = Redactor(LIBRARY_KEY)
VALUES = ("Sommer2031!", "Zk2mVt41qX", contexts.values(53)["base62"])
BEHIND = ("|tee", "|user=bob", "|base64", "|2031-01-02", "|")
BY_CELLS = (
    *("vault kv table", "az table", "powershell table name value", "csv name,value", "csv heading"),
    *("tsv heading", "rst table", "sqlite column", "sqlite list", "box table", "copy from stdin"),
    *("php env html", "php env"),
)
"""Forms in which the end of the cell ends the value."""
BY_LINES = ("chpasswd fed", "cloud-init list")
LAST = {
    form: text
    for form, text in (APART | SLOTS).items()
    if re.search(r"\{v\}(?=[\n ])", text) and form not in (*BY_CELLS, *BY_LINES)
}
"""Forms in which only white space may follow a value without quotes."""


@pytest.mark.parametrize("form", LAST)
def test_bar_ends_a_value(form: str) -> None:
    """A bar in a command or a table ends a value."""
    for at, value in enumerate(VALUES):
        for behind in BEHIND[at % 2 :: 2]:
            text = contexts.fill(
                re.sub(r"(\{v\})(?=[\n ])", rf"\1{behind}", LAST[form]), value, "db_password"
            )
            redacted = REDACTOR.redact(text).text
            assert PATTERN.sub(value, redacted) == text


CERTIFICATE_LINE = "MIICKzCCAbGgAwIBAgIKe3G2gla4EnycqDAKBggqhkjOPQQDAzBaMQswCQYDVQQG"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n"])
def test_lines_of_certificates_stay(end: str) -> None:
    """A line of base64 may contain the form of a token."""
    for line in (CERTIFICATE_LINE, "A" + CERTIFICATE_LINE[1:]):
        text = end.join(
            ("-----BEGIN CERTIFICATE-----", line, line, "EwJVUzETMBEGA1U=", "-----END CERTIFICATE-----")
        )
        assert REDACTOR.redact(text).text == text


def test_numbers_of_json_get_quotes_in_records() -> None:
    for text in ('{"password": {"value": -10000000}}', '{"name": "db_password", "value": 48151623}'):
        redacted = REDACTOR.redact(text).text
        assert redacted != text
        assert json.loads(redacted)
        within = REDACTOR.redact(json.dumps({"out": text})).text
        assert json.loads(json.loads(within)["out"])
