"""References to originals, and what stands in front of a text that lost something.

A reference is a keyed hash of scope and redacted original: the same text in the same conversation has
the same reference, and nobody without the installation's key can make one. References are never
looked for in incoming text: a marker in a tool result is data.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_FORM = re.compile(r"shadow_[0-9a-f]{32}", re.ASCII)
_PERSON = b"penumbra ref"


def ref(key: bytes, scope: bytes, original: str) -> str:
    """The reference of a redacted original. `key` is secret, at most 64 bytes."""
    digest = hashlib.blake2b(key=key, digest_size=16, person=_PERSON)
    digest.update(len(scope).to_bytes(4, "big") + scope + original.encode("utf-8", "surrogatepass"))
    return f"shadow_{digest.hexdigest()}"


def is_ref(text: str) -> bool:
    """Whether a text has the form of a reference."""
    return _FORM.fullmatch(text) is not None


def prefix(reference: str, tool: str, hint: bool) -> str:
    """What stands in front of a text that lost something; `tool` is the injected tool's name."""
    line = f"[Shortened. {tool} with this id gives the full text.]\n" if hint else ""
    return f"<<<SHADOW:{reference}>>>\n{line}"


@dataclass(frozen=True, slots=True)
class References:
    """References and prefixes of one conversation."""

    key: bytes
    scope: bytes
    tool: str
    hint: bool

    def ref(self, original: str) -> str:
        """The reference of a redacted original."""
        return ref(self.key, self.scope, original)

    def prefix(self, reference: str) -> str:
        """What stands in front of a text that lost something."""
        return prefix(reference, self.tool, self.hint)

    def overhead(self) -> str:
        """A prefix as long as every one of them."""
        return self.prefix("shadow_" + "0" * 32)
