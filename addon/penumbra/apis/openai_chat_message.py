"""An assistant message of Chat Completions, put together so that a request can carry it.

Compatible APIs add members of their own (`reasoning_content`, `reasoning_details`, thought
signatures in tool calls) and want them back: everything that a delta says is kept. Only what an
response has and no request may have is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penumbra.apis.parts import short_hash
from penumbra.wire.json_values import NotJson, decode, encode

_NOT_RETURNED = ("annotations", "audio", "index")
_SET_ONCE = ("id", "type", "index")


@dataclass(slots=True)
class Message:
    """Deltas of one choice in, one message out."""

    _members: dict[str, Any] = field(default_factory=dict)
    _content: list[Any] = field(default_factory=list)
    """Pieces of text, or parts."""
    _calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    _pieces: dict[int, list[str]] = field(default_factory=dict)
    """The arguments of each call, piece by piece."""
    _at: dict[int, int] = field(default_factory=dict)
    """The call that an index stands for; some providers use one index for several calls."""

    @property
    def text(self) -> str:
        pieces = (part if isinstance(part, str) else _part_text(part) for part in self._content)
        return "".join(pieces)

    def add(self, delta: dict[str, Any]) -> None:
        """Take in one delta."""
        for key, value in delta.items():
            if key == "content":
                self._content += value if isinstance(value, list) else [value] if value is not None else []
            elif key == "tool_calls" and isinstance(value, list):
                for fragment in value:
                    if isinstance(fragment, dict):
                        self._add_call(fragment)
            elif key != "role" and value is not None:
                _merge(self._members, key, value)

    def number(self, fragment: dict[str, Any]) -> int:
        """Which call a fragment belongs to, counted in the order in which they began."""
        index, call_id = fragment.get("index"), fragment.get("id")
        current = self._at.get(index) if isinstance(index, int) else max(self._calls, default=None)
        id_ = self._calls.get(current, {}).get("id") if current is not None else None
        if current is not None and (not call_id or not id_ or call_id == id_):
            return current
        same = (number for number, call in self._calls.items() if call_id and call.get("id") == call_id)
        return next(same, len(self._calls))

    def call_name(self, number: int) -> str:
        return str(self._function(number).get("name") or "")

    def call_id(self, number: int) -> str:
        return str(self._calls.get(number, {}).get("id") or "")

    def call_arguments(self, number: int) -> str:
        """JSON text, as the model wrote it."""
        return "".join(self._pieces.get(number, ()))

    def json(self) -> bytes | None:
        """The message as a request would carry it; None if it says nothing."""
        if not any(self._content) and not self._calls and not self._members:
            return None
        parts = any(not isinstance(part, str) for part in self._content)
        content: Any = _as_parts(self._content) if parts else self.text if self._content else None
        if not content and self._calls:
            content = None
        members = {key: value for key, value in self._members.items() if key not in _NOT_RETURNED}
        message: dict[str, Any] = {"role": "assistant", "content": content, **members}
        if self._calls:
            message["tool_calls"] = [self._call(number) for number in sorted(self._calls)]
        return encode(message)

    def _function(self, number: int) -> dict[str, Any]:
        call = self._calls.get(number, {})
        function = call.get("function") or call.get("custom")
        return function if isinstance(function, dict) else {}

    def _add_call(self, fragment: dict[str, Any]) -> None:
        number = self.number(fragment)
        call = self._calls.setdefault(number, {})
        if isinstance(fragment.get("index"), int):
            self._at[fragment["index"]] = number
        for key, value in fragment.items():
            if key == "function" and isinstance(value, dict):
                function = call.setdefault("function", {})
                for inner, said in value.items():
                    if inner == "arguments":
                        self._add_arguments(number, said)
                    elif said is not None and not (inner == "name" and function.get("name") == said):
                        _merge(function, inner, said)
            elif value is not None:
                _merge(call, key, value)

    def _add_arguments(self, number: int, said: Any) -> None:
        if said is not None:
            piece = said if isinstance(said, str) else encode(said).decode()
            self._pieces.setdefault(number, []).append(piece)

    def _call(self, number: int) -> dict[str, Any]:
        call = {key: value for key, value in self._calls[number].items() if key != "index"}
        call.setdefault("type", "function")
        if call["type"] == "function":
            arguments = _object_text(self.call_arguments(number))
            call["function"] = {**self._function(number), "arguments": arguments}
        return call


def from_members(members: dict[str, bytes]) -> bytes | None:
    """A message of a JSON response as a request would carry it; values are JSON and stay as they are."""
    kept = {
        key: value
        for key, value in members.items()
        if key not in _NOT_RETURNED and (value != b"null" or key == "content")
    }
    kept.setdefault("role", b'"assistant"')
    if set(kept) <= {"role", "content"} and kept.get("content", b"null") in (b"null", b'""'):
        return None
    return b"{" + b",".join(encode(key) + b":" + value for key, value in kept.items()) + b"}"


def call_token(name: str, arguments: str) -> str:
    """What a call is known by where its id is not unique. Clients may write its JSON anew."""
    try:
        return short_hash(name, decode(arguments.encode("utf-8", "surrogatepass")))
    except NotJson:
        return short_hash(name, arguments)


def merged(fragments: list[dict[str, Any]]) -> dict[str, Any]:
    """Fragments of one call as one fragment."""
    whole: dict[str, Any] = {}
    for fragment in fragments:
        for key, value in fragment.items():
            _merge(whole, key, dict(value) if isinstance(value, dict) else value)
    return whole


def _merge(target: dict[str, Any], key: str, value: Any) -> None:
    """Put a piece of a member behind what is there."""
    have = target.get(key)
    if isinstance(value, str) and isinstance(have, str):
        target[key] = have if key in _SET_ONCE else have + value
    elif isinstance(value, list) and isinstance(have, list):
        for item in value:
            _merge_item(have, item)
    elif isinstance(value, dict) and isinstance(have, dict):
        for inner, said in value.items():
            if said is not None:
                _merge(have, inner, said)
    else:
        target[key] = list(value) if isinstance(value, list) else value


def _merge_item(items: list[Any], item: Any) -> None:
    """Pieces of the same numbered item become one."""
    last = items[-1] if items else None
    if not isinstance(item, dict) or not isinstance(last, dict) or _number(item) != _number(last):
        items.append(item)
        return
    items[-1] = merged = dict(last)
    for key, value in item.items():
        if value is not None and not (key == "format" and merged.get(key) == value):
            _merge(merged, key, value)


def _number(item: dict[str, Any]) -> object:
    """What pieces of one item have in common; without an index nothing has."""
    return (item["index"], item.get("type")) if "index" in item else object()


def _part_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def _as_parts(content: list[Any]) -> list[Any]:
    """Text pieces and parts as a list of parts."""
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in content if part]


def _object_text(text: str) -> str:
    """Arguments that aren't JSON break some providers' templates: an empty object stands for them."""
    try:
        return text if isinstance(decode(text.encode("utf-8", "surrogatepass")), dict) else "{}"
    except NotJson:
        return "{}"
