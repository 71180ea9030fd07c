"""Texts as tools print them, with a place for a secret, from secret_contexts.yaml."""

import json
import random
import string
from typing import Any

from support.filled import load

_FORMS: dict[str, Any] = load(__file__)
NAMED: dict[str, str] = _FORMS["named"]
PASSWORDS: dict[str, str] = _FORMS["passwords"]
TOKENS: dict[str, str] = _FORMS["tokens"]
APART: dict[str, str] = _FORMS["apart"]
SLOTS: dict[str, str] = _FORMS["slots"]
TOLD: dict[str, str] = _FORMS["told"]
PLACES: dict[str, list[str]] = _FORMS["places"]
WITHOUT_NAMES: dict[str, str] = _FORMS["user_lists"] | _FORMS["alternating"] | _FORMS["said"]
PHRASES: list[str] = _FORMS["phrases"]
NO_PHRASES: list[str] = _FORMS["no_phrases"]
CELLS: dict[str, str] = _FORMS["cells"]
LOOK_ALIKE: list[str] = [
    text for kind in ("no_user_lists", "not_alternating", "not_said", "no_cells") for text in _FORMS[kind]
]
"""Texts that look like those of a kind and hold no secret."""

NAMES = [
    "db_password", "auth_token", "client_secret", "api_key", "secret_key", "encryption_key",
    "session_secret", "refresh_token", "passwd", "deploy_token", "service_account_key", "consumer_secret",
    "license_key", "private_key", "passphrase", "root_pwd",
]  # fmt: skip


def values(seed: int) -> dict[str, str]:
    """Return synthetic secrets of each make, which are the same for the same seed."""
    rnd = random.Random(seed)
    mixed = string.ascii_letters + string.digits

    def word(alphabet: str, length: int) -> str:
        return "".join(rnd.choice(alphabet) for _ in range(length))

    return {
        "base62": word(mixed, 40),
        "hex": word("0123456789abcdef", 32),
        "base64": word(mixed + "+/", 43) + "=",
        "urlsafe": word(mixed + "-_", 43),
        "short": word(mixed, 13) + "7",
        "signs": word(mixed + "!#%^*~-_.", 19) + "4x",
    }


PLACED = {
    "chosen": "Tr1cky-W0rd92",
    "words": "CopperFalcon7",
    "favourite": "hunter2!",
    "random": "kJ8dPq2LxV9mTz4RbW6n",
    "hexadecimal": "9f8b3c1d7e6a5042c8d1e7f3",
}
"""Values for `PLACES`, by kind."""
HUMAN = ("Sommer-2031", "purpleHorse88", "Pa55phrase!", "tr1ckyW0rd", "Zebra_Crossing4", "openupnow99")


def spelt(name: str) -> dict[str, str]:
    """Return a name in the spellings that the templates use."""
    words = name.split("_")
    pascal = "".join(word.capitalize() for word in words)
    return {
        "{UPPER}": name.upper(),
        "{lower}": name,
        "{kebab}": "-".join(words),
        "{dots}": ".".join(words),
        "{camel}": pascal[0].lower() + pascal[1:],
        "{Pascal}": pascal,
        "{Header}": "-".join(word.capitalize() for word in words),
    }


def fill(template: str, value: str, name: str = "") -> str:
    """Return the template with the value, and the name in all its spellings."""
    for hole, text in (spelt(name) if name else {}).items():
        template = template.replace(hole, text)
    return template.replace("{v}", value)


DECORATIONS = {
    "none": lambda text: text,
    "numbered": lambda text: "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1)),
    "arrows": lambda text: "\n".join(f"{n:6}→{line}" for n, line in enumerate(text.split("\n"), 1)),
    "grep": lambda text: "\n".join(f"conf/app.txt:{n}:{line}" for n, line in enumerate(text.split("\n"), 1)),
    "diff": lambda text: "\n".join("+" + line for line in text.split("\n")),
    "crlf": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "colours": lambda text: "\n".join(f"\x1b[33m{line}\x1b[0m" for line in text.split("\n")),
    "json": lambda text: json.dumps({"stdout": text}),
    "json twice": lambda text: json.dumps({"out": json.dumps({"stdout": text})}),
}
