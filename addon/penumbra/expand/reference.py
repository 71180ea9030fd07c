"""References to originals, the scope in which a reference is valid, and the declaration of the injected
tool.

A reference is a keyed hash of scope and redacted original: the same text in the same conversation has the
same reference, and nobody without the installation's key can make one. References are never looked for in
incoming text: a marker in a tool result is data.

A reference has 18 decimal digits, since tokenizers take three of them at a time: half the tokens of 32
hexadecimal ones, the whole hash. The whole hash is written where the brief form belongs to another text
already, or where the request does not carry the other texts to compare; earlier releases wrote it
everywhere. Both are found.

The declaration of the tool has constant bytes: tools come first in the prefix that providers cache and that
signed reasoning is bound to.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Tool, Tools
from penumbra.apis.parts import is_telling
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode


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


_DIGITS = 18
_MANY = 10**_DIGITS
_FORM = re.compile(rf"shadow_(?:[0-9]{{{_DIGITS}}}|([0-9a-f]{{32}}))", re.ASCII)
_PERSON = b"penumbra ref"
SAMPLE = f"shadow_{'0' * _DIGITS}"
_LONG_SAMPLE = f"shadow_{'0' * 32}"
"""References to nothing, as long as the others."""


def whole(key: bytes, scope: bytes, original: str) -> str:
    """The reference of a redacted original with its whole hash. `key` is secret, at most 64 bytes."""
    digest = hashlib.blake2b(key=key, digest_size=16, person=_PERSON)
    digest.update(len(scope).to_bytes(4, "big") + scope + original.encode("utf-8", "surrogatepass"))
    return f"shadow_{digest.hexdigest()}"


def brief(reference: str) -> str:
    """The brief form of a reference; one that is brief, or none, as it is."""
    match = _FORM.fullmatch(reference)
    return f"shadow_{int(match[1], 16) % _MANY:0{_DIGITS}}" if match and match[1] else reference


def _none(_ref: str) -> str | None:
    return None


def is_ref(text: str) -> bool:
    """Whether a text has the form of a reference."""
    return _FORM.fullmatch(text) is not None


def copied(value: Any) -> str:
    """The reference in what a model gives for one: with the marker around it, without its beginning, as a
    number. Empty where it gives nothing."""
    if isinstance(value, int) and _MANY // 1000 <= value < _MANY:
        value = f"{value:0{_DIGITS}}"
    if not isinstance(value, str):
        return ""
    text = value.strip().removeprefix("<<<").removeprefix("SHADOW:").removesuffix(">>>")
    return f"shadow_{text}" if is_ref(f"shadow_{text}") else text


def prefix(reference: str, tool: str, hint: bool) -> str:
    """What stands in front of a text that lost something; `tool` is the injected tool's name."""
    line = f"[Shortened. Full text: {tool}.]\n" if hint else ""
    return f"<<<SHADOW:{reference}>>>\n{line}"


@dataclass(frozen=True, slots=True)
class References:
    """References and prefixes of one conversation, for one request of it."""

    key: bytes
    scope: bytes
    tool: str
    hint: bool
    is_brief: bool = True
    """The request carries the texts of its conversation, so that no two of them get the same reference."""
    held: Callable[[str], str | None] = _none
    """The redacted original that the request carries under a reference of the past; None: it has none."""
    _taken: dict[str, str] = field(default_factory=dict, compare=False)
    """Brief references, and the whole ones that they stand for."""

    def ref(self, original: str) -> str:
        """The reference of a redacted original: the brief one, but where that is another text's."""
        long = self.whole(original)
        if not self.is_brief:
            return long
        short = brief(long)
        if short not in self._taken:
            past = self.held(short)
            self._taken[short] = long if past is None else self.whole(past)
        return short if self._taken[short] == long else long

    def whole(self, original: str) -> str:
        """The reference of a redacted original with its whole hash."""
        return whole(self.key, self.scope, original)

    def prefix(self, reference: str) -> str:
        """What stands in front of a text that lost something."""
        return prefix(reference, self.tool, self.hint)

    def overhead(self) -> str:
        """A prefix as long as those of most texts."""
        return self.prefix(SAMPLE if self.is_brief else _LONG_SAMPLE)


NAMES = ("expand_context", "penumbra_expand_context")
"""The second one is for requests in which a client tool has the first one's name."""

EDITING_NAMES = {name: name.replace("context", "original") for name in NAMES}
"""The same in conversations in which values are put back into edits: the legend is another one there,
and a conversation keeps its tool, whatever becomes of the setting."""

LEGEND = "[REDACTED:kind:code] hides a secret: never write it in its place."
"""What placeholders are. It stands here because these bytes are in every request from the first one on,
so that no cached prefix moves when the first secret comes."""
EDITING_LEGEND = (
    "[REDACTED:kind:code] stands for a secret value; write it as it is where you edit the file that it "
    "came from, and nowhere else in the value's place."
)
_DESCRIPTION = (
    "Full text behind <<<SHADOW:id>>>, or its lines that match `pattern` (RE2), or `lines` 120-180. "
    "Use it, don't guess or rerun. [N lines: same as in …]: the named earlier result shows them. "
)
_PARAMETERS = encode(
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "pattern": {"type": "string"},
            "lines": {"type": "string"},
        },
        "required": ["id"],
    }
)
"""As few bytes as will do, since they are sent with every request: in small conversations they are most of
what it costs. `query` takes `ignore_case`, `context` and `offset` too; where a part begins within a line, its
answers say so in `lines`."""


def tool(name: str) -> Tool:
    """The declaration under one of `NAMES` or `EDITING_NAMES`."""
    legend = EDITING_LEGEND if name in EDITING_NAMES.values() else LEGEND
    return Tool(name, _DESCRIPTION + legend, _PARAMETERS)


def editing_name(name: str, tools: Tools) -> str:
    """The name that takes this one's place where a conversation begins in which edits get values."""
    other = EDITING_NAMES.get(name, name)
    return name if other in tools.names else other


def brought(wire: ApiFormat, request: Document, tools: Tools) -> str:
    """Return the name under which a summary of the provider's declares the tool in a request; or empty."""
    names = (name for name in (*NAMES, *EDITING_NAMES.values()) if name not in tools.names)
    return next((name for name in names if wire.brings(request, tool(name))), "")


def name_for(tools: Tools) -> str | None:
    """The injected tool's name in a request, None where it does not belong: without client tools, where an
    response can't be continued, and where a lone tool is forced, which asks for data in a shape."""
    if not tools.own or not tools.continuable or (tools.forced and len(tools.names) == 1):
        return None
    return next((name for name in NAMES if name not in tools.names), None)
