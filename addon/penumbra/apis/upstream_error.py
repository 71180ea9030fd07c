"""This module converts errors of hidden requests to errors for the client.

The provider's message is about the hidden request and may quote it. Therefore the client gets the status, the
names of the error, the delay, and a message in Penumbra's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from penumbra.apis.base import Failure
from penumbra.wire.json_values import NotJson, decode, encode

PASSING = (429, 500, 502, 503, 504, 529)
"""After these statuses, the same request may succeed a moment later."""
_BAD_GATEWAY = 502
_LONGEST_NAME = 64
_LONGEST_WORDS = 400
ANTHROPIC = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_OPENAI = {
    # Quotas are not in the table, because they do not recover soon.
    "context_length_exceeded": 400,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 503,
}
GOOGLE = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
AMAZON = {
    "validationException": 400,
    "modelTimeoutException": 408,
    "modelStreamErrorException": 424,
    "throttlingException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
_STATUS: Mapping[str, int] = {**ANTHROPIC, **_OPENAI, **GOOGLE, **AMAZON}
"""Maps the providers' names of errors to HTTP statuses."""


def by_status(names: Mapping[str, int]) -> dict[int, str]:
    return {status: name for name, status in names.items()}


class DescribedError(Struct, frozen=True):
    """A `DescribedError` is an error without the provider's words."""

    status: int | None
    """HTTP status, or the status that the error itself names."""
    message: str
    type: str = ""
    code: str | int = ""
    state: str = ""
    """The name of the status in Google's APIs."""


def described(failure: Failure, hidden: str) -> DescribedError:
    """Return the error for the client. `hidden` is the name of a tool that the client does not know.

    The provider accepted the client's own request, so a final refusal is about a hidden request. Instead of
    the refusal, the client gets "bad gateway" and tries again. An error that the provider reported in a
    stream keeps its status.
    """
    error = _described(failure, hidden)
    keeps = failure.reported or error.status in PASSING
    return error if keeps else DescribedError(_BAD_GATEWAY, error.message)


def _described(failure: Failure, hidden: str) -> DescribedError:
    error = _error(failure.body)
    kind, state = (_name(error.get(key), hidden) for key in ("type", "status"))
    number = error.get("code")
    code: str | int = number if _is_status(number) else _name(number, hidden)
    statuses = [_STATUS.get(str(name)) for name in (code, kind, state)]
    named_status = code if isinstance(code, int) else next((status for status in statuses if status), None)
    status = failure.status if failure.status is not None and failure.status >= 400 else named_status
    message = failure.message
    if failure.retry_after is not None:
        message += f". Please try again in {failure.retry_after:g}s."
    return DescribedError(status, message, kind, code, state)


def status(failure: Failure) -> int | None:
    """Return the HTTP status of a failure, or the status that the error itself names."""
    return _described(failure, "").status


def words(failure: Failure) -> str:
    """Return the provider's message as one short line, which may contain secrets."""
    error = _error(failure.body)
    names = [str(error[key]) for key in ("type", "code", "status") if error.get(key)]
    message = error.get("message") or error.get("Message") or ""
    return " ".join([*names, " ".join(str(message).split())])[:_LONGEST_WORDS]


def openai_error(error: DescribedError) -> bytes:
    status = error.status or _BAD_GATEWAY
    kind = "" if error.type in ("error", "response.failed") else error.type
    kind = kind or ("invalid_request_error" if status < 500 and status != 429 else "server_error")
    code = error.code or ("rate_limit_exceeded" if status == 429 else None)
    return encode({"error": {"message": error.message, "type": kind, "param": None, "code": code}})


def _error(body: bytes) -> dict[str, Any]:
    """Return the object that describes the error. APIs put this object in several places."""
    try:
        value = decode(body)
    except NotJson:
        return {}
    value = value[0] if isinstance(value, list) and value else value
    if not isinstance(value, dict):
        return {}
    holders = (value, value.get("response"))
    for holder in holders:
        inner = holder.get("error") if isinstance(holder, dict) else None
        if isinstance(inner, dict):
            return inner
        if isinstance(inner, str) and inner:
            return {"message": inner}
    # An event with the name `error` is itself the object.
    return {key: one for key, one in value.items() if (key, one) != ("type", "error")}


def _name(value: object, hidden: str) -> str:
    """Return a value if it looks like the name of a kind of error; empty for other values."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or (hidden and hidden in value):
        return ""
    plain = value.replace("_", "").replace(".", "").replace("-", "")
    return value if plain.isascii() and plain.isalnum() else ""


def _is_status(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600
