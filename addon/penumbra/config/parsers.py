"""This module parses values of options: texts, or scalars, lists or mappings of YAML. `Parser.read` accepts
each text that `Parser.write` returns, unless the text is empty. For a bad value, `read` raises SettingsError
with a message about the allowed values."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

from penumbra import redaction
from penumbra.compress.result import Mode

_PAGE_PLACE = re.compile(
    r"(?:(?P<host>[\w.-]+|\[[0-9a-f:.]+\]):)?(?P<port>[0-9]{1,5})", re.ASCII | re.IGNORECASE
)
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PagePlace:
    """A `PagePlace` is the address of the page. If the port is 0, browsers reach the page only through the
    proxy."""

    is_on: bool = True
    host: str = LOOPBACK
    port: int = 0

    def __str__(self) -> str:
        if not self.port:
            return "proxy" if self.is_on else "off"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return str(self.port) if self.host == LOOPBACK else f"{host}:{self.port}"


def page_place_of(text: str) -> PagePlace | None:
    """Return the place in a text: `off`, `proxy`, a port, or a host and a port. None for other texts."""
    if text in ("off", "false"):
        return PagePlace(is_on=False)
    if text in ("proxy", "on", "true"):
        return PagePlace()
    match = _PAGE_PLACE.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65_536:
        return None
    return PagePlace(host=(match["host"] or LOOPBACK).strip("[]"), port=int(match["port"]))


ALLOWED_STORES = "redis://HOST:PORT/0, rediss://HOST:PORT/0 or unix:///PATH"
_STORE_SCHEMES = ("redis", "rediss", "unix")
_STORE_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_STORE_PARAMETERS = {
    "db": r"\d{1,9}",
    **dict.fromkeys(("username", "password", "client_name", "ssl_password", *_STORE_FILES), ".*"),
    "ssl_cert_reqs": "none|optional|required",
    "ssl_check_hostname": "true|false|True|False|yes|no|1|0",
}
"""Allowed parameters in the address of a store, with patterns for their values. Other parameters change
replies or time limits, or are unknown to the client. Parameters for TLS begin with `ssl_`."""


def store_problem(text: str) -> str:
    """Return why the address of a store can't be used; empty if it can. The address is not quoted."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "its port is no number from 1 to 65535"
    try:
        # A value without `=` raises ValueError.
        named = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        return "the query needs NAME=VALUE"
    if parts.scheme not in _STORE_SCHEMES:
        return "it begins with none of them"
    if re.search(r"\s", text) or parts.fragment:
        return "it has a blank or a # in it"
    if port == 0:
        return "its port is no number from 1 to 65535"
    return _store_place(parts) or next(
        filter(None, (_store_parameter(parts.scheme, *one) for one in named)), ""
    )


def unreadable_file(text: str) -> str:
    """Return the parameter of an address with an unreadable file, and the reason; empty if there is none."""
    for name, value in parse_qsl(urlsplit(text).query):
        if name in _STORE_FILES:
            try:
                os.close(os.open(value, os.O_RDONLY))
            except (OSError, ValueError) as error:
                return f"{name}: got a file that can't be read ({getattr(error, 'strerror', error)})"
    return ""


def _store_place(parts: SplitResult) -> str:
    if parts.scheme == "unix":
        # After two slashes, the first part of the path would count as a host.
        return "" if parts.path and not parts.hostname else "its path does not begin with /"
    if not parts.hostname:
        return "it has no host"
    if not re.fullmatch(r"(?:/\d{0,9})?", parts.path, re.ASCII):
        return "the path after the host is no number of a database"
    return ""


def _store_parameter(scheme: str, name: str, value: str) -> str:
    if name not in _STORE_PARAMETERS:
        return f"the query has a name that is none of {', '.join(_STORE_PARAMETERS)}"
    if name.startswith("ssl_") and scheme != "rediss":
        return f"{name} needs rediss://"
    if not re.fullmatch(_STORE_PARAMETERS[name], value, re.ASCII | re.DOTALL):
        return f"{name} has another form than {_STORE_PARAMETERS[name]}"
    return ""


COMPACTION_NAMES = (
    *("inputTrimBytes", "outputTrimBytes", "excludedTools", "toolIdentifierFields"),
    *("toolOnly", "compactArguments", "staleReads"),
)
"""Names of the rules in YAML files and JSON."""


