"""Values in all forms of assignments and sentences: exactly the secret is replaced."""

from __future__ import annotations

import json
import re

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from support import examples
from support import secret_contexts as contexts
from support.secret_contexts import APART, SLOTS, TOLD

REDACTOR = Redactor(LIBRARY_KEY)
PASSWORDS = ("db_password", "admin_pwd", "smtp_pass", "keystore_passphrase")
KEYS = ("api_key", "client_secret", "access_token", "encryption_key", "shared_secret", "webhook_secret")
CHOSEN = ("Sommer2031!", "Tr1cky-W0rd", "Zebra-Crossing42", "k1ngf1sher7")
SLOGANS = ("correct-horse-battery", "lantern_walnut_590", "Winter.Heron.34", "falcon-1987", "cobaltmaple77")
PLAIN_ONLY = ("box kv", "openapi example", "xml setting", "smart quotes")
"""Forms that are recognised in plain text, but not within JSON strings."""


def _only_the_value_goes(text: str, value: str) -> None:
    """Check that the text with the value put back is unchanged."""
    redacted = REDACTOR.redact(text).text
    assert value not in redacted
    assert PATTERN.sub(lambda _: value, redacted) == text


@pytest.mark.parametrize("form", APART)
def test_value_beside_its_name(form: str) -> None:
    in_json = examples.some(KEYS)
    for at, name in enumerate(KEYS):
        value = contexts.values(at + 41)[("base62", "urlsafe", "short")[at % 3]]
        text = contexts.fill(APART[form], value, name)
        _only_the_value_goes(text, value)
        if name in in_json and form not in PLAIN_ONLY:
            once = json.dumps({"stdout": text})
            _only_the_value_goes(once, value)
            _only_the_value_goes(json.dumps({"out": once}), value)


@pytest.mark.parametrize("form", APART)
def test_password_that_somebody_chose(form: str) -> None:
    for at, value in enumerate(CHOSEN):
        _only_the_value_goes(contexts.fill(APART[form], value, PASSWORDS[at]), value)


def test_words_with_joints_beside_names_of_secrets() -> None:
    for value in SLOGANS:
        for name in ("db_password", "shared_secret", "hub_key"):
            for form in ("{n}={v}\n", '"{n}": "{v}"', "{n} = '{v}'\n"):
                _only_the_value_goes(form.format(n=name, v=value), value)
        _only_the_value_goes(f"the password is {value}\n", value)


IN_SENTENCES = {
    "variable": "I set DB_PASSWORD to {v} in the env.",
    "now": "the staging db password is now {v}",
    "aside": "ssh root@web1 (password: {v})",
    "in parentheses": "The password (`{v}`) is hardcoded in config.py",
    "pair": "DB creds -> bob:{v}",
    "from": 'Changed the admin password from "{v}" to something else.',
    "go-spew": ' Password: (string) (len=16) "{v}",',
    "last of a string": '{"stdout":"user,db_password\\nbob,{v}","exit_code":0}',
    "optional member": '  dbPassword?: string = "{v}";',
    "fallback behind a pipe": "{{ env.DB_PASSWORD | default('{v}') }}",
}


@pytest.mark.parametrize("form", IN_SENTENCES)
def test_told_in_words(form: str) -> None:
    for value in ("Sommer2031!", "Zebra-Crossing42", "Winter.Heron.34"):
        _only_the_value_goes(IN_SENTENCES[form].replace("{v}", value), value)


def test_sign_of_equality_in_a_random_value() -> None:
    for value in ("GQIBep=+w6W3emSBYMLU*U", "Ctb=6ggfCv43fbmf", "VXI=Un6E8StFA3RPVSj1"):
        _only_the_value_goes(f'"signing_key": "{value}"', value)
        _only_the_value_goes(f"auth_token = {value}\n", value)


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
            _only_the_value_goes(form.format(q=quote, v=value), value)


KEPT_AROUND = {
    "sign in a parameter": "jdbc:postgresql://pg:5432/app?user=app&password=M0untain#Bike&sslmode=require",
    "name of a user that tells": "index-url = https://__token__:M0untain-Bike77@pypi.example.net/simple\n",
    "file and line": "conf/app.txt:12:shop:M0untain#Bike@tcp(10.0.0.5:3306)/shop\n",
    "file, line and fields": "conf/app.txt:12:db1:5432:shop:app:M0untain#Bike\n",
    "bracket of a map": "db: {host: db1, user: app, password: M0untain#Bike}\n",
    "dollar at the end": 'ConvertTo-SecureString "M0untain$" -AsPlainText\n',
}


