"""Placeholders that are already in a text stay unchanged and hide no secret."""

import json
from base64 import b64encode
from typing import Any

import pytest

from penumbra import redact
from penumbra.apis.formats import FORMATS, REQUESTS
from penumbra.expand import reference
from penumbra.redaction import placeholder
from penumbra.redaction.placeholder import PATTERN, make
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
    f"api_key%3D{_PASSWORD}!=⟦⟧",
    f'ENCRYPTION_KEY="{_TOKEN[4:]}z=⟦⟧"',
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
_LINES = "\n".join(lines_of_key(7, 20))
_DUMP = b64encode(f"{'some text ' * 8}\nDB_PASSWORD={_PASSWORD}\n{'some text ' * 8}".encode()).decode()
_FAR_APART = {
    "a value": (f'DB_PASS⟦⟧WORD="{_LONG}"', _LONG[-40:]),
    "a key's lines": (
        armour("RSA PRIVATE KEY", [*lines_of_key(7, 200), "⟦⟧", *lines_of_key(8, 200)]),
        lines_of_key(7, 200)[3],
    ),
    "a cell and its column": (_COLUMN + f"9,bob,{_PASSWORD[:6]}⟦⟧{_PASSWORD[6:]}\n", _PASSWORD[6:]),
    "a part of a column's name": (f"id,pass⟦⟧word,note\n1,{_PASSWORD},a\n", _PASSWORD),
    "the end of a column's name": (f"| id | password⟦⟧ |\n|---|---|\n| 1 | {_PASSWORD} |\n", _PASSWORD),
    "the beginning of a column's name": (
        f"INSERT INTO t (id, ⟦⟧password) VALUES (1, '{_PASSWORD}');",
        _PASSWORD,
    ),
    **{
        f"a key after {head}": (f"-----BEGIN {head}\n{_LINES}", _LINES[-40:])
        for head in ("RSA PRI⟦⟧VATE KEY-----", "RSA⟦⟧ PRIVATE KEY-----", "RSA PRIVATE KEY--⟦⟧---")
    },
    "a dump": (_DUMP[:30] + "⟦⟧" + _DUMP[30:], _DUMP[122:136]),
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
def test_text_apart_from_a_placeholder_stays(text: str) -> None:
    assert redact(text) == text


MARK = make("password", b"k", b"v")


def test_calls_with_a_placeholder_anywhere_are_counted() -> None:
    def block(arguments: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": "a", "name": "Edit", "input": arguments}

    content = [block({"a": [{"b": MARK}]}), block({"a": "[REDACTED:x"}), block({MARK: 1}), block({"c": MARK})]
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use",
    }
    assert placeholder.calls(FORMATS["anthropic"], json.dumps(message).encode(), stream=False) == 2
    assert placeholder.calls(FORMATS["anthropic"], b"no answer", stream=False) == 0


@pytest.mark.parametrize("name", reference.EDITING_NAMES.values())
def test_the_legend_says_that_values_are_put_back(name: str) -> None:
    assert reference.tool(name).description.endswith(reference.EDITING_LEGEND)
    assert PATTERN.search(reference.EDITING_LEGEND) is None


@pytest.mark.parametrize("name", reference.NAMES)
def test_the_description_of_the_injected_tool_ends_with_the_legend(name: str) -> None:
    assert reference.tool(name).description.endswith(reference.LEGEND)
    assert PATTERN.search(reference.LEGEND) is None


CALLS = {
    "anthropic": {"content": [{"type": "tool_use", "id": "a", "name": "Edit", "input": {"x": MARK}}]},
    "bedrock": {"content": [{"toolUse": {"toolUseId": "a", "name": "Edit", "input": {"x": MARK}}}]},
    "gemini": {"role": "model", "parts": [{"functionCall": {"name": "Edit", "args": {"x": MARK}}}]},
    "ollama": {"tool_calls": [{"function": {"name": "Edit", "arguments": {"x": MARK}}}]},
    "openai_chat": {
        "tool_calls": [{"id": "a", "function": {"name": "Edit", "arguments": f'{{"x":"{MARK}"}}'}}]
    },
    "openai_responses": {"type": "local_shell_call", "call_id": "a", "action": {"command": ["echo", MARK]}},
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_every_api_are_looked_into(name: str) -> None:
    message = {"role": "assistant", **CALLS[name]}
    assert placeholder.within(REQUESTS[name], json.dumps(message).encode()) == 1
    words = {"type": "message", "role": "assistant", "content": f"I see {MARK}."}
    assert placeholder.within(REQUESTS[name], json.dumps(words).encode()) == 0


def test_a_body_holds_a_placeholder_or_only_what_looks_like_one() -> None:
    real = placeholder.make("github", b"key", b"value").encode()
    for body, there in (
        (b"", False),
        (real, True),
        (b"[REDACTED:github:1]" + real, True),
        (b"[" + real[1:-1], False),
        (b"[REDACTED:" * 9 + real[1:], False),
    ):
        assert placeholder.is_in(body) == there == bool(placeholder.spans(body)), body