@dataclass(frozen=True, slots=True)
class ToolCompaction:
    """A `ToolCompaction` has the rules for calls that a later call replaces. Sizes are UTF-8 bytes."""

    input_trim_bytes: int = 100
    output_trim_bytes: int = 100
    excluded_tools: frozenset[str] = frozenset()
    tool_identifier_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tool_only: bool = False
    """True if all calls of a tool without identifier fields count as equal, with any arguments."""
    arguments: bool = False
    """True if large arguments of the replaced calls are removed, too."""
    stale_reads: bool = True
    """True if a later write of a file replaces a read of this file."""
    unknown: tuple[str, ...] = ()
    """Unknown names in the rules."""

    @classmethod
    def read(cls, section: Any) -> ToolCompaction:
        """Return the rules under the names of `COMPACTION_NAMES`. Values of a wrong type are ignored."""
        section = section if isinstance(section, Mapping) else {}
        fields = section.get("toolIdentifierFields")
        names = section.get("excludedTools")
        return cls(
            input_trim_bytes=_bytes(section.get("inputTrimBytes")),
            output_trim_bytes=_bytes(section.get("outputTrimBytes")),
            excluded_tools=frozenset(_texts(names)),
            tool_identifier_fields={
                tool: tuple(_texts(keys))
                for tool, keys in (fields.items() if isinstance(fields, Mapping) else ())
                if isinstance(tool, str) and _texts(keys)
            },
            tool_only=section.get("toolOnly") is True,
            arguments=section.get("compactArguments") is True,
            stale_reads=section.get("staleReads") is not False,
            unknown=tuple(str(name) for name in section if name not in COMPACTION_NAMES),
        )


def _bytes(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 100


def _texts(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, (list, tuple)) else []


class SettingsError(ValueError):
    """A `SettingsError` reports a bad value in one line. Parsers put the allowed values into the message."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parser(Generic[T]):
    """A `Parser` reads, checks and writes the values of one type."""

    read: Callable[[Any], T]
    """Function that returns the parsed value. Raises SettingsError."""
    choices: tuple[str, ...] = ()
    """Values that mitmproxy's editors of options offer; empty if no values are offered."""
    range: tuple[int, int] | None = None
    """Smallest and largest allowed value; None if values are no whole numbers."""
    write: Callable[[T], str] = str


_NEAR = 0.78
"""Smallest similarity (0 to 1) of a name and its misspelling."""


def shown(value: Any) -> str:
    """Return a value for an error message, without texts that may be secrets."""
    try:
        return redaction.redact(repr(value))
    except redaction.RedactionError:
        return "(hidden)"


def meant(word: str, known: Iterable[str]) -> str:
    """Return the known name of which a word is probably a misspelling; empty if there is none."""
    names = list(known)
    # A short word with two swapped letters has too little in common with the original for difflib.
    swapped = [name for name in names if len(name) > 2 and sorted(name) == sorted(word)]
    return next(iter(swapped or difflib.get_close_matches(word, names, 1, _NEAR)), "")


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


def read_store(value: Any) -> str:
    text = read_text(value)
    if text and (problem := store_problem(text)):
        raise SettingsError(
            f"{ALLOWED_STORES}; here {problem} (other characters of a password than letters and digits "
            f"have to be percent-encoded)"
        )
    return text


TEXT = Parser(read_text)
STORE = Parser(read_store)
FLAG = Parser(read_flag, ("true", "false"), write=lambda value: str(value).lower())


def listed(allowed: tuple[str, ...]) -> str:
    return ", ".join(allowed[:-1]) + f" or {allowed[-1]}"


def choice(*allowed: str) -> Parser[str]:
    """Return a parser that accepts the allowed words, in upper or lower case."""

    def read(value: Any) -> str:
        text = _switch_word(value).lower()
        if text not in allowed:
            raise SettingsError(listed(allowed))
        return text

    return Parser(read, allowed)


def _switch_word(value: Any) -> str:
    """Return a text. YAML 1.1 reads the words on and off as booleans, so booleans become these words
    again."""
    return ("on" if value else "off") if isinstance(value, bool) else read_text(value)


FOLDER = Parser(_switch_word)
"""Parser of the name of a folder, or `off`."""
_SIZE_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def size(low: int, high: int = 1 << 40) -> Parser[int]:
    """Return a parser of sizes from `low` to `high` bytes."""

    def read(value: Any) -> int:
        match = re.fullmatch(
            r"(\d{1,15})\s*([kmg]?)(?:i?b)?", read_text(value).lower().replace("_", ""), re.ASCII
        )
        size = int(match[1]) * _SIZE_UNITS[match[2]] if match else -1
        if not low <= size <= high:
            raise SettingsError(f"bytes from {low} to {high}, for example 65536 or 64k")
        return size

    return Parser(read, range=(low, high), write=lambda value: _with_unit(value, _SIZE_UNITS))


_DURATION_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def read_duration(value: Any) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|)", read_text(value).lower(), re.ASCII)
    seconds = float(match[1]) * _DURATION_UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise SettingsError("a time above zero, for example 30s, 5m, 12h or 30d")
    return seconds


