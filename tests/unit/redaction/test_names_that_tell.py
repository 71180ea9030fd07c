"""Meanings of names: kinds of keys, slips, hints; and values that no program contains."""

from __future__ import annotations

import pytest

from penumbra import rules
from penumbra.redaction.names import Names, Strength
from penumbra.redaction.redactor import Redactor

NAMES = Names()
RANDOM = "q8Zk2mVt41Lx9RwPz0bT6cKd7HsF3gYn"


@pytest.mark.parametrize(
    ("strength", "names"),
    [
        (Strength.PASSWORD, "pasword passwrod passworsd DbPassWord PASS_WORD remotepass deststorepass"),
        (
            Strength.STRONG,
            "secrete hub_key feedKey x-functions-key encKey api_key_token password_salt token_salt",
        ),
        (Strength.WEAK, "data_key any_key my_key salt pepper kerberos_authentication"),
        (Strength.HINT, "secret_wrapped key_multi token_holder"),
        (
            Strength.NONE,
            "passage secretary key_token cache_key token_id secret_name password_hash_sha256 DkimTokens",
        ),
    ],
)
def test_how_much_a_name_tells(strength: Strength, names: str) -> None:
    assert {name: NAMES.judge(name).strength for name in names.split()} == dict.fromkeys(
        names.split(), strength
    )


def test_a_hint_takes_a_value_that_can_be_nothing_else(redactor: Redactor) -> None:
    assert RANDOM not in redactor.redact(f'secret_wrapped = "{RANDOM}"').text
    for value in (
        "projects/shop-2/secrets/db/versions/3",
        "createSessionForUserV2",
        RANDOM[:16],
        "9f86d081884c7d659a2f",
    ):
        text = f'secret_wrapped = "{value}"'
        assert redactor.redact(text).text == text


def test_the_word_in_front_of_a_key_tells(redactor: Redactor) -> None:
    key = "9d849bf9273a4a46a0fc"
    assert key not in redactor.redact(f"tracking API key: {key}").text
    for text in (f"the cache key: {key}", "using RSA key 4AEE18F83AFDEB23", "press any key: continue12"):
        assert redactor.redact(text).text == text


@pytest.mark.parametrize("text", ["passwd = {}", "secret: {},", "api_key := {}'", "password => {}"])
def test_crossed_brackets_are_no_program(redactor: Redactor, text: str) -> None:
    value = "k{{e}y)o${f]the(gate[opens>-_$#wide}}"
    assert redactor.redact(text.format(value)).text.count("REDACTED") == 1
    assert "gate" not in redactor.redact(text.format(value)).text


def test_a_password_is_named_in_any_language_and_case(redactor: Redactor) -> None:
    words = rules.load("secrets/words/names.yaml")["passwords"].split()
    forms = [form(word) for word in words for form in (str.lower, str.upper, str.capitalize)]
    for line in ("{}: Tr1cky-Word9\n", '"{}": "Tr1cky-Word9"', "db_{}=Tr1cky-Word9"):
        kept = [name for name in forms if "Tr1cky" in redactor.redact(line.format(name)).text]
        # `PASS: name` is what tests say.
        assert set(kept) <= {"PASS"}
