"""What is wrong with the address of a shared store: asked before its client is made, whose errors would quote
it, and a password with it.
"""

from __future__ import annotations

import os
import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

ALLOWED = "redis://HOST:PORT/0, rediss://HOST:PORT/0 or unix:///PATH"
_SCHEMES = ("redis", "rediss", "unix")
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_WORDS = {
    "ssl_cert_reqs": ("none", "optional", "required"),
    "ssl_check_hostname": ("true", "false", "True", "False", "yes", "no", "1", "0"),
}
_OF_ALL = ("db", "username", "password", "client_name")
_OF_TLS = (*_FILES, *_WORDS, "ssl_password")
"""Others would change what replies look like, or how long they are waited for, or are known to no client."""


def problem(text: str) -> str:
    """What can't be so, in words that quote none of it; empty: nothing."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "its port is no number from 1 to 65535"
    try:
        # What has no `=` raises ValueError.
        named = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        return "behind ? it needs NAME=VALUE"
    if parts.scheme not in _SCHEMES:
        return "it begins with none of them"
    if re.search(r"\s", text) or parts.fragment:
        return "it has a blank or a # in it"
    if port == 0:
        return "its port is no number from 1 to 65535"
    return _place(parts) or next(filter(None, (_parameter(parts.scheme, *one) for one in named)), "")


def unreadable_file(text: str) -> str:
    """The parameter whose file can't be read, and why; empty: none."""
    for name, value in parse_qsl(urlsplit(text).query):
        if name in _FILES:
            try:
                os.close(os.open(value, os.O_RDONLY))
            except (OSError, ValueError) as error:
                return f"{name}: got a file that can't be read ({getattr(error, 'strerror', error)})"
    return ""


def _place(parts: SplitResult) -> str:
    if parts.scheme == "unix":
        # With two slashes the first folder would be a host.
        return "" if parts.path and not parts.hostname else "its path does not begin with /"
    if not parts.hostname:
        return "it has no host"
    if not re.fullmatch(r"(?:/\d{0,9})?", parts.path, re.ASCII):
        return "behind the host stands no number of a database"
    return ""


def _parameter(scheme: str, name: str, value: str) -> str:
    if name not in (*_OF_ALL, *_OF_TLS):
        return f"behind ? it has a name that is none of {', '.join((*_OF_ALL, *_OF_TLS))}"
    if name in _OF_TLS and scheme != "rediss":
        return f"{name} needs rediss://"
    if name == "db" and not re.fullmatch(r"\d{1,9}", value, re.ASCII):
        return "db is no number"
    if name in _WORDS and value not in _WORDS[name]:
        return f"{name} is none of {', '.join(_WORDS[name])}"
    return ""
