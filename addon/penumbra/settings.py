"""Every setting, in one frozen dataclass, and where each value may come from.

Order of precedence: request > mitmproxy option > environment > YAML file > default. Requests are
`overrides.py`'s business; the other four are resolved here, knob by knob, from the table in `knobs.py`. Every
value arrives as text (or as a YAML scalar) and is parsed by its knob, so that a bad one always
gives the same one-line error: key, value, what is allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from penumbra.history.superseded import Parameters
from penumbra.knobs import KNOBS, OUTSIDE_STRATEGIES, Knob
from penumbra.readers import SettingsError as SettingsError
from penumbra.readers import read_duration, read_flag, read_text
from penumbra.redaction import MAX_BYTES
from penumbra.strategies import check
from penumbra.text.result import Mode, Policy


@dataclass(frozen=True, slots=True)
class Provider:
    """An entry of the YAML file's `providers`: whom to ask for a summary."""

    auth: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class Api:
    """The YAML file's `pipes.tool_output.api`: a service that shortens results."""

    endpoint: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    timeout: float = 30.0
    """Seconds."""
    query_agnostic: bool = False
    """The service is not told what the user wants to know."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator decided. Sizes are UTF-8 bytes unless the name says otherwise."""

    mode: Mode = Mode.STANDARD
    method: str = "auto"
    strategy: str = "pipeline"
    fallback_strategy: str = "pipeline"
    strategy_deadline: float = 15.0
    """Seconds that a request waits for all answers of its strategy."""
    chain_bytes: int = 8_192
    cost_check: bool = True
    allow_captured_credentials: bool = False
    provider: str = ""
    providers: Mapping[str, Provider] = field(default_factory=dict)
    api: Api = field(default_factory=Api)
    min_bytes: int = 512
    max_bytes: int = 65_536
    max_output_bytes: int = 65_536
    stage_budget: float = 2.0
    target_ratio: float | None = None
    lossy: str = "auto"
    enable_expand_context: bool = True
    include_expand_hint: bool = True
    skip_tools: frozenset[str] = frozenset()
    dedup: bool = True
    session_id: str = ""
    """Set by requests only: results may also be duplicates of earlier requests of this session."""
    adopt: str = "auto"
    supersede: str = "idle"
    tool_compaction: Parameters = field(default_factory=Parameters)
    aggregate_budget_bytes: int = 0
    """Of all results of a request together; 0: no limit."""
    budget_window_share: float | None = None
    """The same as a part of the model's window, where that is known."""
    compaction_budget_bytes: int = 0
    """Of the messages of a request for a summary, where nothing of it is cached; 0: by the window."""
    bound_thinking: str = "keep"
    recover: str = "auto"
    context_guard: str = "on"
    redact_secrets: bool = True
    redact_scope: str = "results"
    redaction_failure: str = "refuse"
    redaction_max_bytes: int = MAX_BYTES
    unknown_paths: str = "redact"
    allow_redaction_off: bool = False
    restore_secrets: str = "off"
    blank_flows: str = "off"
    gitleaks_config: str = ""
    gitleaks_only: bool = False
    hosts: tuple[str, ...] = ()
    filter: str = ""
    intercept: str = "llm"
    threads: str = "pass"
    websocket: str = "rewrite"
    aws_signing: str = "off"
    database: str = ""
    database_max_bytes: int = 512 * 1024 * 1024
    ledger_ttl: float = 30 * 86_400.0
    originals_ttl: float = 86_400.0
    events: str = ""
    max_body_bytes: int = 128 * 1024 * 1024
    offload_bytes: int = 32 * 1024

    @property
    def outside(self) -> str:
        """The strategy that is asked beside the pipeline or instead of it; empty if there is none."""
        name = self.strategy.removeprefix("pipeline+")
        return name if name in OUTSIDE_STRATEGIES else ""

    @property
    def must_search(self) -> bool:
        """Whether what can't be searched for secrets is not sent."""
        return self.redact_secrets and self.redaction_failure != "pass"

    def policy(self, *, can_expand: bool) -> Policy:
        """The part of the settings that decides about forwarded bytes."""
        mode = self.mode if self.strategy.startswith("pipeline") else Mode.DISABLED
        return Policy(
            mode=mode,
            method=self.method,
            lossy=self.lossy == "on" or (self.lossy == "auto" and can_expand),
            min_bytes=self.min_bytes,
            max_output_bytes=self.max_output_bytes,
            target_ratio=self.target_ratio,
        )


