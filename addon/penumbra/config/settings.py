"""The settings from where they may come from.

Order of precedence: request > mitmproxy option > environment > YAML file > default. Requests are the business
of `per_request.py`; the other four are resolved here, option by option, from the table in `options.py`. Every
value arrives as text (or as a YAML scalar) and is parsed as its row says, so that a bad one always gives the
same one-line error: key, value, what is allowed.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penumbra import errors
from penumbra.compress.result import Mode
from penumbra.config import store_url, strategy_check, yaml_file
from penumbra.config.option import VARIABLE
from penumbra.config.options import OPTIONS
from penumbra.config.options import Settings as Settings
from penumbra.config.parsers import SettingsError as SettingsError
from penumbra.config.parsers import meant
from penumbra.config.services import Api as Api
from penumbra.config.services import Provider as Provider
from penumbra.store import key_file
from penumbra.store.key_file import SharedPlace

_FILE_VARIABLE = f"{VARIABLE}CONFIG"
_LONGEST_LINE = 2_000
"""Characters of an error; a list of all settings fits."""
_EXPORTER = "opentelemetry-exporter-otlp-proto-http"


def config_path(option: str, environment: Mapping[str, str] = os.environ) -> str:
    """The YAML file: what the option `penumbra_config` names, else what PENUMBRA_CONFIG names."""
    return option or environment.get(_FILE_VARIABLE, "").strip()


def load(options: Mapping[str, str], environment: Mapping[str, str], config: str = "") -> Settings:
    """Settings from mitmproxy options (unset: empty text), environment and YAML file.

    `options` maps the names of options to text. Raises SettingsError for anything that can't be read, and for
    a strategy that lacks what it needs; what the environment put into the file is not shown.
    """
    variables = yaml_file.Variables(environment)
    try:
        return _load(options, environment, config, variables)
    except SettingsError as error:
        line = errors.one_line(variables.hide(str(error)))
        raise SettingsError(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…") from None


def _load(
    options: Mapping[str, str],
    environment: Mapping[str, str],
    config: str,
    variables: yaml_file.Variables,
) -> Settings:
    values: dict[str, Any] = {}
    if config:
        for option, key, value in yaml_file.read(Path(os.path.expanduser(config)), variables, values):
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
    settings = Settings(**values)
    _check_paths(settings, environment)
    _check_store(settings)
    _check_traces(settings)
    if settings.mode is not Mode.DISABLED and (lacking := strategy_check.missing(settings)):
        raise SettingsError(lacking)
    return settings


def _check_paths(settings: Settings, environment: Mapping[str, str]) -> None:
    """A home that is not known would make a folder of the name `~`."""
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
    if settings.store and (unreadable := store_url.unreadable_file(settings.store)):
        raise SettingsError(f"penumbra_store: {unreadable}, needed: one in PEM that the proxy may read")
    shared_place(settings)


def _check_traces(settings: Settings) -> None:
    if settings.traces == "on" and not _has_opentelemetry():
        raise SettingsError(
            f"penumbra_traces: needs the package {_EXPORTER}, which this Python lacks: "
            f"{shlex.quote(sys.executable)} -m pip install '{_EXPORTER}>=1.30'"
        )


def _has_opentelemetry() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def shared_place(settings: Settings) -> SharedPlace | None:
    """The store that several proxies share; None: there is none. Raises SettingsError."""
    try:
        return key_file.place(settings.store, settings.store_key)
    except key_file.StoreKeyError as error:
        raise SettingsError(f"penumbra_store_key: got {error}") from None


_VARIABLES = ("CONFIG", *(option.name.upper() for option in OPTIONS))
_OF_THE_FIELD = tuple(name for option in OPTIONS for name in option.row.environment)
_FIELD = "FORGE_"
"""What variables begin with that others gave their names."""
_OF_OTHERS = re.compile(r"TEST_\w+|SERVICE_\w+|PORT|PORT_\w+")
"""Those of our tests, and those that containers get for a neighbour of this name."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are none."""
    return sorted(
        name
        for name in environment
        if name.startswith(VARIABLE)
        and (rest := name.removeprefix(VARIABLE)) not in _VARIABLES
        and not _OF_OTHERS.fullmatch(rest)
    )


def database_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the database lies; None for `memory`."""
    if settings.database in ("memory", ":memory:"):
        return None
    if settings.database:
        return Path(os.path.expanduser(settings.database))
    state = environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "penumbra" / "penumbra.sqlite"
