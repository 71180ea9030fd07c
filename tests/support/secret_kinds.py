"""Invented secrets of each kind, each in a line that reveals it."""

import base64
import random
import string

_DRAWN = random.Random(20)


def _text(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_DRAWN.choices(alphabet, k=count))


def _private_key() -> str:
    body = base64.b64encode(bytes((0x30, 0x82, 0x01, 0x22, *_DRAWN.randbytes(290)))).decode()
    rows = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join(("-----BEGIN RSA PRIVATE KEY-----", *rows, "-----END RSA PRIVATE KEY-----"))


def _jwt() -> str:
    parts = (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890","exp":1893456000}', _DRAWN.randbytes(32))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


KINDS = {
    "GitHub token": ("token: ⟦⟧", "gh" + "p_" + _text(36)),
    "AWS key id": ("key id is ⟦⟧", "AKI" + "A" + _text(16, string.ascii_uppercase + "234567")),
    "AWS secret": ("aws_secret_access_key = ⟦⟧", _text(40)),
    "Anthropic key": (
        "ANTHROPIC_API_KEY=⟦⟧",
        "sk-" + "ant-api03-" + _text(93, string.ascii_letters + "-_") + "AA",
    ),
    "JWT": ("Authorization: Bearer ⟦⟧", _jwt()),
    "URL password": ("DATABASE_URL=postgres://app:⟦⟧@db.internal:5432/shop", "Tr1cky-W0rd92"),
    "password": ("DB_PASSWORD=⟦⟧", "Tr1cky-W0rd92"),
    "private key": ("⟦⟧", _private_key()),
}
"""The line and its secret, by kind."""


def text_with(kind: str) -> tuple[str, str]:
    """Return a small text of settings with a secret of that kind, and the secret."""
    line, secret = KINDS[kind]
    text = "# settings of the shop\nregion: eu-central-1\n" + line.replace("⟦⟧", secret) + "\nretries: 3\n"
    return text, secret


def is_left(secret: str, text: str) -> bool:
    """Return whether the text still has the secret, or at least eight characters and 40 percent of it in a
    row."""
    size = min(len(secret), max(8, len(secret) * 2 // 5))
    return any(secret[at : at + size] in text for at in range(len(secret) - size + 1))
