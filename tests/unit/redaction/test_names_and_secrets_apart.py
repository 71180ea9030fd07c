"""Meanings of names, and secrets whose names are not directly before them."""

import random
import string
from collections.abc import Callable

import pytest

from penumbra import rules
from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.judgement import judge
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
def test_a_name_has_a_strength(strength: Strength, names: str) -> None:
    assert {name: NAMES.judge(name).strength for name in names.split()} == dict.fromkeys(
        names.split(), strength
    )


def test_a_password_is_named_in_any_language_and_case(redactor: Redactor) -> None:
    words = rules.load("secrets/words/names.yaml")["passwords"].split()
    forms = [form(word) for word in words for form in (str.lower, str.upper, str.capitalize)]
    for line in ("{}: Tr1cky-Word9\n", '"{}": "Tr1cky-Word9"', "db_{}=Tr1cky-Word9"):
        kept = [name for name in forms if "Tr1cky" in redactor.redact(line.format(name)).text]
        # In `PASS: name`, the verb reports a passed test.
        assert set(kept) <= {"PASS"}


REDACTOR = Redactor(LIBRARY_KEY)
SEEDS = 40
SMALL = string.ascii_lowercase + string.digits
MADE: dict[str, Callable[[Callable[[int, str], str]], str]] = {
    "word, version, hexadecimal": lambda run: f"acme_v1_{run(64, string.hexdigits[:16])}",
    "word, letter, small letters": lambda run: f"tok_a_{run(24, SMALL)}",
    "word, letter, hexadecimal": lambda run: f"svc_x_{run(32, string.hexdigits[:16])}",
    "words in capitals": lambda run: f"PROD_KEY_{run(20, SMALL.upper())}",
    "two words of programs": lambda run: f"service_account_{run(24, SMALL)}",
    "version, two parts": lambda run: f"abc_v3_{run(20, SMALL)}_{run(6, SMALL)}",
    "word, all letters and digits": lambda run: (
        f"data_server_{run(32, string.ascii_letters + string.digits)}"
    ),
}
SLOTS = (
    *("api_token: {v}\n", "auth_token={v}\n", "password: {v}\n", 'api_token: "{v}"\n'),
    *('{{"api_token": "{v}"}}\n', "API_TOKEN={v}\n", "client_secret = {v}\n"),
)


def made(form: str) -> list[str]:
    """Return random values of a form. Each random part contains digits."""
    values = []
    for seed in range(SEEDS):
        chance = random.Random(f"{form} {seed}")

        def run(length: int, alphabet: str, chance: random.Random = chance) -> str:
            while True:
                part = "".join(chance.choice(alphabet) for _ in range(length))
                if length < 12 or sum(map(str.isdigit, part)) > 2:
                    return part

        values.append(MADE[form](run))
    return values


@pytest.mark.parametrize("form", MADE)
def test_made_token_is_no_name(form: str) -> None:
    for value in made(form):
        assert not judge("program_name", value)
        for slot in SLOTS:
            assert value not in REDACTOR.redact(slot.format(v=value)).text, (slot, value)


def test_long_run_of_words_is_no_name() -> None:
    assert judge("program_name", "_".join(["service"] * 8))
    assert not judge("program_name", "_".join(["service"] * 9))


OPERATORS = ("||", "&&", "!=", "!==", ")}", "){", "=!", "A-Z0-9", "a-z0-9")
IN_SLOTS = (
    '{{"password":"{v}"}}',
    '{{"client_secret": "{v}"}}',
    "PGPASSWORD='{v}' psql\n",
    'db_password = "{v}"\n',
    "mysql --password='{v}'\n",
)


def test_signs_of_programs_within_a_secret() -> None:
    """A random value may have signs that programs have between their words."""
    letters = string.ascii_letters + string.digits
    for seed in range(SEEDS):
        chance = random.Random(seed)
        run = ["".join(chance.choice(letters) for _ in range(8)) for _ in range(2)]
        for sign in OPERATORS:
            value = f"q7{run[0]}{sign}{run[1]}4Z"
            for slot in IN_SLOTS:
                assert value not in REDACTOR.redact(slot.format(v=value)).text, (slot, value)


@pytest.mark.parametrize("sign", ["!=", "||", "&&"])
def test_signs_of_programs_in_addresses_and_commands(sign: str) -> None:
    for seed in range(SEEDS):
        chance = random.Random(seed)
        value = f"Xy{chance.randrange(10)}{sign}1" + "".join(
            chance.choice(string.ascii_letters) for _ in range(6)
        )
        for text in (
            f"postgres://app:{value}@db.example.net/x",
            f"curl -u bob:'{value}' https://example.com",
        ):
            assert value not in REDACTOR.redact(text).text, text


BARE_SLOTS = ("DB_PASSWORD={v}\n", "db_password={v}\n", "password: {v}\n", "mysql --password={v}\n")


@pytest.mark.parametrize("slot", BARE_SLOTS)
def test_bar_parts_no_password(slot: str) -> None:
    """A password with a bar in any place is replaced as a whole."""
    letters = string.ascii_letters + string.digits
    for seed in range(4 * SEEDS):
        chance = random.Random(seed)
        run = "".join(chance.choice(letters) for _ in range(14))
        at = chance.randrange(1, 13)
        value = f"{run[:at]}|{run[at:]}7"
        assert run[at:] not in REDACTOR.redact(slot.format(v=value)).text, value
    for value in ("correct|horsebattery9", "9|qwertyuiopasd7", "abc|Def9ghi", "pass|word12", "x9|y8|z7"):
        assert value.split("|")[-1] not in REDACTOR.redact(slot.format(v=value)).text


PASSWORD_SLOTS = (
    *("DB_PASSWORD={v}\n", "db_password={v}\n", "password: {v}\n", "pwd={v}\n", "pwd = '{v}'\n"),
    *('{{"password": "{v}"}}\n', "mysql --password={v}\n"),
)
PEOPLE_SAY = (
    *("Server", "Admin", "User", "Access", "Cloud", "Docker", "Master", "Mail", "Login", "Team", "Portal"),
    *("Backup", "Home", "Office", "Root", "Client", "Letter", "Account", "Network", "Database", "Gateway"),
)


@pytest.mark.parametrize("end", ["1", "7", "64", "256", "3!", "1?", "12"])
def test_words_of_programs_are_passwords_too(end: str) -> None:
    """Words of programs are a password in a place for passwords only."""
    for seed in range(SEEDS // 4):
        chance = random.Random(f"{end} {seed}")
        value = "".join(chance.sample(PEOPLE_SAY, 2)) + end
        for slot in PASSWORD_SLOTS:
            assert value not in REDACTOR.redact(slot.format(v=value)).text, (slot, value)
