"""Every byte outside of a value stays: bars, brackets, users, file names and other neighbours."""

from __future__ import annotations

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


def _only_values_go(text: str, values: tuple[str, ...]) -> None:
    redacted = REDACTOR.redact(text).text
    back = iter(values)
    assert PATTERN.sub(lambda _: next(back), redacted) == text
    assert next(back, None) is None


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


@pytest.mark.parametrize("value", ["Zk2m|Vt41qX!9", "17|Zk82hVtLqPxw73aaQ12bbz9", "aB3$x|Yq7&Lm2"])
def test_bar_within_a_value_is_its_own(value: str) -> None:
    for form in ("DB_PASSWORD={v}\n", "password: {v}\n", 'password = "{v}"\n', "api_token='{v}'\n"):
        if value[0] != "1" or "token" in form:
            _only_values_go(form.format(v=value), (value,))


BESIDE = {
    "source of a password": "virt-customize -a x.img --root-password password:{v}\n",
    "locked source": "virt-customize -a x.img --root-password locked:password:{v}\n",
    "source of openssl": "openssl rsa -passin pass:{v} -in k.pem\n",
    "user and slash": "NEO4J_AUTH=neo4j/{v}\n",
    "user and slash of a container": "docker run -e NEO4J_AUTH=neo4j/{v} neo4j\n",
    "user and slash in a block": "environment:\n  NEO4J_AUTH: neo4j/{v}\n",
    "file that tells": "pgpass:3:db.example.net:5432:shop:app:{v}\n",
    "hidden file": ".pgpass:3:db.example.net:5432:shop:app:{v}\n",
    "path of a file": "home/bob/.pgpass:12:localhost:5432:*:app:{v}\n",
    "file of settings": "conf/db_password.env:12:DB_PASSWORD={v}\n",
    "name within a value": "pwd=(pwd=({v}\n",
    "closed brackets": "pwd=(pwd=({v}))\n",
    "angle brackets": "password: <{v}>\n",
    "angle brackets in quotes": 'password = "<{v}>"\n',
    "angle brackets of a variable": "DB_PASSWORD=<{v}>\n",
}


@pytest.mark.parametrize("form", BESIDE)
def test_nothing_beside_the_value_goes(form: str) -> None:
    for value in ("Zk82hVtLqPxw73", "q8Zk2mVt41Lx9RwPz"):
        _only_values_go(BESIDE[form].format(v=value), (value,))


def test_hash_within_a_token() -> None:
    for value in ("Zk82hVtLq#Pxw73aaQ12bbz", "abc#def123ZkqX9v82hVtLq"):
        _only_values_go(f"Authorization: Bearer {value}\n", (value,))
    _only_values_go("Authorization: Bearer Zk82hVtLqPxw73aaQ12bbz#note\n", ("Zk82hVtLqPxw73aaQ12bbz",))


@pytest.mark.parametrize(
    "text",
    [
        *("password: <your-password>\n", "password: <password>\n", "DB_PASSWORD=<DB_PASSWORD_2>\n"),
        *("api_key: <base64-encoded-32-bytes>\n", "api_key=<API_KEY_V2>\n"),
        *('password = "<Uint8Array>"\n', "pwd=(pwd=(pwd=(\n"),
    ],
)
def test_what_is_to_be_filled_in_stays(text: str) -> None:
    assert REDACTOR.redact(text).text == text


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