_BY_NAME = {knob.name: knob for knob in KNOBS}


def load(options: Mapping[str, str], environment: Mapping[str, str], config: str = "") -> Settings:
    """Settings from mitmproxy options (unset: empty text), environment and YAML file.

    `options` maps knob names to text. Raises SettingsError for anything that can't be read, and for
    a strategy that lacks what it needs.
    """
    values: dict[str, Any] = {}
    if config:
        for knob, key, value in _from_file(Path(config).expanduser(), environment, values):
            values[knob.name] = knob.read(key, value)
    for knob in KNOBS:
        for name in reversed((f"PENUMBRA_{knob.name.upper()}", *knob.environment)):
            if environment.get(name, "").strip():
                values[knob.name] = knob.read(name, environment[name])
        if options.get(knob.name, "") != "":
            values[knob.name] = knob.read(knob.option, options[knob.name])
    settings = Settings(**values)
    if settings.mode is not Mode.DISABLED and (lacking := check.missing(settings)):
        raise SettingsError(lacking)
    return settings


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,99})(?::-([^}]{0,999}))?\}")


def _substitute(value: Any, environment: Mapping[str, str]) -> Any:
    """`${NAME}` and `${NAME:-default}` in every text of a value; an unset name is empty, as in a shell."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: environment.get(match[1], "") or match[2] or "", value)
    if isinstance(value, list):
        return [_substitute(item, environment) for item in value]
    if isinstance(value, dict):
        return {key: _substitute(item, environment) for key, item in value.items()}
    return value


def _from_file(
    path: Path, environment: Mapping[str, str], values: dict[str, Any]
) -> Iterator[tuple[Knob, str, Any]]:
    """The knobs that the file sets; `providers` and `api` go into `values` at once."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SettingsError(f"penumbra_config: got {str(path)!r}: {reason}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"penumbra_config: {str(path)!r} is no YAML{line}") from None
    document = _mapping("penumbra_config", _substitute({} if document is None else document, environment))
    if "providers" in document:
        entries = _mapping("providers", document["providers"])
        values["providers"] = {
            str(name): _record(Provider, f"providers.{name}", entry) for name, entry in entries.items()
        }
    pipe = dict(_mapping("pipes.tool_output", _mapping("pipes", document.get("pipes")).get("tool_output")))
    if "api" in pipe:
        values["api"] = _record(Api, "pipes.tool_output.api", pipe.pop("api"))
    enabled = _switch("pipes.tool_output.enabled", pipe.pop("enabled", True))
    yield from _section("pipes.tool_output", pipe, {knob.yaml[-1]: knob for knob in KNOBS if knob.yaml})
    own = _mapping("penumbra", document.get("penumbra"))
    yield from _section("penumbra", own, {knob.name: knob for knob in KNOBS})
    if not enabled:
        yield _BY_NAME["mode"], "pipes.tool_output.enabled", "disabled"


def _section(
    prefix: str, section: Mapping[str, Any], knobs: Mapping[str, Knob]
) -> Iterator[tuple[Knob, str, Any]]:
    for key, value in section.items():
        if key not in knobs:
            raise SettingsError(f"{prefix}.{key}: unknown key, allowed: {', '.join(sorted(knobs))}")
        if value is not None and value != "":
            yield knobs[key], f"{prefix}.{key}", value


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{key}: got {value!r}, allowed: a mapping")
    return value


def _switch(key: str, value: Any) -> bool:
    return bool(Knob("enabled", read_flag, "").read(key, value))


_Record = TypeVar("_Record", Provider, Api)
_RECORD_PARSERS: dict[str, Callable[[Any], Any]] = {"timeout": read_duration, "query_agnostic": read_flag}


def _record(kind: type[_Record], key: str, value: Any) -> _Record:
    known = {item.name for item in fields(kind)}
    found: dict[str, Any] = {}
    for name, item in _mapping(key, value).items():
        if name not in known:
            raise SettingsError(f"{key}.{name}: unknown key, allowed: {', '.join(sorted(known))}")
        parse = _RECORD_PARSERS.get(name, read_text)
        found[name] = Knob(name, parse, "").read(f"{key}.{name}", item)
    return kind(**found)


def database_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the database lies; None for `memory`."""
    if settings.database == "memory":
        return None
    if settings.database:
        return Path(settings.database).expanduser()
    state = environment.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "penumbra" / "penumbra.sqlite"