def _with_unit(value: float, units: Mapping[str, float]) -> str:
    """Return a size or time in the largest unit that gives a whole number."""
    name, unit = max(
        ((name, unit) for name, unit in units.items() if value % unit == 0),
        key=lambda entry: entry[1],
        default=("", 1),
    )
    return f"{value / unit:g}{name}" if value else "0"


_WRITTEN_UNITS = {name: unit for name, unit in _DURATION_UNITS.items() if name}
DURATION = Parser(read_duration, write=lambda value: _with_unit(value, _WRITTEN_UNITS))


def read_ratio(value: Any) -> float | None:
    text = read_text(value)
    if re.fullmatch(r"(?:0?\.\d{1,6}|1(?:\.0{1,6})?|0)", text, re.ASCII) and 0 < float(text) <= 1:
        return float(text)
    raise SettingsError("a number above 0 and up to 1")


RATIO = Parser(read_ratio, write=lambda value: "" if value is None else f"{value:g}")
_MODE_ALIASES = {
    **dict.fromkeys(("disabled", "off", "false", "none"), Mode.DISABLED),
    "safe": Mode.SAFE,
    **dict.fromkeys(("standard", "on", "true"), Mode.STANDARD),
    "aggressive": Mode.AGGRESSIVE,
}


def parse_mode(text: str) -> Mode | None:
    """Return the mode with this name or alias; None for other words."""
    return _MODE_ALIASES.get(text.strip().lower())


def read_mode(value: Any) -> Mode:
    if (mode := parse_mode(read_text(value))) is None:
        raise SettingsError(listed(MODE.choices))
    return mode


MODE = Parser(read_mode, tuple(map(str, Mode)))
STRATEGY_ASKED = ("simple", "api", "external_provider")
"""Strategies that call a service, or cut texts without regard to the content."""
_STRATEGY = choice(
    "pipeline", "passthrough", *STRATEGY_ASKED, *(f"pipeline+{name}" for name in STRATEGY_ASKED)
)


def read_strategy(value: Any) -> str:
    """Return a strategy's name, or names joined by `+`. The value may also be a list of names."""
    parts = [read_text(part) for part in value] if isinstance(value, list) else read_text(value).split("+")
    return _STRATEGY.read("+".join(part.strip() for part in parts))


STRATEGY = Parser(read_strategy, _STRATEGY.choices)


def read_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping) and set(value) == {"categories"}:
        value = value["categories"]
    parts = value if isinstance(value, list) else read_text(value).split(",")
    return tuple(dict.fromkeys(name for part in parts if (name := read_text(part))))


def _write_names(names: Iterable[str]) -> str:
    return ",".join(sorted(names))


NAMES = Parser(lambda value: frozenset(read_names(value)), write=_write_names)
_HOST = re.compile(r"[\w.*?!\[\]-]+|\[?[0-9A-Fa-f:.*?]+\]?")


def read_hosts(value: Any) -> tuple[str, ...]:
    """Return names or globs of hosts. Raises SettingsError for a URL or a port, which would never match."""
    names = read_names(value)
    for name in names:
        bare = re.sub(r"^\w+://", "", name).partition("/")[0].rpartition("@")[2]
        if re.fullmatch(r"[^:]*:\d+", bare):
            bare = bare.rpartition(":")[0]
        if bare != name and _HOST.fullmatch(bare):
            raise SettingsError(f"names of hosts, without scheme, port or path, did you mean {bare!r}?")
        # In NO_PROXY, a dot at the beginning means all subdomains.
        if name.startswith(".") and _HOST.fullmatch(name[1:]):
            raise SettingsError(f"names of hosts, did you mean '*{name}'?")
        if not _HOST.fullmatch(name) or name.startswith(".") or ".." in name:
            raise SettingsError("names of hosts, for example llm.example.com or *.example.com")
    return names


def read_secrets_allow(value: Any) -> tuple[str, ...]:
    """Return the entries, which `redaction/rule.py` parses."""
    from penumbra.redaction.rule import Allowed

    entries = read_names(value)
    try:
        Allowed.of(entries)
    except redaction.RuleError as error:
        raise SettingsError(str(error)) from None
    return entries


def read_tool_compaction(value: Any) -> ToolCompaction:
    """Return the rules in a mapping or in JSON, under the names of `COMPACTION_NAMES`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise SettingsError("a mapping, or one as JSON")
    return ToolCompaction.read(value)


def read_page_place(value: Any) -> PagePlace:
    place = page_place_of(_switch_word(value).lower())
    if place is None:
        raise SettingsError("off, proxy, a port, or a host and a port, for example 8765")
    return place


PAGE_PLACE = Parser(read_page_place)
HOSTS = Parser(read_hosts, write=_write_names)
SECRETS_ALLOW = Parser(read_secrets_allow, write=",".join)
TOOL_COMPACTION = Parser(read_tool_compaction, write=lambda value: "")
"""Parser of `ToolCompaction`. All values are written as an empty text."""
