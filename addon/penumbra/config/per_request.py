"""This module reads the settings of one request: `_forge.tool_output_compression` in its body, and headers.
For a bad value, the client gets status 400 and an error in the format of the called API. Existing clients of
`_forge` know the messages. An unknown member is an error, too, since it is probably a mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penumbra import errors
from penumbra.compress.result import Mode
from penumbra.config.options import OPTIONS, Option, Settings
from penumbra.config.parsers import FLAG, MODE, meant, parse_mode

FIELD = "_forge"
THRESHOLD_HEADER = "x-compression-threshold"
SWITCH_HEADER = "x-penumbra"
_PATH = "_forge.tool_output_compression"
_BYTES_PER_TOKEN = 4
_SHOWN = 40
"""The greatest number of characters of a client's value that an error repeats."""
_MEMBERS = (
    "tool_output_compression",
    # Members of another gateway, which have no meaning here.
    *("schema_compression", "debug", "tool_call_policy", "required_steps", "terminal_tools"),
    *("return_raw_on_guardrail_failure", "tool_status"),
)
_OPTIONS = {option.name: option for option in OPTIONS if option.row.per_request}
_METHODS = ("lzw", "repair", "re-pair", "auto")
_FIELDS = (*_OPTIONS, "session_id", "method", "memo")
"""Allowed members of the object. Clients also send the last two, which have no effect."""


class OverrideError(ValueError):
    """An `OverrideError` has the reason why a request's settings are impossible, for the client."""


def apply(settings: Settings, forge: Any) -> Settings:
    """Return the settings for one request with the value of its `_forge` member. Raises OverrideError."""
    if not isinstance(forge, dict):
        raise OverrideError("_forge must be an object")
    _refuse_unknown(FIELD, forge, _MEMBERS)
    if "tool_output_compression" not in forge:
        return settings
    wanted = forge["tool_output_compression"]
    if isinstance(wanted, str):
        changed = replace(settings, mode=_mode(wanted))
    elif isinstance(wanted, dict):
        changed = _apply_object(settings, wanted)
    else:
        raise OverrideError(f"{_PATH} must be a string or object")
    # The operator or a header of the request has set the pause. No member of the body may end it.
    return changed.untouched() if settings.pause else changed


def _apply_object(settings: Settings, wanted: Mapping[str, Any]) -> Settings:
    _refuse_unknown(_PATH, wanted, _FIELDS)
    changes = {name: _value(_OPTIONS[name], wanted) for name in _OPTIONS if name in wanted}
    if (
        settings.redact_secrets
        and not changes.get("redact_secrets", True)
        and not settings.allow_redaction_off
    ):
        raise OverrideError(f"{_PATH}.redact_secrets: redaction can't be switched off by a request here")
    if "session_id" in wanted:
        changes["session_id"] = _string(wanted, "session_id").strip() and wanted["session_id"]
    if "method" in wanted and (method := _string(wanted, "method")).strip().lower() not in _METHODS:
        raise OverrideError(
            f"tool output compression method must be lzw, repair, or auto, got '{_shown(method)}'"
        )
    if "memo" in wanted:
        _boolean(wanted, "memo")
    return replace(settings, **changes)


def _value(option: Option[Any], wanted: Mapping[str, Any]) -> Any:
    parser, name = option.row.parser, option.name
    if parser is MODE:
        return _mode(_string(wanted, name))
    if parser is FLAG:
        return _boolean(wanted, name)
    if parser.range is not None:
        return _integer(wanted, name, parser.range[1])
    return _string(wanted, name)


def apply_threshold(settings: Settings, value: str) -> Settings:
    """Return the settings for a request with an `X-Compression-Threshold` header. The header is `off`, or the
    number of tokens (`256`, `4k`) up to which a result gets only the safe stages. A token counts as four
    bytes. Raises OverrideError."""
    text = value.strip().lower()
    if text == "off":
        return replace(settings, mode=Mode.DISABLED)
    if settings.pause:
        return settings
    match = re.fullmatch(r"(\d{1,9})(k?)", text, re.ASCII)
    if match is None:
        raise OverrideError(
            f"X-Compression-Threshold must be off or a number of tokens, got '{_shown(value)}'"
        )
    tokens = int(match[1]) * (1024 if match[2] else 1)
    return replace(settings, min_bytes=tokens * _BYTES_PER_TOKEN)


def apply_switch(settings: Settings, value: str) -> Settings:
    """Return the settings for a request with an `X-Penumbra` header. These settings shorten nothing. Raises
    OverrideError."""
    if value.strip().lower() not in ("off", "observe"):
        raise OverrideError(f"X-Penumbra must be off or observe, got '{_shown(value)}'")
    return settings.untouched()


def is_observed(value: str) -> bool:
    """Return whether an `X-Penumbra` header asks only to show the changes that would be made."""
    return value.strip().lower() == "observe"


def _refuse_unknown(where: str, members: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for name in members:
        if name in allowed:
            continue
        if where == FIELD and name in _FIELDS:
            raise OverrideError(f"{where}.{name} is unknown, did you mean {_PATH}.{name}?")
        near = meant(name[:_SHOWN], allowed)
        hint = f"did you mean {near}?" if near else f"allowed: {', '.join(allowed)}"
        raise OverrideError(f"{where}.{_shown(name)} is unknown, {hint}")


def _shown(text: str) -> str:
    """Return the beginning of a client's value in a form that is safe in an error and in the log."""
    return errors.one_line(text[:_SHOWN])


def _mode(text: str) -> Mode:
    if (mode := parse_mode(text)) is None:
        raise OverrideError(
            f"tool output compression must be disabled, safe, standard, or aggressive, got '{_shown(text)}'"
        )
    return mode


def _string(wanted: Mapping[str, Any], name: str) -> str:
    value = wanted[name]
    if not isinstance(value, str):
        raise OverrideError(f"{_PATH}.{name} must be a string")
    return value


def _boolean(wanted: Mapping[str, Any], name: str) -> bool:
    value = wanted[name]
    if not isinstance(value, bool):
        raise OverrideError(f"{_PATH}.{name} must be a boolean")
    return value


def _integer(wanted: Mapping[str, Any], name: str, most: int) -> int:
    value = wanted[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OverrideError(f"{_PATH}.{name} must be a positive integer")
    if value > most:
        raise OverrideError(f"{_PATH}.{name} must be <= {most}")
    return value
