"""This module finds the reason of a refusal and by how much the request is too large, and computes the
savings for a retry.

`rules/refusals.yaml` has the refusals of providers. A response is read as a chain of error objects: the
outermost error, then errors that gateways have wrapped. Only the beginnings of messages count, so that a
quoted conversation does not match.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import structs

from penumbra import rules
from penumbra.conversation.context_windows import Bounds
from penumbra.conversation.planner import SLACK, Need
from penumbra.linear import LinearText
from penumbra.store.conversations import LearnedLimits
from penumbra.wire.json_values import NotJson, decode

MAX_BODY_BYTES = 262_144
"""A response with more bytes is no refusal."""
_DEPTH = 6
"""The greatest number of nested wrappers that are removed."""
_FRONT = 2_000
"""Only this number of characters at the beginning of a message is examined."""
_DENIED = 300
_NEVER = (401, 402, 403, 404)


class Cause(StrEnum):
    """A `Cause` is the limit that a request exceeds, or the part of the request that the provider refuses."""

    INPUT = "input"
    RESERVE = "reserve"
    BYTES = "bytes"
    FIELD = "field"
    WINDOW = "window"
    BINDING = "binding"
    """The request contains reasoning that the model wrote after another prefix."""
    DECLARATION = "declaration"
    """The request declares a tool after a message."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A `Refusal` is a response that refuses a request. Numbers are tokens, bytes or characters, by kind."""

    kind: Cause
    rule: str
    """The rule's id."""
    have: int | None = None
    """The size of the request by the provider's count; None if unknown."""
    limit: int | None = None
    over: int | None = None
    """By how much the request exceeds the limit; None if unknown."""
    leave: bool = False
    """True if the client gets the refusal and no other request is tried."""


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """An `ErrorObject` is the body of an error response, or an error that a gateway has wrapped in it."""

    message: str
    outer: str
    """The message with prefixes of gateways."""
    names: frozenset[str]
    """Code, type and status word."""
    members: Mapping[str, Any]
    raw: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A `_Rule` is an entry of `refusals` in `rules/refusals.yaml`. The head of that file describes the
    members."""

    id: str
    kind: Cause
    message: str = ""
    outer: str = ""
    names: frozenset[str] = frozenset()
    status: frozenset[int] = frozenset()
    hosts: tuple[str, ...] = ()
    raw: str = ""
    members: Mapping[str, str] = field(default_factory=dict)
    most: int | None = None
    assumed_limit: int | None = None
    least_tokens: int = 0
    empty: bool = False
    leave: bool = False


def classify(status: int, body: bytes, host: str = "", tokens: int = 0) -> Refusal | None:
    """Return the refusal in a response, or in the data of a stream's event; None if there is none. `host` is
    the host of the request, and `tokens` its estimated size."""
    if status in _NEVER or len(body) > MAX_BODY_BYTES:
        return None
    errors = list(error_objects(body))
    for error in errors:
        if _deny().search(error.message[:_DENIED].lower()):
            return None
    bare = status == 413 or not body.strip()
    for rule in _rules():
        if rule.status and status not in rule.status:
            continue
        if rule.hosts and not any(fnmatchcase(host.lower(), glob) for glob in rule.hosts):
            continue
        if rule.least_tokens > tokens:
            continue
        if rule.empty or rule.status == {413}:
            if bare and (not rule.empty or not body.strip()):
                return Refusal(rule.kind, rule.id)
            continue
        for error in errors:
            if (refusal := _apply(rule, error)) is not None:
                return refusal
    return None


def error_objects(body: bytes) -> Iterator[ErrorObject]:
    """Yield the error objects of a response, the outermost first."""
    try:
        value = decode(body)
    except NotJson:
        return
    yield from _objects(value, _DEPTH)


def _objects(value: Any, depth: int) -> Iterator[ErrorObject]:
    if depth == 0:
        return
    if isinstance(value, list):
        yield from _objects(value[0] if value else None, depth - 1)
    if not isinstance(value, dict):
        return
    response = value.get("response")
    if value.get("type") == "response.failed" and isinstance(response, dict):
        yield from _objects({"error": response.get("error")}, depth - 1)
        return
    base = value.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        yield _error({"message": base.get("status_msg"), "code": base.get("status_code")})
        return
    error = value.get("error", value.get("detail") if isinstance(value.get("detail"), str) else None)
    if isinstance(error, str):
        error = {**value, "message": error}
    elif error is None and _is_flat(value):
        error = value
    if not isinstance(error, dict):
        return
    inner = _error(error)
    yield inner
    yield from _wrapped(inner.message, depth)
    if inner.raw:
        yield from _wrapped(inner.raw, depth, plain=True)


def _is_flat(value: Mapping[str, Any]) -> bool:
    """Return whether an object is itself an error: it has a message, but no member of a model's response."""
    return isinstance(value.get("message"), str) and not {"choices", "content", "output", "candidates"} & set(
        value
    )


