"""The YAML file: what stands in it, and where in it each setting has its place.

What stands where nothing is read would be ignored without a word, and with it, for instance, a wish to
search more for secrets; so it is an error, which names the right place or the nearest name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from penumbra import yaml_bounds
from penumbra.config.option import Option, read_value
from penumbra.config.options import OPTIONS
from penumbra.config.parsers import DURATION, FLAG, TEXT, Parser, SettingsError, meant, shown
from penumbra.config.services import Api, Provider


class Filled(str):
    """A text in which variables were put; told as it stands in the file."""

    raw: str

    def __repr__(self) -> str:
        return repr(self.raw)


@dataclass
class Variables:
    """`${NAME}` in the texts of a file, and what was put in: an error must not show it."""

    environment: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict)

    def substitute(self, value: Any) -> Any:
        """`${NAME}` and `${NAME:-default}` in every text; an unset name is empty, as in a shell."""
        if isinstance(value, str):
            filled = Filled(_VARIABLE.sub(self._value, value))
            filled.raw = value
            return filled
        if isinstance(value, list):
            return [self.substitute(item) for item in value]
        if isinstance(value, dict):
            return {key: self.substitute(item) for key, item in value.items()}
        return value

    def _value(self, match: re.Match[str]) -> str:
        value = self.environment.get(match[1], "")
        if value:
            self.used[value] = f"${{{match[1]}}}"
        return value or match[2] or ""

    def hide(self, text: str) -> str:
        """A message with the names of variables instead of what they hold."""
        for value in sorted(self.used, key=len, reverse=True):
            for form in {value, repr(value)[1:-1], value.lower(), value.strip()}:
                if len(form) > _TOO_SHORT_TO_HIDE:
                    text = text.replace(form, self.used[value])
        return text


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,99})(?::-([^}]{0,999}))?\}")
_TOO_SHORT_TO_HIDE = 3
"""No credential is as short as that, and in a message it would stand in other words."""
_TOP = ("providers", "pipes", "penumbra")
_OF_OTHERS = (
    *("server", "urls", "store", "monitoring", "preemptive", "bedrock", "cost_control"),
    *("metadata", "notifications"),
)
"""Sections of the field's own files, which mean nothing here."""
_PIPES = ("tool_output",)
_PIPES_OF_OTHERS = ("tool_discovery", "task_output")
_TOOL_OUTPUT = "pipes.tool_output"
_INSTEAD = {
    "min_tokens": "it is min_bytes; a token is about four bytes",
    "max_tokens": "it is max_bytes; a token is about four bytes",
    "target_compression_ratio": "it is target_ratio, the part that stays",
    "refusal_threshold": "whatever is smaller is taken: leave it out",
    "bypass_cost_check": "it is cost_check under penumbra, and false there",
}
"""Keys of the field's own files that have another name."""
_BY_NAME = {option.name: option for option in OPTIONS}
_IN_PIPE = {option.name: option for option in OPTIONS if option.row.pipe}
_PLACES = {
    **{option.name: option.place for option in OPTIONS},
    "enabled": "pipes.tool_output.enabled",
    "api": "pipes.tool_output.api",
    **{name: name for name in _TOP},
    **{name: f"pipes.{name}" for name in _PIPES},
}


def read(path: Path, variables: Variables, values: dict[str, Any]) -> Iterator[tuple[Option[Any], str, Any]]:
    """The options that the file sets; `providers` and `api` go into `values` at once.

    Raises SettingsError.
    """
    top = _mapping("penumbra_config", variables.substitute(_document(path)))
    _check_names("", top, (*_TOP, *_OF_OTHERS))
    if "providers" in top:
        entries = _mapping("providers", top["providers"])
        values["providers"] = {
            str(name): _record(Provider, f"providers.{name}", entry) for name, entry in entries.items()
        }
    pipes = _mapping("pipes", top.get("pipes"))
    _check_names("pipes", pipes, (*_PIPES, *_PIPES_OF_OTHERS))
    pipe = dict(_mapping("pipes.tool_output", pipes.get("tool_output")))
    if "api" in pipe:
        values["api"] = _record(Api, "pipes.tool_output.api", pipe.pop("api"))
    enabled = _switch("pipes.tool_output.enabled", pipe.pop("enabled", True))
    yield from _section(_TOOL_OUTPUT, pipe, _IN_PIPE, ("api", "enabled"))
    yield from _section("penumbra", _mapping("penumbra", top.get("penumbra")), _BY_NAME)
    if not enabled:
        yield _BY_NAME["mode"], "pipes.tool_output.enabled", "disabled"


def _document(path: Path) -> Any:
    try:
        document = yaml.safe_load(yaml_bounds.read(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SettingsError(f"penumbra_config: got {str(path)!r}: {reason}") from None
    except (yaml.YAMLError, RecursionError) as error:
        if isinstance(error, yaml_bounds.TooMuch):
            raise SettingsError(f"penumbra_config: {str(path)!r}: {error.problem}") from None
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"penumbra_config: {str(path)!r} is no YAML{line}") from None
    return {} if document is None else document


def _section(
    prefix: str,
    section: Mapping[str, Any],
    options: Mapping[str, Option[Any]],
    read_already: tuple[str, ...] = (),
) -> Iterator[tuple[Option[Any], str, Any]]:
    _check_names(prefix, section, (*options, *read_already))
    for key, value in section.items():
        if value is not None and value != "":
            yield options[key], f"{prefix}.{key}", value


def _check_names(prefix: str, section: Mapping[Any, Any], allowed: tuple[str, ...]) -> None:
    for key in section:
        if key in allowed:
            continue
        name = str(key)
        if prefix == _TOOL_OUTPUT and name in _INSTEAD:
            raise SettingsError(f"{prefix}.{name}: unknown key, here {_INSTEAD[name]}")
        where = f"{prefix}.{name}" if prefix else name
        plain = name.lower().replace("-", "_").removeprefix("penumbra_")
        if plain in allowed:
            raise SettingsError(f"{where}: unknown key, did you mean {plain}?")
        if plain in _PLACES:
            told = _wrong_value(plain, section[key]) or _PLACES[plain]
            raise SettingsError(f"{where}: it is not read here, its place is {told}")
        near = meant(plain, (*allowed, *_PLACES)) if not prefix else meant(plain, allowed)
        if near in allowed:
            raise SettingsError(f"{where}: unknown key, did you mean {near}?")
        if near:
            raise SettingsError(f"{where}: unknown key, did you mean {_PLACES[near]}?")
        raise SettingsError(f"{where}: unknown key, allowed: {', '.join(sorted(allowed))}")


def _wrong_value(name: str, value: Any) -> str:
    """What is wrong with the value of an option, whose place stands first; empty: it can be read."""
    option = _BY_NAME.get(name)
    if option is None or value is None or value == "":
        return ""
    try:
        option.read(option.place, value)
    except SettingsError as error:
        return str(error)
    return ""


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{key}: got {shown(value)}, allowed: a mapping")
    return value


def _switch(key: str, value: Any) -> bool:
    return read_value(FLAG, key, value)


_Record = TypeVar("_Record", Provider, Api)
_RECORD_PARSERS: Mapping[str, Parser[Any]] = {"timeout": DURATION, "query_agnostic": FLAG}


def _record(kind: type[_Record], key: str, value: Any) -> _Record:
    names = tuple(item.name for item in fields(kind))
    section = _mapping(key, value)
    _check_names(key, section, names)
    found: dict[str, Any] = {}
    for name, item in section.items():
        found[name] = read_value(_RECORD_PARSERS.get(name, TEXT), f"{key}.{name}", item)
    return kind(**found)
