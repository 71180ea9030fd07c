"""Values in all forms of assignments and sentences: exactly the secret is replaced."""

import json

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.redactor import Redactor
from support import examples
from support import secret_contexts as contexts
from support.marked import check_value
from support.secret_contexts import APART, SLOTS, TOLD

REDACTOR = Redactor(LIBRARY_KEY)
PASSWORDS = ("db_password", "admin_pwd", "smtp_pass", "keystore_passphrase")
KEYS = ("api_key", "client_secret", "access_token", "encryption_key", "shared_secret", "webhook_secret")
CHOSEN = ("Sommer2031!", "Tr1cky-W0rd", "Zebra-Crossing42", "k1ngf1sher7")
SLOGANS = ("correct-horse-battery", "lantern_walnut_590", "Winter.Heron.34", "falcon-1987", "cobaltmaple77")
PLAIN_ONLY = ("box kv", "openapi example", "xml setting", "smart quotes")
"""Forms that are recognised in plain text, but not within JSON strings."""


@pytest.mark.parametrize("form", APART)
def test_value_beside_its_name(form: str) -> None:
    in_json = examples.some(KEYS)
    for at, name in enumerate(KEYS):
        value = contexts.values(at + 41)[("base62", "urlsafe", "short")[at % 3]]
        text = contexts.fill(APART[form], value, name)
        check_value(REDACTOR, text, value)
        if name in in_json and form not in PLAIN_ONLY:
            once = json.dumps({"stdout": text})
            check_value(REDACTOR, once, value)
            check_value(REDACTOR, json.dumps({"out": once}), value)


@pytest.mark.parametrize("form", APART)
def test_only_a_chosen_password_is_replaced(form: str) -> None:
    for at, value in enumerate(CHOSEN):
        check_value(REDACTOR, contexts.fill(APART[form], value, PASSWORDS[at]), value)


def test_words_with_joints_beside_names_of_secrets() -> None:
    for value in SLOGANS:
        for name in ("db_password", "shared_secret", "hub_key"):
            for form in ("{n}={v}\n", '"{n}": "{v}"', "{n} = '{v}'\n"):
                check_value(REDACTOR, form.format(n=name, v=value), value)
        check_value(REDACTOR, f"the password is {value}\n", value)


IN_PAGES = (
    "master_password = {q}{v}{q}\n",
    "Config{{Addr: {q}db:5432{q}, User: {q}app{q}, Password: {q}{v}{q}}}\n",
    "When I log in as {q}bob{q} with password {q}{v}{q}\n",
    "Environment={q}APP_PASSWORD={v}{q}\n",
)


@pytest.mark.parametrize("quote", ["&quot;", "&#39;"])
def test_quotes_that_a_page_writes_as_entities_stay(quote: str) -> None:
    for value in (*CHOSEN, "tango-heron-81"):
        for form in IN_PAGES:
            check_value(REDACTOR, form.format(q=quote, v=value), value)


PLACES = SLOTS | TOLD


@pytest.mark.parametrize("form", PLACES)
def test_password_in_its_slot(form: str) -> None:
    for value in (contexts.values(47)["base62"], *CHOSEN[:2], CHOSEN[3]):
        check_value(REDACTOR, contexts.fill(PLACES[form], value), value)
