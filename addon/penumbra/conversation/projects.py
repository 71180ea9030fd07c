"""Which project a conversation is about, by a short name: the last part of the folder that its client names.

The whole path stays here; two folders of one name are told apart by a keyed hash.
"""

from __future__ import annotations

import hashlib
import re

from cachetools import LRUCache

from penumbra.apis import session
from penumbra.conversation.model import Request
from penumbra.linear import utf8
from penumbra.redaction.shown_names import ShowName

_MOST = 4_096
_LONGEST = 32
_SEPARATORS = re.compile(r"[\\/]+")


class Projects:
    """State: the names of the latest conversations: what goes on at the provider does not say it again."""

    def __init__(self, key: bytes) -> None:
        """`key`: the installation's."""
        self._key = key
        self._names: LRUCache[bytes, str] = LRUCache(_MOST)

    def name(self, conversation: bytes, request: Request, show: ShowName) -> str:
        """Such as `shop (3f2a)`; empty if the conversation has not said where it works."""
        if folder := session.stated(request.wire.prompt(request.document), request.document):
            self._names[conversation] = self._short(folder, show)
        return self._names.get(conversation, "")

    def _short(self, folder: str, show: ShowName) -> str:
        last = _SEPARATORS.split(folder.rstrip("\\/"))[-1]
        digest = hashlib.blake2b(utf8(folder), key=self._key[:64], digest_size=2, person=b"project")
        return f"{show(last)[:_LONGEST] or '/'} ({digest.hexdigest()})"
