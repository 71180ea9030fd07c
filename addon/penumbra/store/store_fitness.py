"""Whether a store is one that proxies can share, and what its operator has to be told of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from redis import exceptions

from penumbra.errors import one_line

EVICTION_ID = "PENUMBRA_STORE_EVICTS"
OTHER_KEY_ID = "PENUMBRA_STORE_OTHER_KEY"
INFO: tuple[tuple[str, str], ...] = (("INFO", "server"), ("INFO", "memory"))
_LEAST = (6, 2)
_MODES = {
    "cluster": "it is part of a cluster, needed: a Redis or Valkey alone",
    "sentinel": "it is a Sentinel, needed: the address of the Redis that it watches",
}
_ADVICE = (
    ("rediss", "no answer within", "rediss:// speaks TLS: does that port?"),
    ("rediss", "WRONG_VERSION_NUMBER", "rediss:// speaks TLS: does that port?"),
    ("rediss", "CERTIFICATE_VERIFY_FAILED", "?ssl_ca_certs=FILE names a CA of your own"),
    ("rediss", "CERTIFICATE_REQUIRED", "?ssl_certfile=FILE&ssl_keyfile=FILE names what it asks for"),
    (
        "rediss",
        "Connection reset",
        "where it asks for a certificate, ?ssl_certfile=FILE&ssl_keyfile=FILE names one",
    ),
    ("redis", "Connection lost", "where it speaks TLS, the address begins with rediss://"),
    ("redis", "Connection closed", "where it speaks TLS, the address begins with rediss://"),
    ("redis", "Connection reset", "where it speaks TLS, the address begins with rediss://"),
    ("", "Protocol Error", "no Redis answers there"),
    (
        "",
        "AuthenticationError",
        "needed: USER:PASSWORD@ in front of the host, or :PASSWORD@ for the default user",
    ),
    ("", "out of range", "needed: a database that is there behind the last /, 0 always is"),
    ("", "SELECT is not allowed in cluster", _MODES["cluster"]),
    ("", "MovedError", _MODES["cluster"]),
    ("", "ClusterDownError", _MODES["cluster"]),
    ("", "NoPermissionError", "needed: the rights that docs/deploy.md names"),
    ("", "ReadOnlyError", "needed: the one that it is a replica of"),
)
"""What helps where an address has this scheme, and what is said of it has these words."""
_ARGUMENTS = ", with args beginning"
"""What a store says of a command that it does not know ends in what was to be kept."""


class UnfitStore(exceptions.RedisError):
    """It can't be shared, now or later."""


def told(replies: Sequence[Any]) -> dict[str, str]:
    """What a store says of itself to `INFO`; nothing where it does not say so to this user."""
    says: dict[str, str] = {}
    for reply in replies:
        if isinstance(reply, Mapping):
            says.update((str(name), str(value)) for name, value in reply.items())
    return says


def check(says: Mapping[str, str]) -> None:
    """Raises UnfitStore."""
    if lacking := _MODES.get(says.get("redis_mode", "")):
        raise UnfitStore(lacking)
    version = says.get("redis_version", "")
    parts = version.split(".")[:2]
    if all(part.isdecimal() for part in parts) and tuple(map(int, parts)) < _LEAST:
        raise UnfitStore(f"it is Redis {one_line(version)}, needed: 6.2 or later, or Valkey")


def warnings(says: Mapping[str, str], key: bytes, latest_key: bytes | None) -> list[str]:
    """What else its operator has to know. `key`: what tells this proxy's key from others; `latest_key`: that
    of the proxy that was there before."""
    lines = []
    policy = says.get("maxmemory_policy", "")
    if policy not in ("", "noeviction"):
        lines.append(
            f"{EVICTION_ID}: maxmemory-policy is {one_line(policy)}, needed: noeviction, since a decision "
            "that leaves changes what the provider has cached"
        )
    if latest_key not in (None, key):
        lines.append(
            f"{OTHER_KEY_ID}: a proxy with another penumbra_store_key was there: those with different keys "
            "share nothing, and what one has sent the other sends anew"
        )
    return lines


def at_start(error: BaseException, url: str) -> str:
    """Why it can't be asked, and what its operator may have meant instead."""
    said, scheme = why(error), url.partition(":")[0].lower()
    advice = (tip for of, words, tip in _ADVICE if of in ("", scheme) and words in said)
    return "; ".join((said, *itertools.islice(advice, 1)))


def why(error: BaseException) -> str:
    """One line, without anything that was to be kept."""
    said = str(error).partition(_ARGUMENTS)[0]
    return one_line(said if isinstance(error, UnfitStore) else f"{type(error).__name__}: {said}")
