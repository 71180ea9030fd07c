"""Every knob, in one frozen dataclass, and where each value may come from.

Order of precedence: request > mitmproxy option > environment > YAML file > default. Requests are
`overrides.py`'s business; the other four are resolved here, knob by knob, from one table. Every
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

from penumbra.strategies import check
from penumbra.text.result import Mode, Policy

MAX_OUTPUT_BYTES_LIMIT = 1_048_576
OUTSIDE_STRATEGIES = ("simple", "api", "external_provider")
CHAINS = tuple(f"pipeline+{name}" for name in OUTSIDE_STRATEGIES)
AVAILABLE_STRATEGIES = ("pipeline", "passthrough", *OUTSIDE_STRATEGIES, *CHAINS)


class SettingsError(ValueError):
    """A bad value; the message is one line: key, what it got, what is allowed."""


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
    query_agnostic: bool = True


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
    target_ratio: float | None = None
    lossy: str = "auto"
    enable_expand_context: bool = True
    include_expand_hint: bool = True
    skip_tools: frozenset[str] = frozenset()
    dedup: bool = True
    session_id: str = ""
    """Set by requests only: results may also be duplicates of earlier requests of this session."""
    adopt: str = "auto"
    redact_secrets: bool = True
    allow_redaction_off: bool = False
    hosts: tuple[str, ...] = ()
    filter: str = ""
    intercept: str = "llm"
    threads: str = "auto"
    websocket: str = "downgrade"
    aws_signing: str = "off"
    database: str = ""
    database_max_bytes: int = 512 * 1024 * 1024
    ledger_ttl: float = 30 * 86_400.0
    originals_ttl: float = 86_400.0
    events: str = ""
    max_body_bytes: int = 64 * 1024 * 1024
    offload_bytes: int = 32 * 1024

    @property
    def outside(self) -> str:
        """The strategy that is asked beside the pipeline or instead of it; empty if there is none."""
        name = self.strategy.removeprefix("pipeline+")
        return name if name in OUTSIDE_STRATEGIES else ""

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


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value).strip()
    raise SettingsError("text")


def _flag(value: Any) -> bool:
    text = _text(value).lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise SettingsError("true or false")


def _choice(*allowed: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = _text(value).lower()
        if text not in allowed:
            raise SettingsError(", ".join(allowed[:-1]) + f" or {allowed[-1]}")
        return text

    return parse


def _strategy(value: Any) -> str:
    """One name, or a chain: names joined by `+`, or a list."""
    parts = [_text(part) for part in value] if isinstance(value, list) else _text(value).split("+")
    return _choice(*AVAILABLE_STRATEGIES)("+".join(part.strip() for part in parts))


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        text = _text(value).replace("_", "")
        if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or not low <= int(text) <= high:
            raise SettingsError(f"a whole number from {low} to {high}")
        return int(text)

    return parse


_SIZE_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def _size(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        match = re.fullmatch(
            r"(\d{1,15})\s*([kmg]?)(?:i?b)?", _text(value).lower().replace("_", ""), re.ASCII
        )
        size = int(match[1]) * _SIZE_UNITS[match[2]] if match else -1
        if not low <= size <= high:
            raise SettingsError(f"bytes from {low} to {high}, for example 65536 or 64k")
        return size

    return parse


_DURATION_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _duration(value: Any) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|)", _text(value).lower(), re.ASCII)
    seconds = float(match[1]) * _DURATION_UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise SettingsError("a time above zero, for example 30s, 5m, 12h or 30d")
    return seconds


def _ratio(value: Any) -> float | None:
    text = _text(value)
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


def _mode(value: Any) -> Mode:
    if (mode := parse_mode(_text(value))) is None:
        raise SettingsError("disabled, safe, standard or aggressive")
    return mode


def _method(value: Any) -> str:
    if (method := parse_method(_text(value))) is None:
        raise SettingsError("lzw, repair or auto")
    return method


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping) and set(value) == {"categories"}:
        value = value["categories"]
    parts = value if isinstance(value, list) else _text(value).split(",")
    return tuple(dict.fromkeys(name for part in parts if (name := _text(part))))


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: how it is spelled in each source, and how its value is read."""

    name: str
    parse: Callable[[Any], Any]
    help: str
    yaml: tuple[str, ...] = ()
    """Path in the YAML file; empty: `penumbra.<name>`."""
    environment: tuple[str, ...] = ()
    """Names beside PENUMBRA_<NAME>, after it in precedence."""

    @property
    def option(self) -> str:
        """Name of the mitmproxy option."""
        return f"penumbra_{self.name}"

    def read(self, key: str, value: Any) -> Any:
        """The parsed value. Raises SettingsError that names `key`."""
        try:
            return self.parse(value)
        except SettingsError as error:
            raise SettingsError(f"{key}: got {value!r}, allowed: {error}") from None


def _pipe(key: str) -> tuple[str, ...]:
    return ("pipes", "tool_output", key)


