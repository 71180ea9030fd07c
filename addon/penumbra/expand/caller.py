"""Who asks for originals, and how far what is theirs reaches."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from penumbra.apis.parts import is_telling


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is."""

    scope: bytes
    """Keyed hash of the connected host and all credentials; 32 bytes."""
    session: str
    """What all requests of the conversation have in common."""
    possession: bytes = b""
    """The same without what changes when a login is renewed: what the request proves by the history that
    it carries is looked for under this. Empty: nothing of it changes."""
    open: bool = False
    """There is no credential: only what a request proves counts."""
    joined: str = ""
    """What the requests that it shares originals with have in common; empty: it shares them with none."""

    @property
    def owner(self) -> bytes:
        """Who has to prove by a history that it is theirs."""
        return self.possession or self.scope

    def elsewhere(self, response_id: str) -> bytes:
        """Whose a response is that only the provider has: an id that could be anybody's proves nothing."""
        return self.owner if is_telling(response_id) else self.scope

    def conversation(self) -> bytes:
        """What is known of a conversation is scoped by this, and its references and originals; 32 bytes."""
        return self._session(self.session, self.scope)

    def shared(self) -> bytes:
        """Where the originals lie that it shares, 32 bytes; empty: nowhere. A name that is only said joins
        nothing that no credential stands behind."""
        return self._session(self.joined, self.scope) if self.joined and not self.open else b""

    def possessed(self) -> bytes:
        """The same for what the request has to prove."""
        return self._session(self.session, self.owner)

    @staticmethod
    def _session(name: str, whose: bytes) -> bytes:
        session = name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(session, key=whose, digest_size=32, person=b"penumbra opening").digest()