def _error(error: Mapping[str, Any]) -> ErrorObject:
    metadata = error.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    raw = metadata.get("raw")
    words = [error.get(key) for key in ("code", "type", "status")] + [metadata.get("error_type")]
    message = error.get("message")
    outer = message[:_FRONT] if isinstance(message, str) else ""
    return ErrorObject(
        message=_peeled(outer),
        outer=outer,
        names=frozenset(str(word) for word in words if isinstance(word, (str, int))),
        members=error,
        raw=raw if isinstance(raw, str) else "",
    )


def _wrapped(text: str, depth: int, plain: bool = False) -> Iterator[ErrorObject]:
    """Yield the error objects in a message: JSON, or a Python literal such as `b'{...}'`. With `plain`, any
    other text is the message of an error object."""
    text = text[:MAX_BODY_BYTES].strip()
    if text[:2] in ("b'", 'b"'):
        try:
            written = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return
        text = written.decode("utf-8", "replace").strip() if isinstance(written, bytes) else ""
    if text[:1] in ("{", "["):
        try:
            yield from _objects(decode(text.encode("utf-8", "surrogatepass")), depth - 1)
        except NotJson:
            return
    elif plain and text:
        yield _error({"message": text})


def _peeled(message: str) -> str:
    """Return a message without the prefixes that gateways put before it."""
    for _ in range(_DEPTH):
        match = _prefixes().match(message)
        if match is None or match.end() == 0:
            break
        message = message[match.end() :]
    return message


def _apply(rule: _Rule, error: ErrorObject) -> Refusal | None:
    named = bool(rule.names & error.names)
    match = _pattern(rule.message).match(error.message) if rule.message else None
    if rule.message and rule.names:
        # A name may be only a number, so if a rule also has a message, both must match.
        matched = named and match is not None
    elif rule.outer:
        matched = _pattern(rule.outer).match(error.outer) is not None
    elif rule.raw:
        matched = error.raw == rule.raw
    else:
        matched = named or match is not None
    if not matched:
        return None
    groups = {name: value for name, value in (match.groupdict() if match else {}).items() if value}
    limit = rule.most or rule.assumed_limit
    numbers = {} if limit is None else {"limit": limit}
    numbers |= {name: int(value) for name, value in groups.items() if len(value) <= 12}
    for name, member in rule.members.items():
        if isinstance(error.members.get(member), int):
            numbers[name] = error.members[member]
    return _refusal(rule, numbers)


def _refusal(rule: _Rule, numbers: Mapping[str, int]) -> Refusal | None:
    kind, leave = rule.kind, rule.leave
    have, limit, over = numbers.get("have"), numbers.get("limit"), numbers.get("over")
    prompt = numbers.get("input", 0) + numbers.get("tools", 0)
    if have is None and "output" in numbers:
        have = prompt + numbers["output"]
    if kind is Cause.RESERVE and limit is not None and prompt >= limit:
        kind, leave = Cause.INPUT, False
    if kind is Cause.WINDOW and (have is None or limit is None or have <= limit):
        return None
    if over is None and have is not None and limit is not None:
        over = max(0, have - limit)
    return Refusal(kind, rule.id, have, limit, over, leave)