@pytest.mark.parametrize("form", KEPT_AROUND)
def test_nothing_around_the_value_goes(form: str) -> None:
    text = KEPT_AROUND[form]
    value = next(value for value in ("M0untain#Bike", "M0untain-Bike77", "M0untain$") if value in text)
    _only_the_value_goes(text, value)


def test_words_and_figures_with_spaces_between_them() -> None:
    for form in (
        'password: "{v}"\n',
        "db_password = '{v}'\n",
        '{{"password": "{v}"}}',
        'DB_PASSWORD="{v}"\n',
    ):
        _only_the_value_goes(form.format(v="Velvet Otter 42!"), "Velvet Otter 42!")
        for said in (
            "Must be 8 Characters or more!",
            "Enter the 2nd Password!",
            "8 characters",
            "Go to step 2",
        ):
            text = form.format(v=said)
            assert REDACTOR.redact(text).text == text


def test_letters_as_they_fell() -> None:
    for value in ("ErQHQwjyaxErPZ", "OABWUgexSDxcMQ"):
        for form in ("userPassword: {v}\n", "password: `{v}`\n", "user,password,role\nbob,{v},admin\n"):
            _only_the_value_goes(form.format(v=value), value)
    for text in (
        "password: MySQLConnectionPool\n",
        "pwd: LoginPageTextBox\n",
        "password = getUserLoginForm\n",
    ):
        assert REDACTOR.redact(text).text == text


def test_key_that_things_are_found_by() -> None:
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
    for text in (f'{{"key": "{digest}", "name": "Button"}}', json.dumps({"out": f'{{"key": "{digest}"}}'})):
        assert REDACTOR.redact(text).text == text
    _only_the_value_goes(f'{{"api_key": "{digest}"}}', digest)


def test_here_within_a_password() -> None:
    _only_the_value_goes("password = Winter_Is_Here9\n", "Winter_Is_Here9")
    for text in ("password = put-it-here\n", "api_key: KEY_GOES_HERE\n", "password=<secret_here>\n"):
        assert REDACTOR.redact(text).text == text


PLACES = SLOTS | TOLD


@pytest.mark.parametrize("form", PLACES)
def test_password_in_its_slot(form: str) -> None:
    for value in (contexts.values(47)["base62"], *CHOSEN[:2], CHOSEN[3]):
        _only_the_value_goes(contexts.fill(PLACES[form], value), value)


def test_block_below_the_key_of_a_kubernetes_secret() -> None:
    value = "eyJhdXRocyI6eyJyLmV4YW1wbGUubmV0Ijp7fX19"
    _only_the_value_goes(f"kind: Secret\ndata:\n  .dockercfg: |\n    {value}\ntype: x\n", value)


