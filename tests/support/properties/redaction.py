"""Texts that are searched for secrets."""

from __future__ import annotations

import json
from functools import cache

from penumbra.redaction.redactor import Redactor
from support.properties.source import Source, as_text

_PIECES = (
    *(
        "password",
        "api_key",
        "token",
        "secret",
        "Authorization: Bearer ",
        "Cookie: a=",
        "kind: Secret\ndata:\n  a: ",
    ),
    *(
        "ghp_",
        "sk-ant-api03-",
        "AKIA",
        "eyJhbGciOiJub25lIn0.",
        "xoxb-",
        "AIza",
        "-----BEGIN RSA PRIVATE KEY-----\n",
    ),
    *(
        "-----END RSA PRIVATE KEY-----",
        "postgres://app:",
        "@db1/x",
        "curl -u app:",
        "--password ",
        "- name: ",
        "value: ",
    ),
    *(
        "q8Zk2mVt41Lx9RwPz0bT6cq8Zk2mVt41Lx9R",
        "hunter2x",
        "0123456789abcdef0123456789abcdef",
        "[REDACTED:key:abcdef]",
    ),
    *(
        "=", ": ", '"', "'", "\\", "\\n", '\\"', "\n", "\r\n", "\t", ",", "|", "{", "}", "[", "]", "<",
        "</", ">", "&", "%",
    ),
    # What the finders look around, each.
    *(
        "user,password,host\n", "| name | password |\n|---|---|\n| ",
        "INSERT INTO users (name, password) VALUES ('a', '", "COPY users (name, password) FROM stdin;\na\t",
        "$ op read op://a/b\n", "# vault kv get -field=x a\n", "chpasswd:\n  list: |\n    root:",
        '{"kty":"EC","d":"', "privateExponent:\n    00:", "Private Keys\n==\n(0) 0x",
        '<add key="ApiKey" value="', 'getenv("DB_PASSWORD") ?? "', '{"Name": "DB_PASSWORD", "Value": "',
        "variable 'a' { default = '", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ", "PASSWORDS=(",
        "Enter password:\n", "passwords:\n  - ", "_pk_live_", '" + "', "%22%3A%22", "&quot;",
    ),
    *("\x1b[31m", "\x1b]8;;x\x07", "\u200b", "\\u0067", "%67", "\x00", "\x08", "é", "\U0001f511", "\u2028"),
)  # fmt: skip


@cache
def redactor() -> Redactor:
    return Redactor(b"key of the fuzzer")


def redaction(data: bytes) -> None:
    """No failure, nothing left to redact, JSON stays JSON."""
    text = "".join(Source(data).some(_PIECES, as_text))
    redact = redactor().redact
    for one in (text, json.dumps({"out": text, "password": text[:40]})):
        once = redact(one).text
        assert redact(once).text == once, "something is left to redact"
        if _is_json(one):
            json.loads(once)
    inner = json.dumps({"token": text})
    json.loads(json.loads(redact(json.dumps([inner])).text)[0])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
