"""Private keys in all forms in which tools print them."""

from __future__ import annotations

import base64
import json

import pytest

from penumbra import redact
from support import secret_contexts as contexts
from support.private_keys import armour, lines_of_key

KIND = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]


def fragments_left(text: str, body: list[str]) -> list[str]:
    redacted = redact(text)
    return [line for line in body if line[:20] in redacted or line[-20:] in redacted]


BODY = lines_of_key(1)
KEY = armour("RSA PRIVATE KEY", BODY)
WHOLE = {
    "plain": KEY,
    "indented yaml": "key: |\n" + "".join(f"    {line}\n" for line in KEY.split("\n")),
    "deep yaml": "a:\n  b:\n    key: |-\n" + "".join(f"        {line}\n" for line in KEY.split("\n")),
    "env one line": 'TLS_KEY="' + KEY.replace("\n", "\\n") + '"\nPORT=1\n',
    "env escaped twice": json.dumps({"a": json.dumps({"k": KEY})}),
    "python repr": repr({"key": KEY}),
    "python parts": "\n".join(f'    "{line}\\n"' for line in KEY.split("\n")),
    "java parts": " +\n".join(f'    "{line}\\n"' for line in KEY.split("\n")),
    "javascript array": "[" + ",\n".join(f"  '{line}'" for line in KEY.split("\n")) + "].join('\\n')",
    "json array": json.dumps(KEY.split("\n")),
    "json array pretty": json.dumps(KEY.split("\n"), indent=2),
    "service account": json.dumps(
        {"type": "x", "private_key": KEY, "client_email": "a@example.net"}, indent=2
    ),
    "spaces": KEY.replace("\n", " "),
    "one line": KEY.replace("\n", ""),
    "windows escapes": KEY.replace("\n", "\\r\\n"),
    "encrypted": KEY.replace(
        "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0011223344556677\n\n", 1
    ),
    "quoted mail": "".join(f"> {line}\n" for line in KEY.split("\n")),
    "commented": "".join(f"# {line}\n" for line in KEY.split("\n")),
    "html breaks": KEY.replace("\n", "<br/>\n"),
    "cut off": "\n".join(KEY.split("\n")[:8]) + "\n",
    "cut off in a line": KEY[:300],
    "headless": "\n".join(KEY.split("\n")[4:]),
    "headless numbered": contexts.DECORATIONS["numbered"]("\n".join(KEY.split("\n")[4:])),
    "two keys": KEY + "between\n" + armour("EC PRIVATE KEY", BODY[:3]),
    "php slashes": json.dumps({"key": KEY}).replace("/", "\\/"),
    "xml": f"<key>{KEY}</key>",
    "shell heredoc": f"cat > k.pem <<EOF\n{KEY}EOF\n",
    **{name: how(KEY) for name, how in contexts.DECORATIONS.items()},
}


@pytest.mark.parametrize("form", WHOLE)
def test_nothing_of_the_key_is_left(form: str) -> None:
    body = [line for line in BODY if line in WHOLE[form]]
    assert fragments_left(WHOLE[form], body) == []


@pytest.mark.parametrize("kind", KIND)
def test_kinds_of_armour(kind: str) -> None:
    assert fragments_left(armour(kind, BODY), BODY) == []


def test_header_footer_and_neighbours_stay() -> None:
    redacted = redact(f"before\n{KEY}after\n").split("\n")
    assert [redacted[0], redacted[1], redacted[3], redacted[4], redacted[5]] == [
        "before",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
        "after",
        "",
    ]
    assert redacted[2].startswith("[REDACTED:private-key:")


def test_openpgp() -> None:
    body = [*lines_of_key(5, 6), "=aB3d"]
    text = "\n".join(
        [
            "-----BEGIN PGP PRIVATE KEY BLOCK-----",
            "Version: x",
            "",
            *body,
            "-----END PGP PRIVATE KEY BLOCK-----",
        ]
    )
    redacted = redact(text)
    assert [line for line in body if line in redacted] == []
    assert redacted.endswith("-----END PGP PRIVATE KEY BLOCK-----")


def test_putty() -> None:
    public, private = lines_of_key(6, 3), lines_of_key(7, 4)
    text = "\n".join(
        [
            "PuTTY-User-Key-File-3: ssh-rsa",
            "Encryption: none",
            "Public-Lines: 4",
            *public,
            f"Private-Lines: {len(private)}",
            *private,
            "Private-MAC: 00ff",
            "",
        ]
    )
    redacted = redact(text)
    assert [line for line in private if line in redacted] == []
    assert all(line in redacted for line in public)
    assert "Private-MAC: 00ff" in redacted


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("width", [0, 76])
def test_base64_of_a_key_file(times: int, width: int) -> None:
    data = KEY.encode()
    for _ in range(times):
        data = base64.b64encode(data)
    text = data.decode()
    parts = [text[at : at + width] for at in range(0, len(text), width)] if width else [text]
    redacted = redact("    client-key-data: " + "\n".join(parts) + "\n    name: x\n")
    assert [part for part in parts if part[10:40] in redacted] == []
    assert redacted.endswith("\n    name: x\n")


@pytest.mark.parametrize(
    "magic", ["b3BlbnNzaC1rZXktdjEA", "MIIEpAIBAAKCAQEA", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"]
)
def test_key_without_any_header(magic: str) -> None:
    body = lines_of_key(8, 5)
    body[0] = magic + body[0][len(magic) :]
    assert fragments_left("key:\n" + "\n".join(body) + "\n\nend\n", body) == []


@pytest.mark.parametrize(
    "text",
    [
        'if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    return parse(text)\n' + "line of code\n" * 40,
        "grep -r 'BEGIN OPENSSH PRIVATE KEY' .\n" + "result\n" * 10,
        "-----BEGIN RSA PRIVATE KEY-----\n",
        'HEADER = "-----BEGIN PRIVATE KEY-----"\nFOOTER = "-----END PRIVATE KEY-----"\n',
        "a -----BEGIN EC PRIVATE KEY----- line that is only mentioned in prose, and nothing else\n",
        "-----BEGIN CERTIFICATE-----\n" + "\n".join(lines_of_key(9)) + "\n-----END CERTIFICATE-----\n",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"
        + BODY[0][:20]
        + "\n-----END PUBLIC KEY-----\n",
    ],
)
def test_no_key_no_change(text: str) -> None:
    assert redact(text) == text


def test_a_mention_in_front_of_a_key_does_not_shield_it() -> None:
    text = 'look for "-----BEGIN RSA PRIVATE KEY-----":\n' + KEY
    assert fragments_left(text, BODY) == []
    assert redact(text).startswith('look for "-----BEGIN RSA PRIVATE KEY-----":\n-----BEGIN')