_HUGE = 1 << 40
KNOBS: tuple[Knob, ...] = (
    Knob(
        "mode",
        _mode,
        "How much is done to tool results: disabled, safe, standard or aggressive.",
        _pipe("mode"),
        ("FORGE_TOOL_OUTPUT_COMPRESSION",),
    ),
    Knob(
        "method",
        _method,
        "Dictionary method of the aggressive mode: lzw, repair or auto.",
        _pipe("method"),
        ("FORGE_TOOL_OUTPUT_COMPRESSION_METHOD",),
    ),
    Knob(
        "strategy",
        _strategy,
        "Who shortens a result; `pipeline+...`: the pipeline first, then whoever is asked.",
        _pipe("strategy"),
    ),
    Knob(
        "fallback_strategy",
        _choice("passthrough", "pipeline", "simple"),
        "Who shortens a result when the strategy fails or takes too long.",
        _pipe("fallback_strategy"),
    ),
    Knob("strategy_deadline", _duration, "How long a request waits for its strategy, all results together."),
    Knob("chain_bytes", _size(0, _HUGE), "In a chain, smaller results of the pipeline are sent to nobody."),
    Knob("cost_check", _flag, "Ask a strategy only where that is expected to cost less than it saves."),
    Knob(
        "allow_captured_credentials",
        _flag,
        "Let external_provider spend the credential of the client whose result it is (auth: oauth).",
    ),
    Knob("provider", _text, "Entry of `providers` that external_provider asks.", _pipe("provider")),
    Knob(
        "min_bytes", _size(0, _HUGE), "Results up to this size get the safe stages only.", _pipe("min_bytes")
    ),
    Knob(
        "max_bytes",
        _size(1, _HUGE),
        "Results above this size are not sent to a strategy.",
        _pipe("max_bytes"),
    ),
    Knob(
        "max_output_bytes",
        _size(1, MAX_OUTPUT_BYTES_LIMIT),
        "Results above this size are cut around their critical lines.",
        _pipe("max_output_bytes"),
    ),
    Knob("target_ratio", _ratio, "Wanted size of a result relative to its original.", _pipe("target_ratio")),
    Knob(
        "lossy",
        _choice("auto", "on", "off"),
        "Stages that leave something out: on, off, or auto (where the model can ask for the original).",
    ),
    Knob(
        "enable_expand_context",
        _flag,
        "Let the model ask for the original of a shortened result.",
        _pipe("enable_expand_context"),
    ),
    Knob(
        "include_expand_hint",
        _flag,
        "Add one line to a shortened result that tells how to ask.",
        _pipe("include_expand_hint"),
    ),
    Knob(
        "skip_tools",
        lambda value: frozenset(_names(value)),
        "Categories or names of tools whose results are redacted only, separated by commas.",
        _pipe("skip_tools"),
    ),
    Knob("dedup", _flag, "Replace a result that stands earlier in the same request by a reference."),
    Knob(
        "adopt",
        _choice("auto", "raw", "compress"),
        "Results that the provider has already seen without Penumbra: auto, raw or compress.",
    ),
    Knob("redact_secrets", _flag, "Take secrets out of tool results."),
    Knob("allow_redaction_off", _flag, "Let a request switch redaction off."),
    Knob("hosts", _names, "Further hosts of LLM APIs (globs allowed), separated by commas."),
    Knob("filter", _text, "mitmproxy filter expression: only matching flows are touched."),
    Knob(
        "intercept",
        _choice("llm", "all"),
        "TLS connections to decrypt: llm (known hosts only, the rest is tunnelled) or all.",
    ),
    Knob(
        "threads",
        _choice("auto", "pass", "refuse"),
        "Conversations that Anthropic holds as message threads: pass them, refuse them so that the client "
        "sends its whole history, or auto (refuse where the client is known to go on).",
    ),
    Knob(
        "websocket",
        _choice("downgrade", "pass"),
        "Responses over WebSocket: downgrade (refuse the upgrade, after which clients use HTTP) or pass.",
    ),
    Knob(
        "aws_signing",
        _choice("off", "environment"),
        "Signed requests to Amazon Bedrock: off (left alone) or environment (signed anew, with the keys of "
        "the AWS_* variables).",
    ),
    Knob(
        "database", _text, "SQLite file for decisions; `memory` for none; default: the user's state folder."
    ),
    Knob(
        "database_max_bytes",
        _size(1024 * 1024, _HUGE),
        "Size at which the oldest entries leave the database.",
    ),
    Knob("ledger_ttl", _duration, "How long decisions are remembered after their last use."),
    Knob("originals_ttl", _duration, "How long originals are kept after their last use."),
    Knob("events", _text, "File to append one JSON line per changed request to, without any content."),
    Knob("max_body_bytes", _size(1024, _HUGE), "Decoded request bodies above this size pass untouched."),
    Knob("offload_bytes", _size(0, _HUGE), "Bodies above this size are worked on outside of the event loop."),
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
    return bool(Knob("enabled", _flag, "").read(key, value))


_Record = TypeVar("_Record", Provider, Api)
_RECORD_PARSERS: dict[str, Callable[[Any], Any]] = {"timeout": _duration, "query_agnostic": _flag}


def _record(kind: type[_Record], key: str, value: Any) -> _Record:
    known = {item.name for item in fields(kind)}
    found: dict[str, Any] = {}
    for name, item in _mapping(key, value).items():
        if name not in known:
            raise SettingsError(f"{key}.{name}: unknown key, allowed: {', '.join(sorted(known))}")
        parse = _RECORD_PARSERS.get(name, _text)
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