MARKED = re.compile("⟦([^⟧]*)⟧")
TEXTS = {
    "words joined as in programs": (
        *('db_password = "⟦CopperFalconMeadow⟧"\n', "password: ⟦CopperFalconMeadow⟧\n"),
        "password = ⟦copper_falcon_meadow⟧\nuser = bob\n",
        *('password: "AccountPasswordField"\n', "password = read_user_input\n"),
        'password: "LoginScreenTitle"\n',
    ),
    "words beside a name in a line of their own": (
        "    auth_pass ⟦saffron-otter-lamp⟧\n",
        "PASS event-queue-api\nPASS event-store\n",
        "PASS app/(shop)/[id]/page.test.tsx\n PASS  src/routes/users.$id.test.ts (5 s)\nPASS src/a#3.spec.js\n",
        "PASS tests/test_1.py::case 0 (3 ms)\n",
        "PASS ⟦saffron/0tter#lamp⟧\n",
        "the password is ⟦saffron-otter-lamp⟧\n",
        "the password is workspace-task-queue\n",
    ),
    "the end of a string of JSON ends a line": (
        '{"stdout": "user = bob\\npassword = ⟦YLEDizVxjNDLeftD⟧", "exit_code": 0}',
        '["password = ⟦YLEDizVxjNDLeftD⟧"]',
    ),
    "a part of a form": ('name="password"\r\n\r\n⟦orbit_glacier_tulip⟧\r\n--x--\r\n',),
    "what grep puts in front": (
        "a.txt:9:Password for the elastic user:\na.txt:10:  see the manual\n",
        'a.txt:9:  "password": "⟦Tr1cky-W0rd⟧",\na.txt:10:  "port": 1\n',
    ),
    "shortened names": (
        "deployTok=⟦q8Zk2mVt41Lx9RwPz0bT6c⟧\n",
        "API_TKN: ⟦q8Zk2mVt41Lx9RwPz0bT6c⟧\n",
        "ACME_SK=⟦q8Zk2mVt41Lx9RwPz0bT6c⟧\n",
        "WALLET_SEED=⟦q8Zk2mVt41Lx9RwPz0bT6c⟧\n",
        "vapidPrivate: ⟦q8Zk2mVt41Lx9RwPz0bT6c⟧\n",
        "key_material=⟦q8Zk2mVt41Lx9RwPz0bT6c⟧\n",
        "random_seed = 42\nsk: ORDER#2031\nprivate = true\ntok = next_token\n",
    ),
    "after a colon of a sentence": ("Password is: ⟦q8Zk2mVt41⟧\n", "Password is: required\n"),
    "filled in by half": ("DB_PASSWORD=⟦changeme-prod⟧\n", "DB_PASSWORD=changeme-please\n"),
    "heads in other languages": ("Benutzer;Kennwort;Abteilung\nbob;⟦Sommer2031!⟧;IT\n",),
    "placeholders and patterns": (
        "mongodb://&lt;username&gt;:&lt;password&gt;@cluster0.example.net/\n",
        "<pre>PASSWORD=&quot;&quot;\nTOKEN=&#x27;&#x27;\n",
        "secret: /^sk_(live|test)_[0-9a-zA-Z]{24,}$/\n",
        "password    [success=1 default=ignore]  pam_unix.so use_authtok\n",
    ),
    "tokens in parts": (
        "using ⟦patZk82hVtLqPxw7A.9d849bf9273a4a46a0fc164543fa77bc9d849bf9273a4a46a0fc164543fa77bc⟧ now\n",
        "using ⟦xGtd9S.Slodpi:Lb8HRXNEbXgNtStGSVHOngEk6O6HemiDafeX8Zk2mV4⟧ now\n",
    ),
    "quoted for an address": (
        "body=DB_HOST%3Ddb1%0ADB_PASSWORD%3D⟦Tr1cky-W0rd⟧%0APORT%3D1",
        "body=%7B%22user%22%3A%22bob%22%2C%22password%22%3A%22⟦hunter2x%21⟧%22%7D",
        "/list?filter={%22user%22:%22bob%22,%22password%22:%22⟦hunter2x%21⟧%22}&page=1",
        "log=db+password%3A+⟦Tr1cky-W0rd⟧%0Aok",
        "u=postgres%3A%2F%2Fbob%3A⟦Tr1cky-W0rd⟧%40db.example.net%2Fshop",
        "body=proc%20login%28user%2C%20password%3A%20string%29%3A%20Session%20%3D",
        "https://example.net/?next=https%3A%2F%2Fexample.net%2Flogin%3Fa%3D1&b=2%0Ac%20d",
    ),
    "options with points in their names": (
        "arangosh --server.username root --server.password ⟦Tr1cky-W0rd⟧\n",
    ),
    "alone on the next line": (
        "password:\n  ⟦Zk82hVtLqPxw7A⟧\n",
        '{"output":"a: 1\\npassword:\\n  ⟦Zk82hVtLqPxw7A⟧\\nb: 2"}',
        "password:\n  type: string\nsecret:\n  my-secret-name\ntoken:\n  src/app/config.py\n",
    ),
    "who says a line": (
        ">> db_password: ⟦Tr1cky-W0rd⟧\n>> port: 1\n",
        "[pod/api-7d9f/api] user,password\n[pod/api-7d9f/api] bob,⟦Tr1cky-W0rd⟧\n",
        (
            "^1c2d3e4 (Bob Lee 2031-03-01 10:11:12 +0100   1) user,password\n"
            "9f3c1b2a (Bob Lee 2031-03-02 10:11:12 +0100   2) bob,⟦Tr1cky-W0rd⟧\n"
        ),
        (
            "build\tstep\t2031-03-04T05:06:00.1234567Z user,password\n"
            "build\tstep\t2031-03-04T05:06:01.1234567Z bob,⟦Tr1cky-W0rd⟧\n"
        ),
    ),
}


@pytest.mark.parametrize("form", TEXTS)
def test_only_what_is_marked_goes(form: str) -> None:
    for marked in TEXTS[form]:
        secrets = MARKED.findall(marked)
        redacted = REDACTOR.redact(MARKED.sub(r"\1", marked)).text
        assert len(PATTERN.findall(redacted)) == len(secrets), redacted
        pieces = [
            piece for pair in zip(PATTERN.split(redacted), [*secrets, ""], strict=True) for piece in pair
        ]
        assert "".join(pieces) == MARKED.sub(r"\1", marked)