table = partial(rules.table, "refusals.yaml")


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(msgspec.convert(table()["refusals"], list[_Rule]))


@cache
def _pattern(source: str) -> LinearText:
    return LinearText(source)


@cache
def _prefixes() -> LinearText:
    return LinearText("(?:" + "|".join(table()["prefixes"]) + ")")


@cache
def _deny() -> LinearText:
    return LinearText("(?i)(?:" + "|".join(entry["message"] for entry in table()["deny"]) + ")")


RESENDS = 2
_SHARES = (0.35, 0.65)
"""After a refusal without numbers, the first and the second retry leave out this fraction of the request."""
_FIELD = 100_000
"""If the provider names no limit for a text, this number of its characters stays."""


def need(refusal: Refusal, estimated: int, sent: int, resend: int, *, elsewhere: bool = False) -> Need | None:
    """Return the savings that a retry needs after a refusal; None if there should be no retry. The refused
    request has `estimated` tokens and `sent` bytes. `resend` counts from 0. With `elsewhere`, the provider
    adds the history that it stores to the request."""
    if refusal.leave or resend >= RESENDS:
        return None
    share = _SHARES[resend]
    if refusal.kind is Cause.FIELD:
        return Need(most=(refusal.limit or _FIELD) >> (2 * resend if not refusal.limit else 0))
    if refusal.kind is Cause.BYTES:
        if refusal.limit and refusal.limit < sent:
            return Need(bytes=sent - int(refusal.limit * SLACK))
        return Need(bytes=int(sent * share))
    if elsewhere:
        # Only the new messages can shrink, since the provider has the history.
        over = refusal.over or int(estimated * share)
        return Need(tokens=max(1, min(estimated, over + (resend + 1) * over // 2)))
    if refusal.over is None:
        if refusal.limit and refusal.limit < estimated:
            return Need(tokens=max(estimated - int(refusal.limit * SLACK), int(estimated * share / 2)))
        return Need(tokens=int(estimated * share))
    # The provider counts its own tokens, so the result is converted to estimated tokens.
    have = refusal.have or max(estimated, refusal.over + 1)
    limit = refusal.limit or have - refusal.over
    wanted = have - int(limit * (SLACK - 0.1 * resend))
    return Need(tokens=max(1, estimated * wanted // max(1, have)))


def learned_from(refusal: Refusal, estimated: int) -> LearnedLimits:
    """Return the limits that follow from a refusal, for later requests of the conversation. `estimated` is
    the number of tokens of the refused body, or 0 if the provider counts more than the body."""
    if refusal.kind is Cause.FIELD:
        return LearnedLimits(most=refusal.limit or 0)
    if refusal.kind is Cause.BYTES:
        return LearnedLimits(bytes=refusal.limit or 0)
    if refusal.limit is None or (refusal.have is not None and refusal.have <= refusal.limit):
        # There is no limit, or the request is within it.
        return LearnedLimits()
    if refusal.kind is Cause.RESERVE:
        return LearnedLimits(window=refusal.limit)
    window = 0 if refusal.kind is Cause.WINDOW else refusal.limit
    if not estimated:
        return LearnedLimits(window=window)
    if refusal.have:
        return LearnedLimits(tokens=estimated * refusal.limit // refusal.have, window=window)
    return LearnedLimits(tokens=min(refusal.limit, estimated), window=window)


def bounds_after(bounds: Bounds, refusal: Refusal) -> Bounds:
    """Return the bounds of a conversation after one more refusal."""
    if not refusal.limit:
        return bounds
    if refusal.kind is Cause.BYTES:
        return structs.replace(bounds, body_bytes=refusal.limit)
    is_input = refusal.kind in (Cause.INPUT, Cause.RESERVE)
    return structs.replace(bounds, tokens=refusal.limit) if is_input else bounds
