"""This module loads the settings from all their sources.

The order of precedence is: request, mitmproxy option, environment, YAML file, default. `per_request.py`
handles requests. This module handles the other sources, option by option. Each option's row in `options.py`
has the parser of its values. A bad value thus gives the same error from each of these sources: one line with
the key, the value and the allowed values.

An unknown key of the YAML file is an error, except in `tool_compaction`. The error names the right place, the
most similar key or all allowed keys. If unknown keys were ignored, a user with a misspelt key could believe
that more secrets are searched for.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from penumbra import rules
from penumbra.compress.result import Mode
from penumbra.config import parsers
from penumbra.config.options import OPTIONS, PREFIX, RETIRED, VARIABLE, Option, read_value
from penumbra.config.options import CompressionService as CompressionService
from penumbra.config.options import Provider as Provider
from penumbra.config.options import Settings as Settings
from penumbra.config.parsers import COMPACTION_NAMES, DURATION, FLAG, TEXT, Parser, meant, shown
from penumbra.config.parsers import SettingsError as SettingsError
from penumbra.errors import one_line
from penumbra.store import key_file
from penumbra.store.key_file import SharedPlace
from penumbra.wire.request_path import is_loopback


class Filled(str):
    """A `Filled` is a text in which variables were replaced. `repr` returns the text as in the file."""

    raw: str

    def __repr__(self) -> str:
        return repr(self.raw)


@dataclass
class Variables:
    """A `Variables` replaces `${NAME}` in the texts of a file, and hides the values in errors."""

    environment: Mapping[str, str]
    used: dict[str, str] = field(default_factory=dict)

    def substitute(self, value: Any) -> Any:
        """Return a value with `${NAME}` and `${NAME:-default}` replaced in every text. An unset variable is
        empty, as in a shell."""
        if isinstance(value, str):
            filled = Filled(_IN_TEXT.sub(self._value, value))
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
        """Return a message with the names of variables instead of their values."""
        for value in sorted(self.used, key=len, reverse=True):
            for form in {value, repr(value)[1:-1], value.lower(), value.strip()}:
                if len(form) > _TOO_SHORT_TO_HIDE:
                    text = text.replace(form, self.used[value])
        return text


_IN_TEXT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,99})(?::-([^}]{0,999}))?\}")
_TOO_SHORT_TO_HIDE = 3
"""Greatest length in characters of a value that is not hidden. Credentials are longer, and words of a message
could by chance contain a short value."""
_TOP = ("providers", "pipes", "penumbra")
_OF_OTHERS = (
    *("server", "urls", "store", "monitoring", "preemptive", "bedrock", "cost_control"),
    *("metadata", "notifications"),
)
"""Sections in the YAML files of other gateways. Penumbra ignores these sections."""
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
"""Advice about Penumbra's keys, by the key in the YAML files of other gateways."""
_BY_NAME = {option.name: option for option in OPTIONS}
_PLACES = {
    **{option.name: f"penumbra.{option.name}" for option in OPTIONS},
    "enabled": "pipes.tool_output.enabled",
    "api": "pipes.tool_output.api",
    **{name: name for name in _TOP},
    **{name: f"pipes.{name}" for name in _PIPES},
}


def read_yaml(
    path: Path, variables: Variables, values: dict[str, Any]
) -> Iterator[tuple[Option[Any], str, Any]]:
    """Yield the options in the file. `providers`, `api` and `retired` are written into `values`. Raises
    SettingsError."""
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
        values["api"] = _record(CompressionService, "pipes.tool_output.api", pipe.pop("api"))
    enabled = read_value(FLAG, "pipes.tool_output.enabled", pipe.pop("enabled", True))
    own = _mapping("penumbra", top.get("penumbra"))
    values["retired"] = tuple(f"penumbra.{name}" for name in (*pipe, *own) if name in RETIRED)
    yield from _section(_TOOL_OUTPUT, pipe)
    yield from _section("penumbra", own)
    if not enabled:
        yield _BY_NAME["mode"], "pipes.tool_output.enabled", "disabled"


