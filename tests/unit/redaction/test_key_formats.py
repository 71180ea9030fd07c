"""Private keys in other formats than PEM, and texts in base64 that hold secrets: plain, numbered, in strings
of JSON."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

import pytest

from penumbra.redaction import LIBRARY_KEY
from penumbra.redaction.redactor import Redactor

REDACTOR = Redactor(LIBRARY_KEY)
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
        assert secret not in REDACTOR.redact(decorate(text)).text


def test_public_parts_stay() -> None:
    x = _url(32)
    key = json.dumps({"kty": "EC", "crv": "P-256", "x": x, "y": _url(32), "kid": "2031-a"})
    assert REDACTOR.redact(key).text == key
    printed = f"publicExponent: 65537 (0x10001)\nmodulus:\n    {OCTETS}\n"
    assert REDACTOR.redact(printed).text == printed


def test_texts_in_base64_without_secrets_stay() -> None:
    plain = _encoded("The quick brown fox jumps over the lazy dog, and the dog sleeps on.\n")
    for text in (f"note: {plain}\n", f"data:image/png;base64,{_b64(300)}"):
        assert REDACTOR.redact(text).text == text
