"""Fuzzing of redaction with atheris: no failure, nothing left to redact, JSON stays JSON."""

from __future__ import annotations

import json
import sys

import atheris

with atheris.instrument_imports(include=["penumbra.redaction"]):
    from penumbra.redaction.engine import Redactor

# What texts are made of, beside the fuzzer's own bytes: what rules look for, and what may stand around it.
PIECES = (
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
        "=",
        ": ",
        '"',
        "'",
        "\\",
        "\\n",
        '\\"',
        "\n",
        "\r\n",
        "\t",
        ",",
        "|",
        "{",
        "}",
        "[",
        "]",
        "<",
        "</",
        ">",
        "&",
        "%",
    ),
    *(
        "\x1b[31m",
        "\x1b]8;;x\x07",
        "\u200b",
        "\\u0067",
        "%67",
        "\x00",
        "\x08",
        "é",
        "\U0001f511",
        "\ud83d",
        "\u2028",
    ),
)
redact = Redactor(b"key of the fuzzer").redact


def text_of(source: atheris.FuzzedDataProvider) -> str:
    """Pieces, some of them the fuzzer's own."""
    found = []
    while source.remaining_bytes() and len(found) < 200:
        choice = source.ConsumeIntInRange(0, len(PIECES) + 8)
        found.append(
            PIECES[choice] if choice < len(PIECES) else source.ConsumeUnicode(choice - len(PIECES) + 1)
        )
    return "".join(found)


def check(text: str) -> None:
    """Raises AssertionError, or RedactionError, if a text is treated wrongly."""
    once = redact(text).text
    assert redact(once).text == once, "something is left to redact"
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return
    json.loads(once)


def one(data: bytes) -> None:
    text = text_of(atheris.FuzzedDataProvider(data))
    check(text)
    check(json.dumps({"out": text, "password": text[:40]}))
    inner = json.dumps({"token": text})
    json.loads(json.loads(redact(json.dumps([inner])).text)[0])


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