def _document(path: Path) -> Any:
    try:
        document = yaml.safe_load(rules.read(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SettingsError(f"penumbra_config: got {str(path)!r}: {reason}") from None
    except (yaml.YAMLError, RecursionError) as error:
        if isinstance(error, rules.TooMuch):
            raise SettingsError(f"penumbra_config: {str(path)!r}: {error.problem}") from None
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"penumbra_config: {str(path)!r} is no YAML{line}") from None
    return {} if document is None else document


def _section(prefix: str, section: Mapping[str, Any]) -> Iterator[tuple[Option[Any], str, Any]]:
    _check_names(prefix, section, (*_BY_NAME, *RETIRED))
    for key, value in section.items():
        if value is not None and value != "" and key in _BY_NAME:
            yield _BY_NAME[key], f"{prefix}.{key}", value


def _check_names(prefix: str, section: Mapping[Any, Any], allowed: tuple[str, ...]) -> None:
    for key in section:
        if key in allowed:
            continue
        name = str(key)
        if prefix == _TOOL_OUTPUT and name in _INSTEAD:
            raise SettingsError(f"{prefix}.{name}: unknown key, here {_INSTEAD[name]}")
        where = f"{prefix}.{name}" if prefix else name
        known = (*allowed, *_PLACES)
        plain = name.lower().replace("-", "_").removeprefix("penumbra_")
        near = plain if plain in known else meant(plain, known)
        allowed_words = f"allowed: {', '.join(sorted({*allowed} - RETIRED.keys()))}"
        hint = f"did you mean {near if near in allowed else _PLACES[near]}?" if near else ""
        raise SettingsError(f"{where}: unknown key, {hint or allowed_words}")


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{key}: got {shown(value)}, allowed: a mapping")
    return value


_Record = TypeVar("_Record", Provider, CompressionService)
_RECORD_PARSERS: Mapping[str, Parser[Any]] = {"timeout": DURATION, "query_agnostic": FLAG}


def _record(kind: type[_Record], key: str, value: Any) -> _Record:
    names = tuple(item.name for item in fields(kind))
    section = _mapping(key, value)
    _check_names(key, section, names)
    found: dict[str, Any] = {}
    for name, item in section.items():
        found[name] = read_value(_RECORD_PARSERS.get(name, TEXT), f"{key}.{name}", item)
    return kind(**found)


_AUTHS = ("", "api_key", "oauth")


def service(settings: Settings) -> CompressionService:
    """Return the service of the strategy `api`: the section `api` of the YAML file. Missing values come from
    the entry of `providers` that the setting `provider` names."""
    named = settings.providers.get(settings.provider)
    if named is None:
        return settings.api
    own = settings.api
    key = own.api_key if own.endpoint else own.api_key or named.api_key
    return replace(own, endpoint=own.endpoint or named.endpoint, api_key=key, model=own.model or named.model)


def provider(settings: Settings) -> tuple[str, Provider | None]:
    """Return the name and the provider of the strategy `external_provider`: the named entry, the only entry,
    or the section `api`; None if there is none. An entry without a key uses the client's credential, if the
    settings allow this."""
    name, inline = settings.provider, settings.api
    if not name and len(settings.providers) == 1:
        name = next(iter(settings.providers))
    chosen = settings.providers.get(name)
    is_inline = bool(inline.endpoint or inline.api_key or inline.model)
    if chosen is None and is_inline and (not name or name in _own_endpoints()):
        chosen = Provider("", inline.model, inline.api_key, inline.endpoint)
        name = name or _name_of(inline.endpoint)
    if chosen is None:
        return name, None
    if not chosen.auth and not chosen.api_key and not chosen.endpoint and settings.allow_captured_credentials:
        chosen = replace(chosen, auth="oauth")
    return name, chosen


def _own_endpoints() -> dict[str, str]:
    return {name: entry["endpoint"] for name, entry in _known_providers().items()}


def _known_providers() -> Mapping[str, Any]:
    return rules.table("strategies.yaml")["providers"]  # type: ignore[no-any-return]


def _name_of(endpoint: str) -> str:
    """Return the name of the provider with an endpoint's host; empty if unknown."""
    host = urlsplit(endpoint).hostname if _is_url(endpoint) else None
    return next(
        (name for name, base in _own_endpoints().items() if host and urlsplit(base).hostname == host), ""
    )


def missing_for_strategy(settings: Settings) -> str:
    """Return a line about the setting that is missing or wrong; empty if the strategy can work."""
    if not (asked := settings.external_strategy):
        return ""
    if settings.lossy == "off":
        return f"lossy: got 'off', allowed: auto or on with the strategy {asked}, which leaves things out"
    if asked == "api":
        return _missing_of_api(settings)
    return _missing_of_provider(settings) if asked == "external_provider" else ""


def _missing_of_api(settings: Settings) -> str:
    if settings.provider and settings.provider not in settings.providers:
        allowed = ", ".join(sorted(settings.providers)) or "none, since there is no section `providers`"
        return f"pipes.tool_output.provider: got {shown(settings.provider)}, allowed: {allowed}"
    asked = service(settings)
    if not asked.endpoint:
        return "pipes.tool_output.api.endpoint: missing, needed by the strategy api"
    if not asked.endpoint.startswith("/") and not _is_url(asked.endpoint):
        return f"pipes.tool_output.api.endpoint: got {shown(asked.endpoint)}, allowed: an http or https URL"
    hosted = asked.endpoint.startswith("/") or (urlsplit(asked.endpoint).hostname or "").endswith(
        "compresr.ai"
    )
    if hosted and not asked.api_key:
        return "pipes.tool_output.api.api_key: missing, needed by the strategy api"
    return ""


def _missing_of_provider(settings: Settings) -> str:
    own = _own_endpoints()
    name, chosen = provider(settings)
    allowed = ", ".join(sorted({*own, *settings.providers}))
    if chosen is None:
        if not name:
            return f"pipes.tool_output.provider: missing, needed by external_provider, allowed: {allowed}"
        if name in own:
            return f"providers.{name}: missing, needed by the strategy external_provider"
        return f"pipes.tool_output.provider: got {shown(name)}, allowed: {allowed}"
    where = f"providers.{name}" if name in settings.providers else "pipes.tool_output.api"
    if chosen.auth not in _AUTHS:
        return f"{where}.auth: got {shown(chosen.auth)}, allowed: api_key or oauth"
    if name not in own and not chosen.endpoint:
        return f"{where}.endpoint: missing, needed for a provider other than {', '.join(sorted(own))}"
    if chosen.endpoint and not _is_url(chosen.endpoint):
        return f"{where}.endpoint: got {shown(chosen.endpoint)}, allowed: an http or https URL"
    if not chosen.model and name not in own:
        return f"{where}.model: missing, needed by the strategy external_provider"
    if chosen.auth == "oauth" and not settings.allow_captured_credentials:
        return (
            f"{where}.auth: oauth spends the clients' own credentials, "
            "which penumbra_allow_captured_credentials must allow"
        )
    if chosen.auth == "oauth" and chosen.endpoint and not _is_private(chosen.endpoint):
        return f"{where}.endpoint: got {shown(chosen.endpoint)}, allowed with auth: oauth: an https URL"
    if chosen.auth != "oauth" and not chosen.api_key and not chosen.endpoint:
        return f"{where}.api_key: missing, needed by the strategy external_provider"
    return ""


def _is_private(url: str) -> bool:
    """Return whether requests to a URL are encrypted, or stay on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def remarks(settings: Settings) -> Iterator[str]:
    """Yield warnings about settings, each in one line."""
    yield from retired_options(settings.retired)
    for name in settings.tool_compaction.unknown:
        near = meant(name, COMPACTION_NAMES)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(COMPACTION_NAMES)}"
        yield f"tool_compaction.{one_line(name)}: it is not read, {hint}"
    if settings.shortens and settings.external_strategy in ("api", "external_provider"):
        yield from _about_strategy(settings)


def _about_strategy(settings: Settings) -> Iterator[str]:
    name, asked = provider(settings)
    if settings.external_strategy != "external_provider" or asked is None:
        return
    logins = _known_providers().get(name, {}).get("logins")
    if asked.auth == "oauth" and not asked.endpoint and logins:
        yield f"providers.{name}: oauth spends what the client was authorised with, but {logins}"


CONFIG_OPTION = f"{PREFIX}config"


def declare(add: Callable[..., None]) -> None:
    """Declare the options by mitmproxy's `add_option`, with the choices that mitmproxy's editors show. All
    options are texts, and empty if not set. An option that is not set thus differs from an option with its
    default. With other types, mitmproxy silently drops an addon if a value can't be read."""
    words = "YAML file with Penumbra's settings; the next request after a change reads it again."
    add(CONFIG_OPTION, str, "", words)
    for option in OPTIONS:
        choices = option.row.parser.choices
        add(option.full_name, str, "", option.description, ("", *choices) if choices else None)


def unprefixed_options(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return one line for each name that resembles an option of Penumbra without the prefix. Names that are
    more similar to a name in `known` (options of mitmproxy and other addons) are left out."""
    ours = [option.name for option in OPTIONS]
    theirs = list(known)
    lines = []
    for name in names:
        near = name if name in ours else meant(name, [*ours, *theirs])
        if near in ours and not name.startswith(PREFIX.rstrip("_")):
            other = f", or mitmproxy's {near}" if near in theirs else ""
            lines.append(f"{one_line(name)}: unknown option, did you mean {PREFIX}{near}{other}?")
    return lines


def retired_options(keys: Iterable[str]) -> list[str]:
    """Return one line for each key that sets an option of an earlier version."""
    names = {key: re.sub(r"^(penumbra[._]|forge_tool_output_compression_)", "", key.lower()) for key in keys}
    return [
        f"{key}: this option is no longer read; instead: {RETIRED[name]}"
        for key, name in names.items()
        if name in RETIRED
    ]


def unknown_options(names: Iterable[str]) -> list[str]:
    """Return one line for each name with Penumbra's prefix that is no option."""
    ours = ["config", *(option.name for option in OPTIONS)]
    lines = []
    for name in names:
        if name.startswith(PREFIX.rstrip("_")) and name.removeprefix(PREFIX) not in RETIRED:
            near = meant(name.removeprefix(PREFIX), ours)
            hint = f"did you mean {PREFIX}{near}?" if near else "`penumbra proxy --help` names all"
            lines.append(f"{one_line(name)}: unknown option, {hint}")
    return lines


_FILE_VARIABLE = f"{VARIABLE}CONFIG"
_LONGEST_LINE = 2_000
"""Greatest number of characters of an error; a list of all settings fits."""
_EXPORTER = "opentelemetry-exporter-otlp-proto-http"


def config_path(option: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the YAML file: the option `penumbra_config`, else the variable PENUMBRA_CONFIG."""
    return option or environment.get(_FILE_VARIABLE, "").strip()


def load(options: Mapping[str, str], environment: Mapping[str, str], config: str = "") -> Settings:
    """Return the settings from mitmproxy's options, the environment and the YAML file. `options` maps the
    names of options to texts, which are empty if not set. Raises SettingsError for settings that can't be
    used. In the error, the names of the file's variables replace their values."""
    variables = Variables(environment)
    try:
        return _load(options, environment, config, variables)
    except SettingsError as error:
        line = one_line(variables.hide(str(error)))
        raise SettingsError(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…") from None


def _load(
    options: Mapping[str, str], environment: Mapping[str, str], config: str, variables: Variables
) -> Settings:
    values: dict[str, Any] = {}
    if config:
        for option, key, value in read_yaml(Path(os.path.expanduser(config)), variables, values):
            values[option.name] = option.read(key, value)
    for name in environment:
        if name.startswith(_FIELD) and name not in _OF_THE_FIELD and (near := meant(name, _OF_THE_FIELD)):
            raise SettingsError(f"{name}: unknown variable, did you mean {near}?")
    for name in unknown_variables(environment):
        if near := meant(name.removeprefix(VARIABLE), _VARIABLES):
            raise SettingsError(f"{name}: unknown variable, did you mean {VARIABLE}{near}?")
    for option in OPTIONS:
        for name in reversed(option.variables):
            if environment.get(name, "").strip():
                values[option.name] = option.read(name, environment[name])
        if options.get(option.name, "") != "":
            values[option.name] = option.read(option.full_name, options[option.name])
    variables_retired = (*(f"{VARIABLE}{name.upper()}" for name in RETIRED), _METHOD)
    values["retired"] = (
        *values.get("retired", ()),
        *(name for name in variables_retired if environment.get(name, "").strip()),
    )
    settings = Settings(**values)
    _check_paths(settings, environment)
    _check_store(settings)
    _check_traces(settings)
    if settings.mode is not Mode.DISABLED and (lacking := missing_for_strategy(settings)):
        raise SettingsError(lacking)
    return settings


def _check_paths(settings: Settings, environment: Mapping[str, str]) -> None:
    """Raise SettingsError if the path of the database begins with `~` because no home folder is known."""
    path = database_path(settings, environment)
    if path is not None and str(path).startswith("~"):
        raise SettingsError(
            f"penumbra_database: no home folder is known for {str(path)!r}: name a file, or set HOME"
        )


def _check_store(settings: Settings) -> None:
    if settings.store and find_spec("redis") is None:
        raise SettingsError(
            "penumbra_store: needs the package redis, which this Python lacks: "
            f"{shlex.quote(sys.executable)} -m pip install 'redis>=7.0'"
        )
    if settings.store and (unreadable := parsers.unreadable_file(settings.store)):
        raise SettingsError(f"penumbra_store: {unreadable}, needed: one in PEM that the proxy may read")
    shared_place(settings)


def _check_traces(settings: Settings) -> None:
    with suppress(ModuleNotFoundError):
        if settings.traces != "on" or find_spec("opentelemetry.exporter.otlp.proto.http") is not None:
            return
    raise SettingsError(
        f"penumbra_traces: needs the package {_EXPORTER}, which this Python lacks: "
        f"{shlex.quote(sys.executable)} -m pip install '{_EXPORTER}>=1.30'"
    )


def shared_place(settings: Settings) -> SharedPlace | None:
    """Return the store that several proxies share; None if there is none. Raises SettingsError."""
    try:
        return key_file.place(settings.store, settings.store_key)
    except key_file.StoreKeyError as error:
        raise SettingsError(f"penumbra_store_key: got {error}") from None


_VARIABLES = ("CONFIG", *(option.name.upper() for option in OPTIONS))
_METHOD = "FORGE_TOOL_OUTPUT_COMPRESSION_METHOD"
_OF_THE_FIELD = (*(name for option in OPTIONS for name in option.row.environment), _METHOD)
_FIELD = "FORGE_"
"""Prefix of variables that other programs also define."""
_VARIABLES_OF_OTHERS = re.compile(r"TEST_\w+|SERVICE_\w+|PORT|PORT_\w+")
"""Variables of the tests, and variables that container platforms set for a service named `penumbra`."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the unknown variables with Penumbra's prefix."""
    return sorted(
        name
        for name in environment
        if name.startswith(VARIABLE)
        and (rest := name.removeprefix(VARIABLE)) not in _VARIABLES
        and rest.lower() not in RETIRED
        and not _VARIABLES_OF_OTHERS.fullmatch(rest)
    )


def database_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of the database; None if the database is in memory."""
    if settings.database in ("memory", ":memory:"):
        return None
    if settings.database:
        return Path(os.path.expanduser(settings.database))
    state = environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "penumbra" / "penumbra.sqlite"
