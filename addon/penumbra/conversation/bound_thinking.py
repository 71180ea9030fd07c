"""Reasoning that is bound to the prefix it was made behind: whether it is (`rules/thinking.yaml`), and how it
is given up where it stands behind another prefix, so that the request works.

Current Anthropic models refuse such a block unless the request asks for it to be dropped. Where that can't
be asked for, the block is left out, as far as the API takes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from penumbra import rules
from penumbra.apis.formats import FORMATS
from penumbra.wire.document import Document

HEADER = "anthropic-beta"
_BETA = "thinking-binding-controls-2026-08-01"
_FAMILY = "thinking-binding-controls"
_FORMAT = "anthropic"
_OWN_HOSTS = (".anthropic.com",)
"""Hosts that know every beta of the API; elsewhere one that the client does not use may be an error."""


@cache
def table() -> Mapping[str, Any]:
    """The content of rules/thinking.yaml."""
    loaded: dict[str, Any] = rules.load("thinking.yaml")
    return loaded


def binds(format_name: str, model: str) -> bool:
    """Whether thinking would be refused whose prefix has changed. `model` as the request names it."""
    if format_name not in table()["formats"]:
        return False
    return not any(fnmatchcase(model.lower(), glob) for glob in table()["unbound"])


def may_drop(format_name: str, document: Document) -> bool:
    """Whether a request may ask for it: the client has not decided about that itself."""
    if format_name != _FORMAT:
        return False
    thinking = document.members(document.members(document.root).get("thinking"))
    return "prefix_mismatch_behavior" not in document.members(thinking.get("block_binding"))


def drop(document: Document, headers: Mapping[str, str], host: str, dropped: bool) -> str:
    """Edit a request of which `may_drop` is true; the value that its beta header needs, or empty: no other.

    `headers` with names in lower case; `host` without its port. `dropped`: some reasoning was dropped
    already, in the way that the headers allow.
    """
    betas = headers.get(HEADER, "")
    offered = _FAMILY in betas
    if offered and dropped:
        return ""
    own = f".{host}".endswith(_OWN_HOSTS)
    changed = FORMATS[_FORMAT].drop_unbound(document, 0, offered or own)
    asks = changed and "thinking" in document.members(document.root)
    return ",".join(filter(None, (betas, _BETA))) if asks and own and not offered else ""
