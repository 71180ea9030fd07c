"""How the value of a setting is read: text, or a scalar or list of YAML, into what the setting holds.

Every reader raises SettingsError whose message says what is allowed.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penumbra import redaction
from penumbra.compress.result import Mode
from penumbra.config.tool_compaction import ToolCompaction


class SettingsError(ValueError):
    """A bad value; the message is one line: key, what it got, what is allowed."""


_NEAR = 0.78
"""Likeness from which a name is taken for a misspelling of another."""


def shown(value: Any) -> str:
    """A value as an error shows it: without what looks like a secret."""
    try:
        return redaction.redact(repr(value))
    except redaction.RedactionError:
        return "(hidden)"


def meant(word: str, known: Iterable[str]) -> str:
    """The known name that a word is probably a misspelling of; empty if there is none."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, _NEAR)), "")


def read_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value).strip()
    raise SettingsError("text")


def read_flag(value: Any) -> bool:
    text = read_text(value).lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise SettingsError("true or false")


def read_choice(*allowed: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = read_text(value).lower()
        if text not in allowed:
            raise SettingsError(", ".join(allowed[:-1]) + f" or {allowed[-1]}")
        return text

    return parse


def read_integer(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        text = read_text(value).replace("_", "")
        if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or not low <= int(text) <= high:
            raise SettingsError(f"a whole number from {low} to {high}")
        return int(text)

    return parse


_SIZE_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def read_size(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        match = re.fullmatch(
            r"(\d{1,15})\s*([kmg]?)(?:i?b)?", read_text(value).lower().replace("_", ""), re.ASCII
        )
        size = int(match[1]) * _SIZE_UNITS[match[2]] if match else -1
        if not low <= size <= high:
            raise SettingsError(f"bytes from {low} to {high}, for example 65536 or 64k")
        return size

    return parse


_DURATION_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def read_duration(value: Any) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|)", read_text(value).lower(), re.ASCII)
    seconds = float(match[1]) * _DURATION_UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise SettingsError("a time above zero, for example 30s, 5m, 12h or 30d")
    return seconds


def read_time_limit(value: Any) -> float:
    """Seconds, as `read_duration`; 0 for no limit."""
    return 0.0 if read_text(value) == "0" else read_duration(value)


def read_ratio(value: Any) -> float | None:
    text = read_text(value)
    if re.fullmatch(r"(?:0?\.\d{1,6}|1(?:\.0{1,6})?|0)", text, re.ASCII) and 0 < float(text) <= 1:
        return float(text)
    raise SettingsError("a number above 0 and up to 1")


_MODE_ALIASES = {
    **dict.fromkeys(("disabled", "off", "false", "none"), Mode.DISABLED),
    "safe": Mode.SAFE,
    **dict.fromkeys(("standard", "on", "true"), Mode.STANDARD),
    "aggressive": Mode.AGGRESSIVE,
}
_METHOD_ALIASES = {"lzw": "lzw", "repair": "repair", "re-pair": "repair", "auto": "auto"}


def parse_mode(text: str) -> Mode | None:
    """The mode that a word stands for, aliases included; None if it is none."""
    return _MODE_ALIASES.get(text.strip().lower())


def parse_method(text: str) -> str | None:
    """The dictionary method that a word stands for; None if it is none."""
    return _METHOD_ALIASES.get(text.strip().lower())


def read_mode(value: Any) -> Mode:
    if (mode := parse_mode(read_text(value))) is None:
        raise SettingsError("disabled, safe, standard or aggressive")
    return mode


def read_method(value: Any) -> str:
    if (method := parse_method(read_text(value))) is None:
        raise SettingsError("lzw, repair or auto")
    return method


def read_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping) and set(value) == {"categories"}:
        value = value["categories"]
    parts = value if isinstance(value, list) else read_text(value).split(",")
    return tuple(dict.fromkeys(name for part in parts if (name := read_text(part))))


_HOST = re.compile(r"[\w.*?!\[\]-]+|\[?[0-9A-Fa-f:.*?]+\]?")


def read_hosts(value: Any) -> tuple[str, ...]:
    """Names of hosts, globs allowed. A URL or a port would never match one."""
    names = read_names(value)
    for name in names:
        bare = re.sub(r"^\w+://", "", name).partition("/")[0]
        bare = bare.rpartition("@")[2]
        if re.fullmatch(r"[^:]*:\d+", bare):
            bare = bare.rpartition(":")[0]
        if bare != name and _HOST.fullmatch(bare):
            raise SettingsError(f"names of hosts, without scheme, port or path, did you mean {bare!r}?")
        # As NO_PROXY has it, where a dot at the beginning stands for all names that end so.
        if name.startswith(".") and _HOST.fullmatch(name[1:]):
            raise SettingsError(f"names of hosts, did you mean '*{name}'?")
        if not _HOST.fullmatch(name) or name.startswith(".") or ".." in name:
            raise SettingsError("names of hosts, for example llm.example.com or *.example.com")
    return names


def read_parameters(value: Any) -> ToolCompaction:
    """What is superseded, under the names of `ToolCompaction.read`: a mapping, or one as JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise SettingsError("a mapping, or one as JSON")
    return ToolCompaction.read(value)
