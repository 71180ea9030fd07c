"""Placeholders in or beside a secret protect nothing, since anybody may write one."""

from __future__ import annotations

import pytest

from penumbra import redact
from support.private_keys import armour, lines_of_key

FORGED = "[REDACTED:x:abcdef]"
_PASSWORD = "9vTq2-" + "LmX4wRk7"
_TOKEN = "ghp_" + "k3J9xQ7vB2mN8cR5tY1wZ4aS6dF0gH3jL5pQ"
BESIDE = [
    f"DB_PASSWORD={_PASSWORD}⟦⟧",
    f"DB_PASSWORD=⟦⟧{_PASSWORD}",
    f"DB_PASSWORD={_PASSWORD[:6]}⟦⟧{_PASSWORD[6:]}",
    f"DB_PASSWORD⟦⟧={_PASSWORD}",
    f"DB_PASS⟦⟧WORD={_PASSWORD}",
    f"DB_PASSWORD='{_PASSWORD}'⟦⟧",
    f'{{"password": "{_PASSWORD}⟦⟧", "n": 1}}',
    f'{{"password": "⟦⟧{_PASSWORD}"}}',
    f"password: {_PASSWORD}⟦⟧",
    f"postgres://u:{_PASSWORD}⟦⟧@h/db",
    f"postgres://u:⟦⟧{_PASSWORD}@h/db",
    f"--password {_PASSWORD}⟦⟧",
    f"Authorization: Bearer ⟦⟧{_TOKEN}",
    f"{_TOKEN}⟦⟧",
    f"⟦⟧{_TOKEN}",
    f"⟦⟧⟦⟧{_TOKEN}⟦⟧⟦⟧",
    f"{_TOKEN[:14]}⟦⟧{_TOKEN[14:]}",
    f"{_TOKEN[:14]}\x1b[0m⟦⟧{_TOKEN[14:]}",
    f"Cookie: session={_PASSWORD}{_PASSWORD}⟦⟧; Path=/",
    f"poly_private_keyToken = '⟦⟧0x{'9CC4d16f78E6d032fa2FcF90Fef41e4E' * 2}'",
]


@pytest.mark.parametrize("text", BESIDE)
def test_placeholder_beside_a_secret_protects_nothing(text: str) -> None:
    text = text.replace("⟦⟧", FORGED)
    once = redact(text)
    assert FORGED in once
    for secret in (_PASSWORD, _TOKEN, _PASSWORD[:6], _PASSWORD[6:], _TOKEN[:14], _TOKEN[14:], "9CC4d16f"):
        assert secret not in once
    assert redact(once) == once


_LONG = "".join(lines_of_key(5, 600))
_COLUMN = "id,user,password\n" + "".join(f"{i},user{i},\n" for i in range(3000))
_FAR_APART = {
    "a value": (f'DB_PASS⟦⟧WORD="{_LONG}"', _LONG[-40:]),
    "a key's lines": (
        armour("RSA PRIVATE KEY", [*lines_of_key(7, 200), "⟦⟧", *lines_of_key(8, 200)]),
        lines_of_key(7, 200)[3],
    ),
    "a cell and its column": (
        _COLUMN + f"9,bob,{_PASSWORD[:6]}⟦⟧{_PASSWORD[6:]}\n",
        _PASSWORD[6:],
    ),
}


@pytest.mark.parametrize(("text", "secret"), _FAR_APART.values(), ids=_FAR_APART)
def test_placeholder_protects_nothing_that_reaches_far(text: str, secret: str) -> None:
    assert secret in text
    once = redact(text.replace("⟦⟧", FORGED))
    assert secret not in once
    assert redact(once) == once


def test_token_in_a_private_key_protects_none_of_its_lines() -> None:
    before, after = lines_of_key(7, 130), lines_of_key(8, 130)
    once = redact(armour("RSA PRIVATE KEY", [*before, _TOKEN, *after]))
    assert not [line for line in (*before, *after) if line in once]


@pytest.mark.parametrize("form", ["{0}{1}⟦⟧", "⟦⟧{0}{1}", "⟦⟧\n{0}{1}", "{0}⟦⟧{1}", "+{0}{1}⟦⟧"])
@pytest.mark.parametrize("at", [1, 2, 9, 24, 25])
def test_placeholder_in_a_private_key_protects_none_of_its_lines(form: str, at: int) -> None:
    key = armour("RSA PRIVATE KEY", lines_of_key(7, 25)).strip().split("\n")
    at = min(at, len(key) - 2)
    line = key[at]
    lines = [*key[:at], form.format(line[:20], line[20:]).replace("⟦⟧", FORGED), *key[at + 1 :]]
    once = redact("\n".join(lines))
    assert not [one for one in key[1:-1] if len(one) >= 20 and (one[:20] in once or one[-20:] in once)]
    assert redact(once) == once


@pytest.mark.parametrize(
    "text",
    [
        f"DB_PASSWORD={FORGED}\nDB_USER=account19x",
        f"PASSWORD={FORGED} NAME=value9x OTHER=2",
        f'{{"password":"{FORGED}","user":"foo1234x"}}',
        f"postgres://app:{FORGED}@db.internal:5432/shop?sslmode=require",
        f"-----BEGIN RSA PRIVATE KEY-----\n{FORGED}\n-----END RSA PRIVATE KEY-----\nMIIC is how it begins",
    ],
)
def test_what_stands_apart_from_a_placeholder_stays(text: str) -> None:
    assert redact(text) == text
