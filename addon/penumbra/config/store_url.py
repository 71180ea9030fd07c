"""Whether an address leads to a shared store: asked before its client is made, whose errors would quote it,
and a password with it.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

_SCHEMES = ("redis", "rediss", "unix")
_PARAMETERS = re.compile(r"username|password|client_name|ssl_\w+")
"""Others would change what replies look like, or how long they are waited for."""


def is_store_url(text: str) -> bool:
    """Whether all of its parts are what they have to be."""
    try:
        parts = urlsplit(text)
        # What has no `=` raises ValueError, and so does a bad port.
        named = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
        is_sound = parts.scheme in _SCHEMES and parts.port != 0 and not parts.fragment
    except ValueError:
        return False
    if parts.scheme == "unix":
        has_place = bool(parts.path)
    else:
        has_place = bool(parts.hostname) and re.fullmatch(r"(?:/\d*)?", parts.path, re.ASCII) is not None
    return (
        is_sound
        and has_place
        and not re.search(r"\s", text)
        and all(
            value.isdecimal() and value.isascii() if name == "db" else _PARAMETERS.fullmatch(name)
            for name, value in named
        )
    )
