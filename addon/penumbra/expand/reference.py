"""This module makes references to originals, and the declaration of the injected tool.

A reference is a keyed hash of scope and redacted original. Equal texts of one conversation therefore have the
same reference, and only the installation's key can make a reference. A reference in a tool result has no
meaning there, since results are data.

A reference has two forms. The whole form has 32 hexadecimal digits. The brief form has 18 decimal digits and
takes about half as many tokens. A reference gets the whole form if another text of the request has the same
brief form, or if the request lacks texts of its conversation. Earlier releases wrote only the whole form.
Both forms are understood.

The declaration of the tool has constant bytes, since the tools begin the prefix that providers cache.
Reasoning is also bound to this prefix.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Tool, Tools
from penumbra.compress.token_estimate import estimate
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode

_DIGITS = 18
MANY = 10**_DIGITS
_FORM = re.compile(rf"shadow_(?:[0-9]{{{_DIGITS}}}|([0-9a-f]{{32}}))", re.ASCII)
_PERSON = b"penumbra ref"
SAMPLE = f"shadow_{'0' * _DIGITS}"
_LONG_SAMPLE = f"shadow_{'0' * 32}"


def whole(key: bytes, scope: bytes, original: str) -> str:
    """Return the reference of a redacted original with its whole hash. `key` is secret, at most 64 bytes."""
    digest = hashlib.blake2b(key=key, digest_size=16, person=_PERSON)
    digest.update(len(scope).to_bytes(4, "big") + scope + original.encode("utf-8", "surrogatepass"))
    return f"shadow_{digest.hexdigest()}"


def brief(reference: str) -> str:
    """Return the brief form of a whole reference, and any other text unchanged."""
    match = _FORM.fullmatch(reference)
    return f"shadow_{int(match[1], 16) % MANY:0{_DIGITS}}" if match and match[1] else reference


def is_ref(text: str) -> bool:
    return _FORM.fullmatch(text) is not None


def copied(value: Any) -> str:
    """Return the reference in an argument, which may be the whole marker, the digits alone, or a number.
    Return any other text without the marker's signs, and an empty text for any other value."""
    if isinstance(value, int) and MANY // 1000 <= value < MANY:
        value = f"{value:0{_DIGITS}}"
    if not isinstance(value, str):
        return ""
    text = value.strip().removeprefix("<<<").removeprefix("SHADOW:").removesuffix(">>>")
    return f"shadow_{text}" if is_ref(f"shadow_{text}") else text


def prefix(reference: str, tool: str, hint: bool) -> str:
    """Return the text before a shortened text. `tool` is the injected tool's name."""
    line = f"[Shortened. Full text: {tool}.]\n" if hint else ""
    return f"<<<SHADOW:{reference}>>>\n{line}"


class References(Struct, frozen=True, eq=False):
    """A `References` makes the references and prefixes of one request."""

    key: bytes
    scope: bytes
    tool: str
    hint: bool
    is_brief: bool = True
    """True if the request has all texts of its conversation, so that no two texts get the same brief form."""
    carried: Callable[[str], str | None] = lambda ref: None
    """A function that returns the redacted original of an earlier reference, if the request contains it."""
    _taken: dict[str, str] = msgspec.field(default_factory=dict)
    """Whole references by their brief forms."""

    def ref(self, original: str) -> str:
        """Return the reference of a redacted original, in brief form if no other text has this form."""
        long = self.whole(original)
        if not self.is_brief:
            return long
        short = brief(long)
        if short not in self._taken:
            past = self.carried(short)
            self._taken[short] = long if past is None else self.whole(past)
        return short if self._taken[short] == long else long

    def whole(self, original: str) -> str:
        return whole(self.key, self.scope, original)

    def prefix(self, reference: str) -> str:
        """Return the text before a shortened text."""
        return prefix(reference, self.tool, self.hint)

    def overhead(self) -> str:
        """Return a prefix of the usual length, for estimates."""
        return self.prefix(SAMPLE if self.is_brief else _LONG_SAMPLE)


NAMES = ("expand_context", "penumbra_expand_context")
"""The names of the injected tool. The second name is for clients that have a tool with the first name."""
EDITING_NAMES = {name: name.replace("context", "original") for name in NAMES}
"""Names of the tool if secrets are put back into edits. The tool's description then explains this. A
conversation keeps its tool when the setting changes."""
LEGEND = "[REDACTED:kind:code] hides a secret: never write it in its place."
"""The explanation of placeholders in the tool's description, even if no secret was found."""
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
        "properties": {"id": {"type": "string"}, "pattern": {"type": "string"}, "lines": {"type": "string"}},
        "required": ["id"],
    }
)
"""The parameters are few, since every request has them. Calls may also have `ignore_case`, `context` and
`offset`. If the next part begins within a line, answers suggest `lines` with an offset."""


def tool(name: str) -> Tool:
    legend = EDITING_LEGEND if name in EDITING_NAMES.values() else LEGEND
    return Tool(name, _DESCRIPTION + legend, _PARAMETERS)


@lru_cache(8)
def tool_tokens(name: str) -> int:
    """Return the estimated tokens of the declaration in a request, with its JSON."""
    declared = tool(name)
    value = {"name": name, "description": declared.description, "input_schema": declared.parameters.decode()}
    return estimate(encode(value).decode())


def editing_name(name: str, tools: Tools) -> str:
    """Return the tool's name for a conversation in which secret values are put back into edits."""
    other = EDITING_NAMES.get(name, name)
    return name if other in tools.names else other


def brought(wire: ApiFormat, request: Document, tools: Tools) -> str:
    """Return the injected tool's name if the provider's summary of the history has it; otherwise empty."""
    return next((name for name in free_names(tools) if wire.brings(request, tool(name))), "")


def free_names(tools: Tools) -> list[str]:
    """Return the names that the injected tool may have, without the names of the client's tools."""
    return [name for name in (*NAMES, *EDITING_NAMES.values()) if name not in tools.names]


def name_for(tools: Tools) -> str | None:
    """Return the injected tool's name in a request; None if the request can't have the tool. The client must
    declare tools, and the response must be continuable. A request that forces its only tool, to get
    structured data, can't have the injected tool."""
    if not tools.own or not tools.continuable or (tools.forced and len(tools.names) == 1):
        return None
    return next((name for name in NAMES if name not in tools.names), None)
