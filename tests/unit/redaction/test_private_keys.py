"""Private keys in all formats, whole, broken, cut and encoded."""

import base64
import json
import random
from collections.abc import Callable

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


def test_a_mention_before_a_key_does_not_protect_it() -> None:
    text = 'look for "-----BEGIN RSA PRIVATE KEY-----":\n' + KEY
    assert fragments_left(text, BODY) == []
    assert redact(text).startswith('look for "-----BEGIN RSA PRIVATE KEY-----":\n-----BEGIN')


RANDOM = random.Random(4)


def _octets(size: int) -> bytes:
    return bytes(RANDOM.randrange(256) for _ in range(size))


def _b64(size: int) -> str:
    return base64.b64encode(_octets(size)).decode()


def _url(size: int) -> str:
    return base64.urlsafe_b64encode(_octets(size)).decode().rstrip("=")


def _lines(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


D, K, P, X = _url(32), _url(32), _b64(64), _b64(128)
ARMOUR = _lines(_b64(240), 70)
STATIC = "\n".join(_octets(16).hex() for _ in range(16))
OCTETS = _lines(":".join(f"{byte:02x}" for byte in _octets(64)), 45).replace("\n", "\n    ")
STORE = "MIIKWQIBAzCCCh8GCSqGSIb3DQEHAaCC" + _b64(600).rstrip("=")
JKS = "/u3+7QAAAAIAAAABAAAAAQAFYWxpYXM" + _b64(600).rstrip("=")
HEX = _octets(32).hex()
ENV = _encoded("DB_HOST=db1\nDB_PASSWORD=Zk82hVtLqPxw73\nMODE=prod\nLAST=1\n")
MANIFEST = _encoded(
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  password: c3dvcmRmaXNoMTIz\n"
)
JWT = _encoded("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwZW51bWJyYSJ9.c2lnbmF0dXJlLW9mLW5vYm9keQ")
FORMATS = {
    "json web key": (json.dumps({"kty": "EC", "crv": "P-256", "x": _url(32), "d": D}), D),
    "symmetric json web key": (json.dumps({"keys": [{"k": K, "kty": "oct"}]}, indent=2), K),
    "xml": (f"<RSAKeyValue><Exponent>AQAB</Exponent><P>{P}</P><D>{X}</D></RSAKeyValue>", X),
    "pkcs 12": (f"cert: {STORE}\n", STORE[80:140]),
    "pkcs 12 in lines": (_lines(STORE, 76) + "\n", STORE[80:140]),
    "java key store": (f"keystore.jks: {JKS}\n", JKS[80:140]),
    "ssh2": (
        f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{ARMOUR}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
        ARMOUR[-40:],
    ),
    "openvpn": (
        f"-----BEGIN OpenVPN Static key V1-----\n{STATIC}\n-----END OpenVPN Static key V1-----\n",
        STATIC[-32:],
    ),
    "printed by openssl": (
        f"Private-Key: (512 bit)\nprivateExponent:\n    {OCTETS}\nprime1:\n    00\n",
        OCTETS[50:80],
    ),
    "dnssec": (f"Private-key-format: v1.3\nPrivateExponent: {X}\n", X),
    "wallets": (f"Private Keys\n==================\n(0) 0x{HEX}\n", HEX),
    "settings": (f"ENV_FILE={ENV}\n", ENV[24:64]),
    "manifest": (f"it is\n{MANIFEST}\n", MANIFEST[60:100]),
    "token": (f"{JWT}\n", JWT[20:80]),
}
DECORATIONS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1)),
    lambda text: json.dumps({"stdout": text}),
    lambda text: json.dumps({"out": json.dumps({"stdout": text})}),
)


@pytest.mark.parametrize("form", FORMATS)
def test_key_goes(form: str) -> None:
    text, secret = FORMATS[form]
    for decorate in DECORATIONS:
        assert secret not in redact(decorate(text))


def test_public_parts_stay() -> None:
    x = _url(32)
    key = json.dumps({"kty": "EC", "crv": "P-256", "x": x, "y": _url(32), "kid": "2031-a"})
    assert redact(key) == key
    printed = f"publicExponent: 65537 (0x10001)\nmodulus:\n    {OCTETS}\n"
    assert redact(printed) == printed


def test_texts_in_base64_without_secrets_stay() -> None:
    plain = _encoded("The quick brown fox jumps over the lazy dog, and the dog sleeps on.\n")
    for text in (f"note: {plain}\n", f"data:image/png;base64,{_b64(300)}"):
        assert redact(text) == text
