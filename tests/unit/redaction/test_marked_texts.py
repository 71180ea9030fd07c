"""Texts with marks around their secrets, `⟦` and `⟧`: exactly the marked bytes are replaced."""

from __future__ import annotations

import re

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor

REDACTOR = Redactor(LIBRARY_KEY)
MARKED = re.compile("⟦([^⟧]*)⟧")
TEXTS = {
    "words joined as in programs": (
        'db_password = "⟦CopperFalconMeadow⟧"\n',
        "password: ⟦CopperFalconMeadow⟧\n",
        "password = ⟦copper_falcon_meadow⟧\nuser = bob\n",
        'password: "AccountPasswordField"\n',
        "password = read_user_input\n",
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
        "body=proc%20login%28user%2C%20password%3A%20string%29%3A%20Session%20%3D",
        "https://example.net/?next=https%3A%2F%2Fexample.net%2Flogin%3Fa%3D1&b=2%0Ac%20d",
    ),
    "options with points in their names": (
        "arangosh --server.username root --server.password ⟦Tr1cky-W0rd⟧\n",
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
